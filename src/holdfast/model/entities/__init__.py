"""Entities: attributes, keys, conditions, and the reads and writes of their items."""

from __future__ import annotations

from holdfast.model.entities.attributes import Attr, OptionalRef, Ref, attr
from holdfast.model.entities.conditions import Condition
from holdfast.model.entities.encoders import EpochSeconds, TimestampMillis, TimestampSeconds, format_timestamp
from holdfast.model.entities.entity import Document, Entity, get_declaration
from holdfast.model.entities.keys import IndexKey, Key, Lifetime
from holdfast.model.entities.reads import (
    BaseQuery,
    BatchGet,
    CountQuery,
    Get,
    PagedRead,
    ParallelQuery,
    Query,
    Row,
    Scan,
    SelectQuery,
    batch_get,
    parallel_query,
)
from holdfast.model.entities.unreadable import SkippedItem, skip_unreadable
from holdfast.model.entities.writes import (
    BatchPut,
    ConditionCheck,
    Delete,
    Put,
    Transact,
    Update,
    batch_put,
    transact,
)

__all__ = [
    "Attr",
    "BaseQuery",
    "BatchGet",
    "BatchPut",
    "Condition",
    "ConditionCheck",
    "CountQuery",
    "Delete",
    "Document",
    "Entity",
    "EpochSeconds",
    "Get",
    "IndexKey",
    "Key",
    "Lifetime",
    "OptionalRef",
    "PagedRead",
    "ParallelQuery",
    "Put",
    "Query",
    "Ref",
    "Row",
    "Scan",
    "SelectQuery",
    "SkippedItem",
    "TimestampMillis",
    "TimestampSeconds",
    "Transact",
    "Update",
    "attr",
    "batch_get",
    "batch_put",
    "format_timestamp",
    "get_declaration",
    "parallel_query",
    "skip_unreadable",
    "transact",
]
