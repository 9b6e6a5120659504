"""The stand-in server's own record of what reached it: tests of retries, kills and double calls count here.

In: requests as they arrive and end. Out: `LogEntry` rows in order of arrival, and the same as lines of JSON in a file.
Invariant: a line is in the file (flushed) before the request is worked on, so a killed client or server loses none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO


@dataclass(slots=True)
class LogEntry:
    """One request that reached the server; the fields after `body_hash` are filled when it ends.

    Args:
        sequence: 1 for the first request.
        received: instant, ISO 8601 in UTC.
        model: the model asked for.
        streamed: whether a stream was asked for.
        body_hash: hash of the body, 16 hexadecimal digits: equal requests are equal here.
        idempotency_key: the request's `Idempotency-Key` header, or None.
        status: HTTP status sent; None: none was, or none yet.
        fault: what struck ("hang", "status", "cut_after" …), or None.
        served_model: the model named in the answer, or None.
        input_tokens: all input tokens.
        cached_tokens: those of them read from the prefix cache.
        output_tokens: tokens generated and sent.
        client_stayed: whether the client was there to the end; None: not over yet.
        seconds: how long it took.
        fields: the body's fields but for messages and tools.
    """

    sequence: int
    received: str
    model: str
    streamed: bool
    body_hash: str
    idempotency_key: str | None = None
    status: int | None = None
    fault: str | None = None
    served_model: str | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    client_stayed: bool | None = None
    seconds: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


class RequestLog:
    """Rows of one server, in memory, and in a file where a path is given (appended to)."""

    def __init__(self, path: Path | None = None) -> None:
        self.entries: list[LogEntry] = []
        self._started: dict[int, float] = {}
        self._file: TextIO | None = path.open("a", encoding="utf-8") if path is not None else None

    def received(
        self,
        model: str,
        *,
        streamed: bool,
        body_hash: str,
        idempotency_key: str | None,
        now_s: float,
        fields: Mapping[str, Any],
    ) -> LogEntry:
        """Add a request at the steady instant `now_s` (seconds), and return its row."""
        instant = datetime.now(UTC).isoformat(timespec="microseconds")
        entry = LogEntry(len(self.entries) + 1, instant, model, streamed, body_hash, idempotency_key, fields=fields)
        self.entries.append(entry)
        self._started[entry.sequence] = now_s
        if self._file is not None:
            self._write({"event": "received", **asdict(entry)})
        return entry

    def ended(self, entry: LogEntry, *, client_stayed: bool, now_s: float) -> None:
        """Complete a row at the steady instant `now_s` (seconds)."""
        entry.client_stayed = client_stayed
        entry.seconds = round(now_s - self._started.pop(entry.sequence, now_s), 6)
        if self._file is not None:
            self._write({"event": "ended", **asdict(entry)})

    def clear(self) -> None:
        """Forget the rows in memory; the file keeps its lines."""
        self.entries = []
        self._started = {}

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()


def read_log(path: Path) -> tuple[LogEntry, ...]:
    """Return the rows of a log file in order of arrival, one a request, whether or not it ever ended.

    A last line that was cut by a kill is left out.
    """
    entries: list[LogEntry] = []
    place: dict[int, int] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            fields = json.loads(text)
        except ValueError:
            continue
        event = fields.pop("event")
        entry = LogEntry(**fields)
        if event == "received" or entry.sequence not in place:
            place[entry.sequence] = len(entries)
            entries.append(entry)
        else:
            entries[place[entry.sequence]] = entry
    return tuple(entries)
