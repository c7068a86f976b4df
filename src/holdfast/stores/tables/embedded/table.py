"""A table compiled for use: its record, with everything that a request needs computed once.

Pure: built from a `TableRecord` and cached until the record changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final, TypeAlias

from holdfast.core.limits import MAX_EXPIRED_AGE_S, MAX_PARTITION_KEY_BYTES, MAX_SORT_KEY_BYTES
from holdfast.operations import numbers
from holdfast.operations.tables import IndexDefinition, KeySchema, KeyTag
from holdfast.operations.values import Item, Value
from holdfast.stores.tables.embedded.records import IndexRecord, TableRecord

KeyBytes: TypeAlias = tuple[bytes, bytes]
"""A key: the partition and the sort part as bytes that compare as DynamoDB orders them."""

_ENCODERS: Final[dict[KeyTag, Callable[[Any], bytes]]] = {
    "S": str.encode,
    "N": numbers.encode_sortable,
    "B": bytes,
}
_DECODERS: Final[dict[KeyTag, Callable[[bytes], Value]]] = {
    "S": bytes.decode,
    "N": numbers.decode_sortable,
    "B": bytes,
}
# The Python types of each key type. A bool is an int to Python, but `type(True)` is not `int`.
_TYPES: Final[dict[KeyTag, frozenset[type]]] = {
    "S": frozenset({str}),
    "N": frozenset({int, Decimal}),
    "B": frozenset({bytes}),
}


class KeyPart:
    """One attribute of a key: its type, its size limit and its encoding as bytes."""

    __slots__ = ("bytes_max", "decode", "encode", "is_partition", "name", "tag", "types")

    def __init__(self, name: str, tag: KeyTag, *, is_partition: bool) -> None:
        self.name = name
        self.tag = tag
        self.types = _TYPES[tag]
        self.encode, self.decode = _ENCODERS[tag], _DECODERS[tag]
        self.is_partition = is_partition
        self.bytes_max = MAX_PARTITION_KEY_BYTES if is_partition else MAX_SORT_KEY_BYTES

    def encode_or_none(self, value: Value) -> bytes | None:
        """Return the bytes of a value that is valid in an index key, or None if it is mistyped, empty or too
        large.
        """
        if type(value) not in self.types or value in ("", b""):
            return None
        encoded = self.encode(value)
        return encoded if len(encoded) <= self.bytes_max else None

    def has_bytes(self, values: list[Value], encoded: tuple[bytes, ...]) -> bool:
        """Return whether each value, of any type, has these bytes: those of an index key."""
        if not self.types.issuperset(map(type, values)):
            return False
        return tuple(map(self.encode, values)) == encoded


class Keys:
    """The key schema of a table or index: its partition part and, if it has one, its sort part."""

    __slots__ = ("names", "parts", "partition", "sort")

    def __init__(self, schema: KeySchema, types: dict[str, KeyTag]) -> None:
        self.partition = KeyPart(schema.partition, types[schema.partition], is_partition=True)
        self.sort = (
            None if schema.sort is None else KeyPart(schema.sort, types[schema.sort], is_partition=False)
        )
        self.parts = (self.partition,) if self.sort is None else (self.partition, self.sort)
        self.names = schema.names


class Index:
    """A secondary index. `projected` is None if the index holds whole items."""

    __slots__ = (
        "definition", "is_global", "keys", "name", "projected", "record", "slot", "start_key_names",
    )  # fmt: skip

    def __init__(
        self, definition: IndexDefinition, record: IndexRecord, table: Table, *, is_global: bool
    ) -> None:
        self.definition = definition
        self.record = record
        self.name = definition.name
        self.is_global = is_global
        self.slot = record.slot
        self.keys = Keys(definition.keys, table.types)
        self.start_key_names = tuple(dict.fromkeys(table.keys.names + self.keys.names))
        kind = definition.projection.kind
        self.projected = (
            None if kind == "ALL" else frozenset(self.start_key_names + definition.projection.attributes)
        )

    @property
    def is_readable(self) -> bool:
        """Return whether queries may read the index."""
        return not self.record.backfilling and self.record.status != "DELETING"

    def encode_key(self, item: Item) -> KeyBytes | None:
        """Return the item's key in this index, or None if the item is not in it (a sparse index)."""
        partition = self.keys.partition.encode_or_none(item.get(self.keys.partition.name))
        if partition is None:
            return None
        if self.keys.sort is None:
            return partition, b""
        sort = self.keys.sort.encode_or_none(item.get(self.keys.sort.name))
        return None if sort is None else (partition, sort)

    def has_keys(self, items: list[Item], ipks: tuple[bytes, ...], isks: tuple[bytes, ...]) -> bool:
        """Return whether each item has this key in the index: `encode_key` for many, in a fraction of its
        time. It may be false for items that have theirs.
        """
        partition, sort = self.keys.partition, self.keys.sort
        if not partition.has_bytes([item.get(partition.name) for item in items], ipks):
            return False
        if sort is None:
            return not any(isks)
        return sort.has_bytes([item.get(sort.name) for item in items], isks)

    def project(self, item: Item) -> Item:
        """Return the attributes of the item that the index holds."""
        if self.projected is None:
            return item
        return {name: value for name, value in item.items() if name in self.projected}


class Table:
    """A compiled table. `logs` says whether its changes go to the log, and with which images."""

    __slots__ = (
        "definition", "indexes", "indexes_by_name", "keys", "lifetime_attribute", "logs", "logs_new",
        "logs_old", "name", "number", "record", "types",
    )  # fmt: skip

    def __init__(self, record: TableRecord) -> None:
        self.record = record
        self.definition = record.definition
        self.name = record.definition.name
        self.number = record.number
        self.types: dict[str, KeyTag] = {known.name: known.type for known in record.definition.attributes}
        self.keys = Keys(record.definition.keys, self.types)
        self.indexes = tuple(self._compile_indexes())
        self.indexes_by_name = {index.name: index for index in self.indexes}
        self.lifetime_attribute = record.lifetime_attribute
        view = record.definition.stream_view
        self.logs_new = view in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
        self.logs_old = (
            view in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
            or record.recovery_since is not None
            or record.copies > 0
        )
        self.logs = view is not None or self.logs_old

    def _compile_indexes(self) -> Iterator[Index]:
        """Yield the global indexes, then the local ones."""
        for definition in self.definition.global_indexes:
            yield Index(definition, self.record.indexes[definition.name], self, is_global=True)
        for definition in self.definition.local_indexes:
            yield Index(definition, self.record.indexes[definition.name], self, is_global=False)

    def encode_key(self, key: Item) -> KeyBytes:
        """Encode the key of an item, or a key alone, that is known to match the schema."""
        partition, sort = self.keys.partition, self.keys.sort
        return (
            partition.encode(key[partition.name]),
            b"" if sort is None else sort.encode(key[sort.name]),
        )

    def decode_key(self, key_bytes: KeyBytes) -> Item:
        """Return the key of which `encode_key` made these bytes."""
        return {
            part.name: part.decode(encoded) for part, encoded in zip(self.keys.parts, key_bytes, strict=False)
        }

    def extract_key(self, item: Item) -> Item:
        """Return the key attributes of an item."""
        return {name: item[name] for name in self.keys.names}

    def is_expired(self, item: Item, now: float) -> bool:
        """Return whether the item's end of life is past (by at most five years), even if it still exists."""
        end = self.get_end_of_life(item)
        return end is not None and now - MAX_EXPIRED_AGE_S < end <= now

    def get_end_of_life(self, item: Item) -> int | None:
        """Return the epoch second at which an item expires, or None. Only numbers count, as in DynamoDB."""
        if self.lifetime_attribute is None:
            return None
        value = item.get(self.lifetime_attribute)
        if type(value) not in _TYPES["N"]:
            return None
        second = int(value)  # type: ignore[arg-type]
        return second if -(2**62) < second < 2**62 else None
