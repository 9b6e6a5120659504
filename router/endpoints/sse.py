"""Server-sent events, cut out of bytes that arrive in pieces of any size.

In: chunks of bytes, split anywhere, also inside a character. Out: the `data` of each whole event, as bytes.
Rules: the event stream format of the HTML standard (html.spec.whatwg.org/multipage/server-sent-events.html): lines end
in LF, CR LF or CR; a line that begins with a colon is a comment; one space after `data:` is dropped; several data lines
are joined by LF; an empty line ends an event. Other fields are passed over, as is an event that was not ended; but the
one-line event `[DONE]` counts at the end of its line, since servers are found that close, or wait, right after it.
"""

from __future__ import annotations

from collections.abc import Iterator

DONE = b"[DONE]"
_BOM = b"\xef\xbb\xbf"


class EventBuffer:
    """Collects bytes and hands out the data of events as they become whole.

    Args:
        most_bytes: longest event that is collected.
    """

    def __init__(self, most_bytes: int) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._most_bytes = most_bytes
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the data of each event that this chunk completes.

        Raises:
            ValueError: an event is longer than the bound.
        """
        block = self._rest + chunk
        if self._is_first and len(block) >= len(_BOM):
            block, self._is_first = block.removeprefix(_BOM), False
        if b"\r" in block:
            # A CR at the very end may be half of a CR LF: it waits for the next chunk.
            held = b"\r" if block.endswith(b"\r") else b""
            block = block[: len(block) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            held = b""
        *lines, rest = block.split(b"\n")
        self._rest = rest + held
        if len(self._rest) + self._size > self._most_bytes:
            raise ValueError(f"an event is longer than {self._most_bytes} bytes")
        for line in lines:
            data = self._take(line)
            if data is not None:
                yield data

    def end(self) -> Iterator[bytes]:
        """Yield the end marker if it stands in a last line that was never ended."""
        if self._rest.strip() in (b"data: [DONE]", b"data:[DONE]"):
            self._rest = b""
            yield DONE

    def _take(self, line: bytes) -> bytes | None:
        """Take one whole line, and return an event's data if the line ends one that has any."""
        if line:
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                if not self._data and value.strip() == DONE:
                    return DONE
                self._data.append(value)
                self._size += len(value)
            elif line == b"data":
                self._data.append(b"")
            return None
        if not self._data:
            return None
        whole = b"\n".join(self._data)
        self._data, self._size = [], 0
        return whole
