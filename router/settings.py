"""What the user has set: `router.toml`, environment and `.env`, as one frozen value.

In: the tables of a file (see `router.settings_file`). Out: `Settings`. Invariant: a value here is within its bounds and
of its type, text is never taken for a number, and a key (the secret itself) is never stored: only its variable's name.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from pricing.errors import PricingError
from pricing.fx import MAX_AGE_DAYS, FxRate, operator_rate, read_pair
from pricing.payment import Commitment, Credit
from router.section import (
    Count,
    Currency,
    Day,
    Name,
    Number,
    Rate,
    Seconds,
    Section,
    Share,
    Switch,
    plain_zero,
    root_url,
)
from router.settings_budgets import BudgetsSettings
from router.settings_context import ContextSettings
from router.settings_forecast import ForecastSettings
from router.settings_health import AlertSettings, GateSettings, HealthSettings
from router.settings_judge import JudgeSettings
from router.settings_plan import ByPlanSettings
from router.settings_tools import ToolSettings


class SettlementSettings(Section):
    """What one unit of list price really costs: `rate` units of `currency` for one unit of the list's currency."""

    currency: Currency
    rate: Rate


class CreditSettings(Section):
    """An amount that an endpoint's calls are paid from: see `pricing.payment.Credit`.

    Args:
        kind: "free" or "prepaid".
        amount: how much it held at first, in units of `currency`.
        currency: ISO 4217 code.
        starts: UTC day from whose midnight it may be used.
        expires: UTC day from whose midnight on what is left is gone; None: never.
    """

    kind: Literal["free", "prepaid"]
    amount: Decimal = Field(gt=0, max_digits=30, decimal_places=12)
    currency: Currency
    starts: Day
    expires: Day | None = None

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.expires is not None and self.expires <= self.starts:
            raise PydanticCustomError("days", "should have its expires after its starts")
        return self

    def credit(self) -> Credit:
        """Return it as pricing knows it."""
        return Credit(self.kind, self.currency, self.amount, self.starts, self.expires)


class CommitmentSettings(Section):
    """A committed tier of an endpoint: see `pricing.payment.Commitment`.

    Args:
        monthly_amount: settled spend a month that is paid for in any case, in units of `currency`.
        currency: ISO 4217 code.
        discount_share: stands in place of the endpoint's while the tier is in force, 0 to 1.
        starts: UTC day from whose midnight it is in force.
        ends: UTC day from whose midnight on it is not; None: until further notice.
    """

    monthly_amount: Decimal = Field(gt=0, max_digits=30, decimal_places=12)
    currency: Currency
    discount_share: Share
    starts: Day
    ends: Day | None = None

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.ends is not None and self.ends <= self.starts:
            raise PydanticCustomError("days", "should have its ends after its starts")
        return self

    def commitment(self) -> Commitment:
        """Return it as pricing knows it."""
        return Commitment(self.currency, self.monthly_amount, self.discount_share, self.starts, self.ends)

    def overlaps(self, other: CommitmentSettings) -> bool:
        """Return whether both are in force on some day."""
        return self.starts < (other.ends or date.max) and other.starts < (self.ends or date.max)


class EndpointSettings(Section):
    """One base URL with one key and one price list.

    Args:
        kind: "openai" (any OpenAI-compatible server) or "litellm" (any other vendor, by litellm).
        base_url: root of the API, ending before `/chat/completions`; kind "litellm" may do without.
        key_env: environment variable that holds the key; None where the server needs none.
        price_list: a catalogue list's name, or "vendor": each model at its own vendor's list.
        last_list: price a retired model at its last list, instead of leaving it unpriced.
        models: our model ids it serves, each with the id it knows them by; None: every model of the price list.
        concurrency: most requests in flight at once.
        first_concurrency: requests in flight at once before it has shown that it takes more.
        rpm: requests a minute, spread over it; None: not limited.
        tpm: tokens a minute, input and output; None: not limited.
        fallback: the endpoint that its calls go to while it is down, and after a failure; None: none.
        fallback_models: by model of ours, the model to ask for there, where it does not offer the same one.
        connect_timeout_s: longest wait for a connection, seconds.
        read_timeout_s: longest silence: to the next chunk of a stream, or to a whole answer, seconds.
        discount_share: share of the list price that is not paid, 0 to 1.
        markup_share: share charged on top of the discounted list price, 0 to 10.
        settlement: what a unit of list price costs; None: it costs itself.
        tax_share: tax on top of all that, where it is a cost, 0 to 1.
        credits: free and prepaid amounts that its calls are paid from.
        commitments: committed tiers, one at a time.
        extra: further body fields sent with every call.
    """

    kind: Literal["openai", "litellm"] = "openai"
    base_url: Annotated[str, AfterValidator(root_url)] | None = None
    key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    price_list: str = "vendor"
    last_list: Switch = False
    models: dict[Name, Name] | None = None
    concurrency: Count = Field(default=64, ge=1, le=10_000)
    first_concurrency: Count = Field(default=8, ge=1, le=10_000)
    rpm: Count | None = Field(default=None, ge=1)
    tpm: Count | None = Field(default=None, ge=1)
    fallback: Name | None = None
    fallback_models: dict[Name, Name] = Field(default_factory=dict)
    connect_timeout_s: Seconds = Field(default=5.0, gt=0)
    read_timeout_s: Seconds = Field(default=120.0, gt=0)
    discount_share: Share = Decimal(0)
    markup_share: Annotated[Decimal, AfterValidator(plain_zero)] = Field(
        default=Decimal(0), ge=0, le=10, decimal_places=28
    )
    settlement: SettlementSettings | None = None
    tax_share: Share = Decimal(0)
    credits: tuple[CreditSettings, ...] = ()
    commitments: tuple[CommitmentSettings, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _openai_has_a_url(self) -> Self:
        if self.kind == "openai" and self.base_url is None:
            raise PydanticCustomError("missing_url", 'needs a base_url, or kind = "litellm", or a preset')
        return self

    @field_validator("commitments")
    @classmethod
    def _one_tier_at_a_time(cls, tiers: tuple[CommitmentSettings, ...]) -> tuple[CommitmentSettings, ...]:
        if any(one.overlaps(other) for at, one in enumerate(tiers) for other in tiers[:at]):
            raise PydanticCustomError("commitments", "should not be in force on one day together: give ends")
        return tiers


class FixedSettings(Section):
    """A configuration that names its models.

    Args:
        orchestrator: plans and merges, and answers a task that needs no plan.
        worker: does one step of a plan.
        orchestrator_extra, worker_extra: further body fields of each one's calls, over those of the endpoint.
        extra: further body fields of the calls of both, under those.
    """

    policy: Literal["fixed"] = "fixed"
    orchestrator: Name
    worker: Name
    extra: dict[str, Any] = Field(default_factory=dict)
    orchestrator_extra: dict[str, Any] = Field(default_factory=dict)
    worker_extra: dict[str, Any] = Field(default_factory=dict)


class ClassRule(Section):
    """What a class of task may be given to.

    Args:
        quality_floor: least quality lower bound, 0 to 1; None: no floor.
        candidates: model ids to choose from.
        extra: further body fields of its calls, whichever candidate is chosen; over those of the configuration.
    """

    quality_floor: Number | None = Field(default=None, ge=0, le=1)
    candidates: tuple[Name, ...] = Field(min_length=1)
    extra: dict[str, Any] = Field(default_factory=dict)


class ByClassSettings(Section):
    """A configuration that takes, per class, the cheapest candidate for this request that is good enough.

    Args:
        default_class: the class of a task whose class is unknown.
        classes: rules that replace or extend the built-in ones.
        extra: further body fields of all its calls, over those of the endpoint.
    """

    policy: Literal["by_class"]
    default_class: str = "chat"
    extra: dict[str, Any] = Field(default_factory=dict)
    classes: dict[str, ClassRule] = Field(default_factory=dict)


ConfigurationSettings = Annotated[FixedSettings | ByClassSettings | ByPlanSettings, Field(discriminator="policy")]


class RetrySettings(Section):
    """How a failed attempt is tried again: `attempts` in all, waits of `base_s`·2ⁿ with full jitter, at most `max_s`.

    A `Retry-After` longer than `retry_after_max_s` is not waited for: the call fails and says so. Of an endpoint's
    requests within `budget_window_s`, `budget_share` of its calls and `budget_floor` more may be retries; those that
    follow a refusal (429, 503, 529) are paced by the gate and do not count.
    """

    attempts: Count = Field(default=4, ge=1, le=20)
    base_s: Seconds = Field(default=0.5, ge=0)
    max_s: Seconds = Field(default=8.0, gt=0)
    retry_after_max_s: Seconds = Field(default=60.0, ge=0)
    budget_share: Share = Decimal("0.1")
    budget_floor: Count = Field(default=10, ge=0)
    budget_window_s: Seconds = Field(default=60.0, gt=0)


class SwarmSettings(Section):
    """Bounds of a plan's execution.

    Args:
        concurrency: steps at once.
        step_timeout_s: longest time of one step, its waits and tools included, seconds.
        idle_timeout_s: longest time without a token of the model's answer, seconds; then the step counts as hung.
            Answers are streamed for that. 0: no such time, and they are not.
        redispatch: how often hung steps are run again, once all others have ended.
        redispatch_concurrency_share: share of the concurrency with which that is done, more than 0 to 1.
        run_timeout_s: longest time of a whole run, seconds; what is not done then is stopped. None: no limit.
        step_max_output_tokens: limit of a step's answer, tokens.
        max_steps: most steps of a plan.
        replan: how often an orchestrator is asked for a plan of what a failed step has left undone; 0: never.
    """

    concurrency: Count = Field(default=50, ge=1, le=10_000)
    step_timeout_s: Seconds = Field(default=45.0, gt=0)
    idle_timeout_s: Seconds = Field(default=15.0, ge=0)
    redispatch: Count = Field(default=1, ge=0, le=10)
    redispatch_concurrency_share: Number = Field(default=1 / 3, gt=0, le=1)
    run_timeout_s: Number | None = Field(default=None, gt=0, le=30 * 86_400)
    step_max_output_tokens: Count = Field(default=2048, ge=1)
    max_steps: Count = Field(default=1000, ge=1)
    replan: Count = Field(default=1, ge=0, le=10)


class DatabaseSettings(Section):
    """Where the ledger is. `url` is an SQLAlchemy URL; None: SQLite in the user's data folder."""

    url: str | None = Field(default=None, min_length=1, repr=False)


class FxRateSettings(Section):
    """An exchange rate of the user's own: one unit of `pair`'s first currency is `rate` of its second.

    Args:
        pair: as "CNY/USD".
        rate: 1e-9 to 1e9.
        starts: UTC day from which it holds.
        source: where it is from, in the user's words.
    """

    pair: str
    rate: Rate
    starts: Day
    source: str = Field(default="router.toml", min_length=1)

    @field_validator("pair")
    @classmethod
    def _pair_is_one(cls, pair: str) -> str:
        try:
            read_pair(pair)
        except PricingError:
            raise PydanticCustomError("pair", "should be two different ISO 4217 codes, like CNY/USD") from None
        return pair

    def fx_rate(self) -> FxRate:
        """Return it as pricing knows it."""
        return operator_rate(*read_pair(self.pair), self.rate, self.starts, self.source)


class FxSettings(Section):
    """How currencies are converted: days that a rate may be old, and rates that outrank all others of their day."""

    max_age_days: Count = Field(default=MAX_AGE_DAYS, ge=0, le=36_500)
    rates: tuple[FxRateSettings, ...] = ()


class Settings(Section):
    """Everything that is set, defaults included.

    Args:
        source: the router.toml that was read, or None.
        default_configuration: used where a task names none.
        configurations: named configurations, the built-in ones included.
        endpoints: named endpoints: those of the file, and presets whose key is set.
        aliases: other names of models.
        price_files: further price files, or folders of them.
        prices: price tables given inline, in the format of a price file.
        fx: exchange rates of the user's own, and how old one may be.
        gates: how the number of requests in flight follows what an endpoint takes.
        health: when an endpoint counts as down.
        alerts: where events are told.
        budgets: how monthly budgets work on calls.
        context: how much of what went before a prompt may hold.
        judge: which answers are judged, and what follows.
        forecast: what forecasts learn from the ledger.
        tools: MCP servers, and which of their tools may be called.
        store_prompts: whether task texts and answers are kept in the ledger for good.
        report_currency: ISO 4217 code that reports show.
        time_zone: IANA name that months and days are cut in.
    """

    source: Path | None = None
    default_configuration: str = "by_class"
    database: DatabaseSettings = DatabaseSettings()
    endpoints: dict[Name, EndpointSettings] = Field(default_factory=dict)
    configurations: dict[Name, ConfigurationSettings] = Field(default_factory=dict)
    aliases: dict[Name, Name] = Field(default_factory=dict)
    price_files: tuple[Path, ...] = ()
    prices: dict[str, Any] = Field(default_factory=dict)
    retry: RetrySettings = RetrySettings()
    swarm: SwarmSettings = SwarmSettings()
    fx: FxSettings = FxSettings()
    gates: GateSettings = GateSettings()
    health: HealthSettings = HealthSettings()
    alerts: tuple[AlertSettings, ...] = ()
    budgets: BudgetsSettings = BudgetsSettings()
    context: ContextSettings = ContextSettings()
    judge: JudgeSettings = JudgeSettings()
    forecast: ForecastSettings = ForecastSettings()
    tools: ToolSettings = ToolSettings()
    store_prompts: Switch = False
    report_currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    time_zone: str = "UTC"

    @field_validator("time_zone")
    @classmethod
    def _time_zone_exists(cls, name: str) -> str:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(name)
        except (KeyError, OSError, ValueError):  # not found; a folder of zones; a path
            raise PydanticCustomError("time_zone", "should be an IANA name, like UTC or Asia/Tokyo") from None
        return name
