"""Damaged exports of every vendor: a file that is cut or of another encoding is refused whole; a bad line, alone."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.errors import WrongUsage
from router.ledger import Ledger
from router.ledger.importers.file import inspect_file
from router.ledger.importers.record import Record, Rejected
from router.ledger.importers.tally import ImportResult

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Take = Callable[..., ImportResult]
Write = Callable[..., Path]

TABLES = [
    ("openai", "openai_usage.csv"),
    ("anthropic", "anthropic_console.csv"),
    ("litellm", "litellm_spend_logs.csv"),
    ("langfuse", "langfuse_observations.csv"),
    ("openrouter", "openrouter_activity.csv"),
]
DOCUMENTS = [
    ("openai", "openai_usage.json"),
    ("anthropic", "anthropic_usage.json"),
    ("litellm", "litellm_spend_logs.json"),
    ("langfuse", "langfuse_observations.json"),
    ("openrouter", "openrouter_activity.json"),
]
LINES = [
    ("openai", "openai_other_usage.jsonl"),
    ("litellm", "litellm_spend_logs.jsonl"),
    ("langfuse", "langfuse_observations.jsonl"),
]


def _plain(found: tuple[list[Record], list[Rejected]]) -> Any:
    return found[0], [line.reason for line in found[1]]


@pytest.mark.parametrize(("source", "name"), TABLES + DOCUMENTS + LINES)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_changes_nothing(
    read: Read, write: Write, samples: Path, source: str, name: str, encoding: str
) -> None:
    text = (samples / name).read_text(encoding="utf-8")
    assert _plain(read(source, write(text.encode(encoding)))) == _plain(read(source, samples / name))


@pytest.mark.parametrize(("source", "name"), TABLES + DOCUMENTS + LINES)
def test_another_encoding_is_refused_whole(take: Take, write: Write, samples: Path, source: str, name: str) -> None:
    content = (samples / name).read_bytes()
    first = content.index(b"gpt") if b"gpt" in content else content.index(b"claude")
    path = write(content[:first] + "Zürich ".encode("latin-1") + content[first:])
    with pytest.raises(WrongUsage, match=r"is not UTF-8 text: .*nothing of it is imported"):
        take(None, source, path)


@pytest.mark.parametrize(("source", "name"), DOCUMENTS)
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_a_cut_document_is_refused_whole(
    take: Take, write: Write, samples: Path, source: str, name: str, share: float
) -> None:
    content = (samples / name).read_bytes().rstrip()
    path = write(content[: min(int(len(content) * share), len(content) - 1)])
    with pytest.raises(WrongUsage, match=r"nothing of the file is imported"):
        take(None, source, path)


@pytest.mark.parametrize(("source", "name"), LINES[1:])
def test_a_cut_line_is_rejected_alone(read: Read, write: Write, samples: Path, source: str, name: str) -> None:
    content = (samples / name).read_bytes().rstrip()
    whole, _ = read(source, samples / name)
    cut = b"\n".join([*content.split(b"\n")[:1], content.split(b"\n")[1][:40]])
    found, rejected = read(source, write(cut))
    assert found == whole[:1]
    assert [line.reason for line in rejected] == ["is not JSON: the file is cut"]


@pytest.mark.parametrize(("source", "name"), TABLES)
def test_a_row_of_another_width_is_rejected_alone(
    read: Read, write: Write, samples: Path, source: str, name: str
) -> None:
    text = (samples / name).read_text()
    expected, reasons = _plain(read(source, samples / name))
    found, [*before, last] = read(source, write(text + "too,short\n"))
    assert (found, [line.reason for line in before]) == (expected, reasons)
    assert last.reason.startswith("has 2 cells; the head has")


@pytest.mark.parametrize(
    ("source", "name", "old", "new"),
    [
        ("openai", "openai_usage.csv", ",59200.0,", ',"59,200",'),
        ("openai", "openai_usage.json", '"input_tokens": 59200', '"input_tokens": "59.200,0"'),
        ("anthropic", "anthropic_usage.json", '"output_tokens": 400000', '"output_tokens": "400 000"'),
        ("litellm", "litellm_spend_logs.csv", ",2100,2000,100,2026-10-01 10:00", ',2100,"2,000",100,2026-10-01 10:00'),
        ("langfuse", "langfuse_observations.json", '"output": 188', '"output": "1,188"'),
        ("openrouter", "openrouter_activity.csv", ",10000,", ',"10,000",'),
        ("openrouter", "openrouter_activity.json", "3000000", '"3,000,000"'),
    ],
)
def test_thousands_set_apart_are_rejected_with_a_way_out(
    read: Read, write: Write, samples: Path, source: str, name: str, old: str, new: str
) -> None:
    text = (samples / name).read_text()
    assert old in text
    expected, reasons = _plain(read(source, samples / name))
    found, rejected = read(source, write(text.replace(old, new, 1)))
    assert len(found) == len(expected) - 1
    [reason] = [line.reason for line in rejected if line.reason not in reasons]
    assert "--thousands" in reason or "decimal comma" in reason


@pytest.mark.parametrize(
    ("source", "name", "old", "new"),
    [
        ("anthropic", "anthropic_usage.json", "2026-10-01T00:00:00Z", "2026-10-01T02:00:00+02:00"),
        ("litellm", "litellm_spend_logs.json", "2026-10-01T10:00:00.000Z", "2026-10-01T19:00:00.000+09:00"),
        ("litellm", "litellm_spend_logs.csv", "2026-10-01 10:00:00.000", "2026-10-01T05:30:00-04:30"),
        ("langfuse", "langfuse_observations.csv", "2026-10-01T16:09:00.875Z", "2026-10-01T21:39:00.875+05:30"),
        ("openrouter", "openrouter_activity.csv", "2026-10-01 10:20:00.040", "2026-10-01T12:20:00.040+02:00"),
    ],
)
def test_zones_may_be_mixed(
    read: Read, write: Write, samples: Path, source: str, name: str, old: str, new: str
) -> None:
    text = (samples / name).read_text()
    assert old in text
    assert _plain(read(source, write(text.replace(old, new)))) == _plain(read(source, samples / name))


@pytest.mark.parametrize(("source", "name"), TABLES)
def test_rows_written_twice_count_once(
    ledger: Ledger, take: Take, write: Write, samples: Path, source: str, name: str
) -> None:
    head, *rows = (samples / name).read_text().splitlines(keepends=True)
    once = take(None, source, samples / name).rows
    result = take(ledger, source, write(head + "".join(rows) * 2))
    assert (result.rows, result.added, result.skipped) == (2 * once, once, once)


@pytest.mark.parametrize(("source", "name"), DOCUMENTS)
def test_documents_written_twice_count_once(
    ledger: Ledger, take: Take, write: Write, samples: Path, source: str, name: str
) -> None:
    once = take(None, source, samples / name).rows
    result = take(ledger, source, write((samples / name).read_text() * 2))
    assert (result.rows, result.added, result.skipped) == (2 * once, once, once)


@pytest.mark.parametrize(("source", "name"), DOCUMENTS)
@pytest.mark.parametrize("wrong", [None, 5, "text", [], {"results": 7}, {"data": "x"}])
def test_items_of_any_other_shape_are_rejected_and_explained(
    read: Read, write: Write, samples: Path, source: str, name: str, wrong: Any
) -> None:
    document = json.loads((samples / name).read_text())
    (document if isinstance(document, list) else document["data"]).append(wrong)
    found, rejected = read(source, write(json.dumps(document, indent=1)))
    expected, reasons = _plain(read(source, samples / name))
    assert (found, len(rejected)) == (expected, len(reasons) + 1)
    assert all(line.reason for line in rejected)


_STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["", '"', "{", "[]", "null", "1e400", "0x10", "\uff11\uff12", "2026-10-01", "1_000", "∞", "-0", '{"a": 1}']
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=5), st.integers() | st.none(), max_size=2),
)


@pytest.mark.parametrize(("source", "name"), DOCUMENTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_an_entry_holds_it_is_a_record_or_rejected(
    read: Read, tmp_path: Path, samples: Path, source: str, name: str, data: st.DataObject
) -> None:
    """Law: no value of an entry stops an import, and every count is a whole number of 0 or more."""
    document = json.loads((samples / name).read_text())
    owner, key = data.draw(st.sampled_from(_places(document)))
    owner[key] = data.draw(_STRANGE)
    path = tmp_path / "strange.json"
    path.write_text(json.dumps(document, indent=1))
    found, rejected = read(source, path)
    for record in found:
        assert record.counts is None or all(type(count) is int and count >= 0 for count in record.counts)
        assert isinstance(record.model, str)
        assert record.model
    assert all(line.reason and "\n" not in line.reason for line in rejected)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place inside the entries of a document where a value stands."""
    places: list[tuple[Any, Any]] = []
    waiting = [value if isinstance(value, list) else value["data"]]
    while waiting:
        each = waiting.pop()
        for key in each if isinstance(each, dict) else range(len(each)):
            places.append((each, key))
            if isinstance(each[key], dict | list):
                waiting.append(each[key])
    return places


@pytest.mark.parametrize("kind", ["table", "document"])
def test_a_file_that_is_one_endless_line_is_refused_in_little_memory(write: Write, kind: str) -> None:
    head = b"started,model\n" if kind == "table" else b"[1"
    path = write(head + b"1" * 200_000_000)
    tracemalloc.start()  # 200 MB of one document took 390 MB, of one table 450
    try:
        with pytest.raises(WrongUsage, match=r"is longer than [\d,]+ characters; nothing of the file is imported"):
            inspect_file(path)
        assert tracemalloc.get_traced_memory()[1] < 200_000_000
    finally:
        tracemalloc.stop()
