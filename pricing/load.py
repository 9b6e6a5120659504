"""Read the bundled price files and the user's into a `Catalog`.

In: TOML files, and tables given inline. Out: a `Catalog`, or one `CatalogError` with every fault of every file.
Invariant: a file is used whole or not at all; files that were read before come from a cache, which says the same.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pricing.catalog import Catalog
from pricing.compiled import Compiled, from_text, to_text
from pricing.disk_cache import read_cached, write_cached
from pricing.draft import NOTHING, Draft, draft_on
from pricing.errors import Fault
from pricing.typed_table import Place

_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_DATA = Path(__file__).parent / "data"
_BUNDLED, _FILES, _INLINE = range(3)


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    text: str
    layer: int


def load_catalog(
    files: Sequence[Path] = (), inline: Mapping[str, Any] | None = None, inline_file: str = "router.toml"
) -> Catalog:
    """Return the bundled price lists with the user's laid over them.

    A row of a file outranks a bundled one of the same list, model, component and conditions while it is in force, and a
    row given inline outranks both. Two rows of the user's own files that overlap are a fault.

    Files without a fault are kept, ready to be used, in the user's cache folder, under a digest of their content.

    Args:
        files: price files, and folders whose *.toml are read in the order of their names.
        inline: the tables of a price file that stand inside another file: `{"prices": [...], …}`.
        inline_file: that other file, for messages; its text is read, if it is there, to tell lines.

    Raises:
        CatalogError: a file is missing, is not TOML or has faults; carries all of them.
    """
    if not files and not inline:
        return _bundled_catalog()
    faults: list[Fault] = []
    own = tuple(_own_files(files, faults))
    known = None if faults else _from_cache(own) if own else _bundled()
    if known is None:
        draft = draft_on(_bundled(), faults)
        for file in own:
            _read(draft, file)
        if not inline:
            return _catalog(_kept(draft.finished(), own))
    else:
        if not inline:
            return _catalog(known)
        draft = draft_on(known)
    draft.add(_inline_place(inline_file), inline, _INLINE)
    return _catalog(draft.finished())


@cache
def _bundled_catalog() -> Catalog:
    return _catalog(_bundled())


@cache
def _bundled() -> Compiled:
    known = _from_cache(())
    if known is not None:
        return known
    draft = draft_on(NOTHING)
    for file in _bundled_files():
        _read(draft, file)
    return _kept(draft.finished(), ())


def _catalog(found: Compiled) -> Catalog:
    return Catalog(found.lists, found.models, found.rows, found.names, found.checked)


@cache
def _bundled_files() -> tuple[_File, ...]:
    return tuple(_File(file.name, file.read_text(encoding="utf-8"), _BUNDLED) for file in sorted(_DATA.glob("*.toml")))


def _own_files(files: Sequence[Path], faults: list[Fault]) -> Iterator[_File]:
    for file in _expanded(files, faults):
        text = _text(file, faults)
        if text is not None:
            yield _File(file.name if file.is_absolute() else str(file), text, _FILES)


def _from_cache(own: tuple[_File, ...]) -> Compiled | None:
    """Return what the bundled files and these say, if just these were read before."""
    files = (*_bundled_files(), *own)
    kept = read_cached(_digest(files))
    return None if kept is None else from_text(kept, [file.text for file in files])


def _kept(found: Compiled, own: tuple[_File, ...]) -> Compiled:
    """Return what the bundled files and these say, and keep it for the next process."""
    files = (*_bundled_files(), *own)
    write_cached(_digest(files), to_text(found, [file.text for file in files]))
    return found


def _digest(files: Iterable[_File]) -> str:
    """Return a digest of the files and of the code that reads them, so that a changed rule meets no old cache."""
    digest = hashlib.sha256(_code())
    for file in files:
        text = file.text.encode()
        digest.update(f"{file.layer} {len(file.name)} {file.name} {len(text)} ".encode() + text)
    return digest.hexdigest()


@cache
def _code() -> bytes:
    modules = sorted(_DATA.parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in modules)).digest()


def _read(draft: Draft, file: _File) -> None:
    try:
        tables = tomllib.loads(file.text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        line = _TOML_LINE.search(str(error))
        message = f"not TOML: {_TOML_LINE.sub('', str(error))}"
        draft.faults.append(Fault(file.name, int(line.group(1)) if line else None, message))
        return
    draft.add(Place(file.name, file.text), tables, file.layer)


def _expanded(files: Sequence[Path], faults: list[Fault]) -> Iterator[Path]:
    for file in files:
        if file.is_dir():
            yield from sorted(file.glob("*.toml"))
        elif file.exists():
            yield file
        else:
            faults.append(Fault(str(file), None, "price file: does not exist; a TOML file or a folder is allowed"))


def _text(file: Path, faults: list[Fault]) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        faults.append(Fault(str(file), None, "price file: is not UTF-8 text"))
    except OSError as error:
        faults.append(Fault(str(file), None, f"price file: cannot be read: {error.strerror}"))
    return None


def _inline_place(name: str) -> Place:
    """Return where inline tables stand: under `prices`, or at the root where [[prices]] is an array."""
    file = Path(name)
    text = _text(file, []) if file.is_file() else None
    if text is None:
        return Place(name)
    try:
        stands_under = isinstance(tomllib.loads(text).get("prices"), dict)
    except tomllib.TOMLDecodeError:
        return Place(name)
    return Place(name, text, ("prices",) if stands_under else ())
