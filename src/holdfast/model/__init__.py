"""The model: what a system declares once, and the operations that typed builders make of it.

tables → attributes, templates, keys → entity (declaration) → reads, writes → patterns → system. Nothing here runs
anything: `holdfast.runtime` binds a model to engines.
"""

from __future__ import annotations

from holdfast.model.attributes import Attr, OptionalRef, Ref, attr
from holdfast.model.conditions import Condition
from holdfast.model.encoding import EpochSeconds, Milliseconds, Seconds, timestamp
from holdfast.model.entity import Document, Entity, declaration_of
from holdfast.model.keys import IndexKey, Key, Lifetime
from holdfast.model.objects import (
    Bucket,
    DeleteObject,
    GetObject,
    HeadObject,
    HoldObject,
    ListObjects,
    PutObject,
    Shelf,
)
from holdfast.model.operations import Count, Operation, Page, Write
from holdfast.model.patterns import Pattern, Rate, pattern
from holdfast.model.queues import (
    ChangeVisibility,
    DeleteReceived,
    Queue,
    Receive,
    Received,
    Send,
    SendAll,
)
from holdfast.model.reads import (
    AnyQuery,
    BatchGet,
    CountOf,
    Get,
    Paged,
    Parallel,
    Query,
    Row,
    Rows,
    Scan,
    batch,
    parallel,
)
from holdfast.model.sql import Schema, SqlChange, SqlOne, SqlReturning, SqlRow, SqlRows, SqlWrite
from holdfast.model.stated_costs import StatedCost, StatedCosts, StatedSize
from holdfast.model.system import (
    Command,
    Component,
    Consumer,
    Explanation,
    Handler,
    Listing,
    Load,
    Schedule,
    System,
    Volume,
    installed_system,
    installed_systems,
    patterns_in,
)
from holdfast.model.tables import ALL, KEYS_ONLY, Index, Table, as_written, include
from holdfast.model.ulids import Ulid, Ulids, ulid
from holdfast.model.unreadable import LeftOut, leaving_out_unreadable
from holdfast.model.writes import BatchPut, Check, Delete, Put, Transact, Update, batch_put, transact

__all__ = [
    "ALL",
    "KEYS_ONLY",
    "AnyQuery",
    "Attr",
    "BatchGet",
    "BatchPut",
    "Bucket",
    "ChangeVisibility",
    "Check",
    "Command",
    "Component",
    "Condition",
    "Consumer",
    "Count",
    "CountOf",
    "Delete",
    "DeleteObject",
    "DeleteReceived",
    "Document",
    "Entity",
    "EpochSeconds",
    "Explanation",
    "Get",
    "GetObject",
    "Handler",
    "HeadObject",
    "HoldObject",
    "Index",
    "IndexKey",
    "Key",
    "LeftOut",
    "Lifetime",
    "ListObjects",
    "Listing",
    "Load",
    "Milliseconds",
    "Operation",
    "OptionalRef",
    "Page",
    "Paged",
    "Parallel",
    "Pattern",
    "Put",
    "PutObject",
    "Query",
    "Queue",
    "Rate",
    "Receive",
    "Received",
    "Ref",
    "Row",
    "Rows",
    "Scan",
    "Schedule",
    "Schema",
    "Seconds",
    "Send",
    "SendAll",
    "Shelf",
    "SqlChange",
    "SqlOne",
    "SqlReturning",
    "SqlRow",
    "SqlRows",
    "SqlWrite",
    "StatedCost",
    "StatedCosts",
    "StatedSize",
    "System",
    "Table",
    "Transact",
    "Ulid",
    "Ulids",
    "Update",
    "Volume",
    "Write",
    "as_written",
    "attr",
    "batch",
    "batch_put",
    "declaration_of",
    "include",
    "installed_system",
    "installed_systems",
    "leaving_out_unreadable",
    "parallel",
    "pattern",
    "patterns_in",
    "timestamp",
    "transact",
    "ulid",
]
