"""What every table of router.toml is made of: its base and the types of its values.

In: values as TOML has them. Out: pydantic types. Invariant: a value is within its bounds and of its type, and text is
never taken for a number.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError, PydanticKnownError

from pricing.money import is_currency

Bounded = TypeVar("Bounded", int, float)


class Section(BaseModel):
    """A table of router.toml: unknown keys are faults, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


def _number(value: object) -> object:
    if isinstance(value, str | bool):
        raise PydanticCustomError("number_type", "should be a number, without quotes")
    return value


def _at_most(most: int) -> Callable[[Bounded], Bounded]:
    """Return a check that a number is not over a limit, in the words of pydantic's own."""

    def check(value: Bounded) -> Bounded:
        if value > most:
            raise PydanticKnownError("less_than_equal", {"le": most})
        return value

    return check


def _currency(code: str) -> str:
    if not is_currency(code):
        raise PydanticCustomError("currency", "should be an ISO 4217 code, like USD")
    return code


def plain_zero(value: Decimal) -> Decimal:
    """Return a zero without its exponent: as a fraction, 0e999999999 is a billion digits."""
    return value or Decimal(0)


def _rate(value: Decimal) -> Decimal:
    if not Decimal("1e-9") <= value <= Decimal("1e9"):
        raise PydanticCustomError("rate", "should be a number from 1e-9 to 1e9")
    return value


def is_url(text: str) -> bool:
    """Return whether a text is a whole http or https URL, without spaces or backslashes."""
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is none
        return False
    return is_whole and text.isprintable() and not any(sign.isspace() or sign == "\\" for sign in text)


def root_url(url: str) -> str:
    """Return a base URL without a slash at its end, or refuse it: `faults` never shows it."""
    if not is_url(url):
        raise PydanticCustomError("base_url", "should be a URL, like https://api.example.com/v1")
    if "@" in urlsplit(url).netloc:
        raise PydanticCustomError("base_url", "should hold no user or password: name a variable in key_env")
    if "?" in url or "#" in url:
        raise PydanticCustomError("base_url", "should hold no query: a key belongs in a variable, named in key_env")
    root = url.rstrip("/")
    if root.endswith("/chat/completions"):
        raise PydanticCustomError("base_url", "should end before /chat/completions")
    return root


Name = Annotated[str, Field(pattern=r"\S")]
Share = Annotated[Decimal, Field(ge=0, le=1, decimal_places=28), AfterValidator(plain_zero)]
Rate = Annotated[Decimal, Field(decimal_places=28), AfterValidator(_rate)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$"), AfterValidator(_currency)]
Day = Annotated[date, Field(strict=True)]
# The largest there is at all is no `le` of a type: it would stand in the place of a key's own.
Count = Annotated[int, Field(strict=True), AfterValidator(_at_most(10**9))]
Number = Annotated[float, BeforeValidator(_number)]
Seconds = Annotated[Number, AfterValidator(_at_most(86_400))]
Switch = Annotated[bool, Field(strict=True)]
