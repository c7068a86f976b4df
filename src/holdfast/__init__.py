"""Holdfast: the state layer for agents and event-driven services.

Everything that a system needs to declare itself and run is importable from here: `from holdfast import Table,
Entity, Attr, attr, Key, pattern, Rate, Component, System, Stores`. The rest is in named packages:
`holdfast.core.errors` for the errors, `holdfast.stores` for the engines, `holdfast.wire` for DynamoDB's
protocol.

Names are imported on first use, so that a program that needs only an engine does not load the model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.model import *  # noqa: F403
    from holdfast.runtime import *  # noqa: F403

__version__ = "0.2.0"

_EXPORTING_MODULES = ("holdfast.model", "holdfast.runtime")


# Hidden from the type checker, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import an exported name on first use. Raise `AttributeError` if no exporting module has it."""
        if name == "__all__":  # used by `from holdfast import *`
            return [each for path in _EXPORTING_MODULES for each in import_module(path).__all__]
        if not name.startswith("_"):
            for path in _EXPORTING_MODULES:
                module = import_module(path)
                if name in module.__all__:
                    return getattr(module, name)
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({"__version__", *__getattr__("__all__")})
