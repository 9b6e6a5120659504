"""Files as people have them: read through before anything is written, or refused whole in one line."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from router.errors import WrongUsage
from router.ledger.importers.file import inspect_file
from router.ledger.importers.record import Rejected

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("content", "kind", "encoding"),
    [
        (b"a,b\n1,2\n", "table", "utf-8-sig"),
        (b"\xef\xbb\xbfa;b\n1;2\n", "table", "utf-8-sig"),
        ("a\tb\n1\t2\n".encode("utf-16"), "table", "utf-16"),
        (b'{"a": 1}\n{"a": 2}\n', "lines", "utf-8-sig"),
        (b'{"a": 1}', "lines", "utf-8-sig"),
        (b'{"a":\n1}', "document", "utf-8-sig"),
        (b'\n [{"a": 1}]', "document", "utf-8-sig"),
    ],
)
def test_a_file_is_what_its_content_says(write: Write, content: bytes, kind: str, encoding: str) -> None:
    for name, stored, compressed in (("plain", content, False), ("packed", gzip.compress(content), True)):
        file = inspect_file(write(stored, name))
        assert (file.kind, file.encoding, file.compressed, file.size_bytes) == (kind, encoding, compressed, len(stored))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"PK\x03\x04rest", "is a ZIP archive or a spreadsheet"),
        (b"\x28\xb5\x2f\xfdrest", "is Zstandard data"),
        (gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-9], "its gzip data is cut"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + b"00000000", "its gzip data is damaged"),
        (b"a,b\n1,Z\xfcrich\n", "is not UTF-8 text: invalid start byte after line 1; nothing of it"),
        ("a,b\n1,2\n".encode("utf-16-le"), "is not UTF-8 text: it has NUL bytes"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "is not UTF-16 text: its last character is cut"),
        (b"a,a\n1,2\n", "column 'a' is there twice"),
        (b'a,b\n1,"2\n3,4\n', "the row that begins in line 2 is not CSV: unexpected end of data; nothing of the file"),
        (b'a,b\n1,"2" x\n', "the row that begins in line 2 is not CSV"),
        (b'[{"a": 1},\n{"a": 2', "the JSON item that begins in line 2 cannot be read: it is cut; nothing of the file"),
        (b'[{"a": 1},\n{"a": "x', "it is cut"),
        (b'[{"a": 1}\n', "it is cut"),
        (b'[{"a": 1} {"a": 2}]', "a comma or ] is missing"),
        (b'[{"a": NaN}]', "NaN is no number of JSON"),
        (b'{"data":\n[{"a": 1}, {"a"', "it is cut"),
        (b"[" * 100_000, "it is nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_read_whole_is_refused(write: Write, content: bytes, message: str) -> None:
    with pytest.raises(WrongUsage, match=message) as caught:
        inspect_file(write(content))
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_an_encoding_that_is_stated_is_believed(write: Write) -> None:
    path = write("name,model\nZürich,ß\n".encode("cp1252"))
    _, rows = inspect_file(path, "cp1252").table()
    assert list(rows) == [(2, ["Zürich", "ß"])]
    with pytest.raises(WrongUsage, match="'klingon' does not exist"):
        inspect_file(path, "klingon")


def test_a_faulty_line_of_json_lines_is_rejected_alone(write: Write) -> None:
    file = inspect_file(write('{"a": 1}\n\n{"a": \n[3]\n{"a": 0.1}\n{"a": 2'))
    found = list(file.items())
    assert [line for line, _ in found] == [1, 3, 4, 5, 6]
    assert found[0][1] == {"a": 1}
    assert found[1][1] == Rejected(3, "is not JSON", '{"a":')
    assert found[3][1] == {"a": Decimal("0.1")}
    assert found[4][1] == Rejected(6, "is not JSON: the file is cut", '{"a": 2')


@pytest.mark.parametrize("indent", [None, 2])
def test_documents_are_read_item_by_item(write: Write, indent: int | None) -> None:
    pages: list[Any] = [
        [{"a": number, "text": "x" * 3_000, "é": "\u2028"} for number in range(300)],
        {"b": [1, {}]},
        [],
    ]
    text = "\n".join(json.dumps(page, indent=indent, ensure_ascii=False) for page in pages)
    found = list(inspect_file(write(text)).items())
    assert [item for _, item in found] == [*pages[0], pages[1]]
    assert [number for number, _ in found] == list(range(1, 302))


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_are_set_apart_by_what_the_head_has_most_of(write: Write, delimiter: str) -> None:
    text = f'a{delimiter}"b, and; more"\r\n1{delimiter}"two\nlines"\r\n\r\n3{delimiter}4'
    head, rows = inspect_file(write(text)).table()
    assert head == ["a", "b, and; more"]
    assert list(rows) == [(3, ["1", "two\nlines"]), (5, ["3", "4"])]


def test_how_far_a_file_was_read_is_known(write: Write) -> None:
    path = write("a,b\n" + "1,2\n" * 1_000_000)
    file = inspect_file(path)
    assert (file.lines, file.size_bytes) == (1_000_001, 4_000_004)
    _, rows = file.table()
    next(rows)
    assert 0 < file.read_bytes < file.size_bytes
    assert sum(1 for _ in rows) == 999_999
    assert file.read_bytes == file.size_bytes


def test_a_folder_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    for path, reason in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(WrongUsage, match=reason):
            inspect_file(path)


def test_parquet_is_known_by_its_content(write: Write) -> None:
    pyarrow = import_module("pyarrow")
    parquet = import_module("pyarrow.parquet")
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table({"a": [1]}), sink)
    assert inspect_file(write(sink.getvalue())).kind == "parquet"
