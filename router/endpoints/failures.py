"""What went wrong on the wire, put into our words: the one place where an `EndpointError` is made.

In: a status with headers and body, an error object, or a broken exchange. Out: an `EndpointError`.
Invariant: no message holds a key or the value of a header; the upstream's own words are cut to 300 characters.
Pure: no client library is known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from router.endpoints.payload import parse
from router.errors import EndpointError

MOST_QUOTED_CHARACTERS = 300
_SHORTEST_SECRET = 6  # a shorter value would take ordinary words out of a message
# Keys of the vendors' own forms, and bearer tokens: an upstream may echo one that is not ours.
_KEY_SHAPES = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hs|or)-[\w-]{12,}|\bAIza[\w-]{20,}|(?<=[Bb]earer )[^\s\"',}]+")
_CODE = re.compile(r"[0-9]{1,9}")
_TAG = re.compile(r"(<[^<>]*>)")
_UNSEEN = re.compile(r"<(/?)(?:style|script)\b", re.IGNORECASE)
_Read = TypeVar("_Read")
_STATUS_KINDS = {
    401: "unauthorized",
    403: "unauthorized",
    404: "not_found",
    408: "timeout",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
POSSIBLY_BILLED_KINDS = frozenset({"timeout", "dropped", "cut", "server_error", "malformed"})


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends: what a message may name, and what it must not.

    Args:
        name: the endpoint's name.
        where: scheme, host and port it talks to, or the vendor's name.
        key_env: environment variable that holds the key, or None.
        secrets: texts that no message may hold.
    """

    name: str
    where: str
    key_env: str | None
    secrets: tuple[str, ...] = ()

    def scrub(self, text: str) -> str:
        """Return a text on one line, without secrets, cut to 300 characters."""
        for secret in self.secrets:
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, "[secret]")
        line = " ".join(_KEY_SHAPES.sub("[secret]", text).split())
        return line if len(line) <= MOST_QUOTED_CHARACTERS else line[: MOST_QUOTED_CHARACTERS - 1] + "…"

    def failure(self, kind: str, what: str, hint: str | None = None) -> EndpointError:
        """Return the error of a kind (see `ERROR_KINDS`); `what` is scrubbed."""
        message = f"endpoint {self.name} ({self.where}): {self.scrub(what)}"
        return EndpointError(kind, message, hint=hint, possibly_billed=kind in POSSIBLY_BILLED_KINDS)


def reading(sender: Sender, read: Callable[[], _Read]) -> _Read:
    """Return what a function reads out of an answer.

    Args:
        sender: who sent, for the message.
        read: reads; its own `EndpointError` is passed on.

    Raises:
        EndpointError: of kind "malformed", whatever else it stumbled over: the model has been at work by then.
    """
    try:
        return read()
    except EndpointError:
        raise
    except Exception as error:  # noqa: BLE001 - an answer may be wrong in ways that nobody has thought of
        failure = sender.failure("malformed", f"an answer that cannot be read: {type(error).__name__}: {error}")
    raise failure  # outside the handler, so that it carries no cause


def no_key(sender: Sender) -> EndpointError:
    """Return the error for a key that is not set; nothing was sent."""
    return sender.failure(
        "unauthorized",
        f"no key: environment variable {sender.key_env} is not set",
        hint=f"set {sender.key_env} in the environment or in .env",
    )


def unusable_key(sender: Sender) -> EndpointError:
    """Return the error for a key that no header can carry; nothing was sent."""
    return sender.failure(
        "unauthorized",
        f"the key in environment variable {sender.key_env} has a line break or control character in it",
        hint=f"set {sender.key_env} again, on one line",
    )


def status_kind(status: int) -> str:
    """Return the error kind of an HTTP status that is not 2xx."""
    return _STATUS_KINDS.get(status, "server_error" if status >= 500 else "rejected")


def from_status(
    sender: Sender, status: int, headers: Mapping[str, str], body: str, now: datetime, model: str | None = None
) -> EndpointError:
    """Return the error for an answer whose status is not 2xx.

    Args:
        sender: who sent.
        status: the HTTP status.
        headers: the answer's headers.
        body: the answer's body, or its beginning.
        now: the instant, UTC, that a `Retry-After` date is counted from.
        model: the model asked for, or None.
    """
    kind = status_kind(status)
    words = _words(body)
    what = f"HTTP {status}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        what = f"HTTP {status}: redirects are not followed, since the key would go along"
    error = sender.failure(kind, what, _status_hint(sender, status, model))
    error.status = status
    error.retry_after_s = retry_after_s(headers, now)
    return error


def _status_hint(sender: Sender, status: int, model: str | None) -> str | None:
    if status in (401, 403):
        if sender.key_env is None:
            return f"set key_env of endpoint {sender.name} to the environment variable that holds its key"
        return f"the key in {sender.key_env} was refused: mend {sender.key_env} in the environment or in .env"
    if status == 404:
        asked = f"model {model!r} or the" if model else "the"
        return f"check {asked} base_url of endpoint {sender.name}"
    if 300 <= status < 400:
        return f"set base_url of endpoint {sender.name} to where the API really is"
    return "the account has no credit left" if status == 402 else None


def from_error_object(sender: Sender, error: object) -> EndpointError:
    """Return the error for an error object in a 2xx answer or stream; the model may have been at work already."""
    fields = error if isinstance(error, Mapping) else {"message": error}
    code = fields.get("code")
    if isinstance(code, str) and _CODE.fullmatch(code):
        code = int(code)
    told = f"{code} {fields.get('type')}".lower()
    if isinstance(code, int) and 400 <= code <= 599:
        kind = status_kind(code)
    elif "rate_limit" in told:
        kind = "rate_limited"
    elif "overloaded" in told:
        kind = "overloaded"
    else:
        kind = "server_error"
    found = sender.failure(
        kind, f"error in the answer: {_message_of(fields)}", _status_hint(sender, _as_int(code), None)
    )
    found.status = 200
    found.possibly_billed = kind not in ("unauthorized", "not_found", "rejected", "rate_limited")
    return found


def _as_int(code: object) -> int:
    return code if isinstance(code, int) else 0


def _words(body: str) -> str:
    """Return the message of an error body, whatever its shape."""
    try:
        payload: Any = parse(body.encode("utf-8", "surrogatepass"))
    except ValueError:
        return _without_tags(body)
    if isinstance(payload, Mapping):
        error = payload.get("error", payload)
        return _message_of(error if isinstance(error, Mapping) else {"message": error})
    return body


def _message_of(fields: Mapping[str, Any]) -> str:
    message = next((fields[key] for key in ("message", "detail", "error_msg") if fields.get(key)), None)
    return message if isinstance(message, str) else json.dumps(message or dict(fields), default=str)


def _without_tags(body: str) -> str:
    """Return the text between the tags of a page, without styles and scripts; linear in its length."""
    seen, is_seen = [], True
    for at, piece in enumerate(_TAG.split(body)):  # text, tag, text, tag, … text
        if at % 2:
            unseen = _UNSEEN.match(piece)
            is_seen = bool(unseen[1]) if unseen else is_seen
        elif is_seen:
            seen.append(piece)
    return " ".join(seen)


def retry_after_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the wait the upstream asks for, seconds: `retry-after-ms`, or `Retry-After` as seconds or as a date.

    Args:
        headers: the answer's headers, looked up by their lower-case names or without regard to case.
        now: the instant, UTC, that a date is counted from; a date in the past is a wait of 0.

    Returns:
        A wait of 0 or more; None where none is asked for, or nothing that can be understood.
    """
    milliseconds = _wait(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _wait(text)
    if seconds is not None or text is None:
        return seconds
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # no date, or numbers in it that no date has
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return max(0.0, (instant - now).total_seconds())


def _wait(text: str | None) -> float | None:
    """Return a plain number of 0 or more, else None."""
    return float(text) if text is not None and re.fullmatch(r"\d{1,12}(\.\d*)?", text.strip()) else None


def secrets_in(key: str | None, headers: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the texts that no message may hold: the key, and the values of headers the caller adds; longest first."""
    found = {value for _, value in headers} | ({key} if key else set())
    found |= {value.rpartition(" ")[2] for value in found}
    return tuple(sorted(found, key=len, reverse=True))
