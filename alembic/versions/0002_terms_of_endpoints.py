"""The terms that an attempt was settled with: discount, mark-up, settlement, tax."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "terms",
        sa.Column("terms_id", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("terms_id", name=op.f("pk_terms")),
    )
    op.create_table(
        "attempt_terms",
        sa.Column("attempt_id", sa.Uuid(as_uuid=False), nullable=False),
        sa.Column("terms_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.attempt_id"], name=op.f("fk_attempt_terms_attempts")),
        sa.ForeignKeyConstraint(["terms_id"], ["terms.terms_id"], name=op.f("fk_attempt_terms_terms")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempt_terms")),
    )


def downgrade() -> None:
    op.drop_table("attempt_terms")
    op.drop_table("terms")
