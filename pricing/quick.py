"""Frozen values that are made nearly as quickly as values that can be changed.

In: a frozen dataclass with slots. Out: the same class with another `__init__`. Invariant: signature, defaults, what is
frozen, equality, copies and `replace` stay what they were.

The `__init__` of a frozen dataclass sets each field by `object.__setattr__`, which takes seven times as long as an
assignment. Here it assigns while the new object passes for one of a twin class that is not frozen and has the same
slots; then it is given back its own class. For what each call makes (docs/decisions/0016).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick(cls: type[T]) -> type[T]:
    """Return the class itself, its `__init__` replaced by one that takes a third of the time.

    Args:
        cls: a dataclass with `frozen=True` and `slots=True`, without a base, and never one itself.

    Raises:
        TypeError: it is another kind of class, or has a field that its `__init__` does not take so.
    """
    parameters: Any = getattr(cls, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen or cls.__bases__ != (object,) or "__slots__" not in vars(cls):
        raise TypeError(f"{cls.__name__}: a frozen dataclass with slots and without a base is needed")
    whole: Any = cls
    known: dict[str, Any] = {
        "_cls": cls,
        "_twin": type(cls.__name__, (), {"__slots__": tuple(each.name for each in fields(whole))}),
        "_become": vars(object)["__class__"].__set__,  # plain assignment is what a frozen class refuses
        "_missing": MISSING,
    }
    taken, lines = ["self"], ["_become(self, _twin)"]
    for each in fields(whole):
        if not each.init or each.kw_only:
            raise TypeError(f"{cls.__name__}.{each.name}: a field that is given by place or by name is needed")
        taken.append(_taken(each, known))
        lines.append(_assigned(each, known))
    after = ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    text = "\n    ".join([f"def __init__({', '.join(taken)}):", *lines, "self.__class__ = _cls", *after])
    made: dict[str, Any] = {}
    exec(text, known, made)  # noqa: S102 - the names are those of our own fields, as dataclasses does it
    made["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    made["__init__"].__annotations__ = whole.__init__.__annotations__
    whole.__init__ = made["__init__"]
    return cls


def _taken(each: Field[Any], known: dict[str, Any]) -> str:
    """Return a field as a parameter."""
    if each.default is not MISSING:
        known[f"_default_{each.name}"] = each.default
        return f"{each.name}=_default_{each.name}"
    return f"{each.name}=_missing" if each.default_factory is not MISSING else each.name


def _assigned(each: Field[Any], known: dict[str, Any]) -> str:
    """Return the line that sets a field."""
    if each.default_factory is MISSING:
        return f"self.{each.name} = {each.name}"
    known[f"_make_{each.name}"] = each.default_factory
    return f"self.{each.name} = _make_{each.name}() if {each.name} is _missing else {each.name}"
