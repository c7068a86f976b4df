"""Holdfast: the state layer for agents and event-driven services.

The names that a first system needs: `from holdfast import Table, Entity, Attr, attr, Key, pattern, Rate,
Component, System, Stores`. The rest is in named modules: `holdfast.model.entities`, `holdfast.model.queues`,
`holdfast.model.objects`, `holdfast.model.sql` and `holdfast.model.cache` for the operations of each store,
`holdfast.model.system` for the parts of a system, `holdfast.runtime` to open and run it, and
`holdfast.core.errors` for the errors.

Names are imported on first use, so that a program that needs only an engine does not load the model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.model.components import Component, Consumer, Handler, Schedule
    from holdfast.model.entities import (
        Attr,
        Delete,
        Document,
        Entity,
        EpochSeconds,
        Get,
        IndexKey,
        Key,
        Lifetime,
        Put,
        Query,
        Update,
        attr,
        batch_get,
        batch_put,
        transact,
    )
    from holdfast.model.load import Load, Volume
    from holdfast.model.objects import Bucket
    from holdfast.model.operations import Page, Write
    from holdfast.model.patterns import Pattern, Rate, pattern
    from holdfast.model.queues import Queue, ReceivedMessage
    from holdfast.model.sql import Schema
    from holdfast.model.system import System
    from holdfast.model.tables import ALL, KEYS_ONLY, Table, include, keep_names
    from holdfast.runtime import (
        Stores,
        WorkerGroup,
        create_tables,
        open_memory_stores,
        open_stores,
        provision,
        run_worker,
    )

__version__ = "0.2.0"

__all__ = [
    "ALL",
    "KEYS_ONLY",
    "Attr",
    "Bucket",
    "Component",
    "Consumer",
    "Delete",
    "Document",
    "Entity",
    "EpochSeconds",
    "Get",
    "Handler",
    "IndexKey",
    "Key",
    "Lifetime",
    "Load",
    "Page",
    "Pattern",
    "Put",
    "Query",
    "Queue",
    "Rate",
    "ReceivedMessage",
    "Schedule",
    "Schema",
    "Stores",
    "System",
    "Table",
    "Update",
    "Volume",
    "WorkerGroup",
    "Write",
    "attr",
    "batch_get",
    "batch_put",
    "create_tables",
    "include",
    "keep_names",
    "open_memory_stores",
    "open_stores",
    "pattern",
    "provision",
    "run_worker",
    "transact",
]

_MODULES: Final = {
    "holdfast.model.components": (
        "Component",
        "Consumer",
        "Handler",
        "Schedule",
    ),
    "holdfast.model.entities": (
        "Attr",
        "Delete",
        "Document",
        "Entity",
        "EpochSeconds",
        "Get",
        "IndexKey",
        "Key",
        "Lifetime",
        "Put",
        "Query",
        "Update",
        "attr",
        "batch_get",
        "batch_put",
        "transact",
    ),
    "holdfast.model.load": (
        "Load",
        "Volume",
    ),
    "holdfast.model.objects": ("Bucket",),
    "holdfast.model.operations": (
        "Page",
        "Write",
    ),
    "holdfast.model.patterns": (
        "Pattern",
        "Rate",
        "pattern",
    ),
    "holdfast.model.queues": (
        "Queue",
        "ReceivedMessage",
    ),
    "holdfast.model.sql": ("Schema",),
    "holdfast.model.system": ("System",),
    "holdfast.model.tables": (
        "ALL",
        "KEYS_ONLY",
        "Table",
        "include",
        "keep_names",
    ),
    "holdfast.runtime": (
        "Stores",
        "WorkerGroup",
        "create_tables",
        "open_memory_stores",
        "open_stores",
        "provision",
        "run_worker",
    ),
}

# Modules that a name may be looked up in by mistake at the root.
_OTHER_MODULES: Final = (
    "holdfast.model.tables",
    "holdfast.model.entities",
    "holdfast.model.queues",
    "holdfast.model.objects",
    "holdfast.model.sql",
    "holdfast.model.cache",
    "holdfast.model.operations",
    "holdfast.model.components",
    "holdfast.model.system",
    "holdfast.model.demo",
    "holdfast.model.stated_costs",
    "holdfast.model.ulids",
    "holdfast.runtime",
)


# Hidden from the type checker, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import a name on first use. Raise `AttributeError`, with the name's module if there is one."""
        for path, names in _MODULES.items():
            if name in names:
                return getattr(import_module(path), name)
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}{_format_hint(name)}")

    def __dir__() -> list[str]:
        return sorted({"__version__", *__all__})


def _format_hint(name: str) -> str:
    """Return the import of a name that another module of the model or the runtime exports, or nothing."""
    for path in _OTHER_MODULES if not name.startswith("_") else ():
        if name in import_module(path).__all__:
            return f": use `from {path} import {name}`"
    return ""
