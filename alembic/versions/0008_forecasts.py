"""What was expected of runs and attempts before they were sent, beside what became of them."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_RUNS = ("expected_low_usd_nano", "expected_usd_nano", "expected_high_usd_nano", "experience_us")
_ATTEMPTS = (
    *("estimated_input_tokens", "expected_input_tokens"),
    *("expected_output_low_tokens", "expected_output_tokens", "expected_output_high_tokens"),
)


def upgrade() -> None:
    # Added as they stand, without a rule on their values: neither database then reads the rows that are there.
    for name in _RUNS:
        op.execute(f"ALTER TABLE runs ADD COLUMN {name} BIGINT")
    op.execute("ALTER TABLE attempts ADD COLUMN script TEXT")
    for name in _ATTEMPTS:
        op.execute(f"ALTER TABLE attempts ADD COLUMN {name} BIGINT")


def downgrade() -> None:
    for name in reversed(_ATTEMPTS):
        op.execute(f"ALTER TABLE attempts DROP COLUMN {name}")
    op.execute("ALTER TABLE attempts DROP COLUMN script")
    for name in reversed(_RUNS):
        op.execute(f"ALTER TABLE runs DROP COLUMN {name}")
