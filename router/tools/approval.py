"""Which tool descriptors a person has looked at: the file `router-tools.lock`, to be reviewed like code.

In: the file's text, descriptors as their servers give them now. Out: what of them is approved, new, changed or gone.
Invariant: a descriptor is approved only while its digest is the one on file, and that is the digest of the description
and schema that stand beside it there. Pure but for `read_lock`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from router.errors import WrongUsage
from router.tools.descriptors import Descriptor, digest

LOCK_NAME = "router-tools.lock"
VERSION = 1
Standing = Literal["approved", "new", "changed"]
HINT = "router tools approve writes it anew"


@dataclass(frozen=True, slots=True)
class Approval:
    """A descriptor as it was approved."""

    server: str
    tool: str
    sha256: str
    description: str
    input_schema: Mapping[str, Any] = field(hash=False)


Lock = Mapping[tuple[str, str], Approval]
"""Approvals by (server, tool)."""


def lock_path(source: Path | None) -> Path:
    """Return where the lock file is: beside router.toml, or in the working directory where there is none."""
    return (source.parent if source is not None else Path.cwd()) / LOCK_NAME


def read_lock(path: Path) -> Lock:
    """Return what is approved; nothing where there is no file.

    Raises:
        WrongUsage: the file cannot be read, is not as `lock_text` writes it, or a digest is not that of its text.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise WrongUsage(f"{path.name}: cannot be read: {reason}", hint=HINT) from None
    try:
        approvals = _approvals(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WrongUsage(f"{path.name}: is not a file of approved tools, version {VERSION}", hint=HINT) from None
    for each in approvals:
        if each.sha256 != digest(each.tool, each.description, each.input_schema):
            message = f"{path.name}: {each.server}, {each.tool}: its sha256 is not that of the text beside it"
            raise WrongUsage(message, hint=f"somebody has edited it by hand; {HINT}")
    return {(each.server, each.tool): each for each in approvals}


def _approvals(document: Any) -> list[Approval]:
    if document["version"] != VERSION:
        message = "another version"
        raise ValueError(message)
    return [
        Approval(server, tool, str(entry["sha256"]), str(entry["description"]), dict(entry["input_schema"]))
        for server, tools in document["servers"].items()
        for tool, entry in tools.items()
    ]


def lock_text(approvals: Iterable[Approval]) -> str:
    """Return the lock file: JSON, sorted, in ASCII, so that a sign that hides in a text shows in a review."""
    servers: dict[str, dict[str, Any]] = {}
    for each in approvals:
        entry = {"description": each.description, "input_schema": each.input_schema, "sha256": each.sha256}
        servers.setdefault(each.server, {})[each.tool] = entry
    return json.dumps({"version": VERSION, "servers": servers}, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def approval(descriptor: Descriptor) -> Approval:
    """Return a descriptor as approved."""
    return Approval(
        descriptor.server, descriptor.tool, descriptor.sha256, descriptor.description, descriptor.input_schema
    )


def standing(descriptor: Descriptor, lock: Lock) -> Standing:
    """Return whether a descriptor is the approved one, another than that, or not on file at all."""
    known = lock.get((descriptor.server, descriptor.tool))
    if known is None:
        return "new"
    return "approved" if known.sha256 == descriptor.sha256 else "changed"


def what_changed(descriptor: Descriptor, lock: Lock) -> str:
    """Return what is different from the approved descriptor, in words; "nothing" where it is the same or new."""
    known = lock.get((descriptor.server, descriptor.tool))
    if known is None:
        return "nothing"
    parts = {
        "its description": known.description != descriptor.description,
        "the schema of its arguments": known.input_schema != descriptor.input_schema,
    }
    return " and ".join(part for part, differs in parts.items() if differs) or "nothing"
