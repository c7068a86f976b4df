"""Holdfast: the state layer for agents and event-driven services.

What a system needs to declare itself and to run is importable from here: `from holdfast import Table, Entity, Attr,
attr, Key, pattern, Rate, Component, System, Stores`. The rest has its own front doors: `holdfast.errors` for what
can go wrong, `holdfast.stores` for the engines, `holdfast.wire` for DynamoDB's protocol.

Names are fetched when first used, so that a program that needs only an engine does not load the model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.model import *  # noqa: F403
    from holdfast.runtime import *  # noqa: F403

__version__ = "0.1.0.dev0"

_ROOMS = ("holdfast.model", "holdfast.runtime")


def __getattr__(name: str) -> Any:
    if name == "__all__":  # asked for by `from holdfast import *` alone
        return [each for room in _ROOMS for each in import_module(room).__all__]
    if not name.startswith("_"):
        for room in _ROOMS:
            module = import_module(room)
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"__version__", *__getattr__("__all__")})
