"""The catalog: every table's record, cached in compiled form and checked against the file in each
transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final, Protocol

import apsw
import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.stores.tables.embedded.records import TableRecord
from holdfast.stores.tables.embedded.storage import schema
from holdfast.stores.tables.embedded.table import Table

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(TableRecord)


class Catalog:
    """The tables as of one generation."""

    __slots__ = ("generation", "numbers", "tables")

    def __init__(self, generation: int, tables: Mapping[str, Table]) -> None:
        self.generation = generation
        self.tables = tables
        self.numbers = {table.number: table for table in tables.values()}


class CatalogCache:
    """A cache that loads the catalog when its generation changed. Unchanged records are not recompiled.

    Generations are random rather than counted: a generation from a transaction that did not commit is never
    used again for another state.
    """

    def __init__(self) -> None:
        self.catalog = Catalog(-1, {})
        self._compiled: dict[int, tuple[bytes, Table]] = {}

    def forget(self) -> None:
        self.catalog = Catalog(-1, {})

    def current(self, connection: apsw.Connection) -> Catalog:
        # Read once: another thread, with another state of the database, may replace it between two reads.
        catalog = self.catalog
        return catalog if generation_of(connection) == catalog.generation else self.load(connection)

    def load(self, connection: apsw.Connection) -> Catalog:
        """Load the generation and the records in one snapshot, so that they match."""
        with connection:
            self.catalog = catalog = self._loaded(connection)
        return catalog

    def _loaded(self, connection: apsw.Connection) -> Catalog:
        generation = generation_of(connection)
        compiled: dict[int, tuple[bytes, Table]] = {}
        tables: dict[str, Table] = {}
        for number, blob in connection.execute("SELECT number, record FROM tables ORDER BY name"):
            former = self._compiled.get(number)
            table = former[1] if former and former[0] == blob else Table(_DECODER.decode(blob))
            compiled[number] = (blob, table)
            tables[table.name] = table
        self._compiled = compiled
        return Catalog(generation, tables)


def readable_tables(connection: apsw.Connection, path: str) -> dict[str, frozenset[str]]:
    """Return the file's tables and the indexes of each, after reading every record and its rows. For
    `holdfast doctor`.
    """
    found: dict[str, frozenset[str]] = {}
    with connection:
        generation_of(connection)
        rows = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        records = list(connection.execute("SELECT name, record FROM tables ORDER BY name"))
    for name, blob in records:
        try:
            table = Table(_DECODER.decode(blob))
        except (msgspec.MsgspecError, LookupError, TypeError) as error:
            raise StoreFileError(
                f"{path} is damaged: what it says of table {name} cannot be read."
            ) from error
        if f"items_{table.number}" not in rows:
            raise StoreFileError(
                f"{path} is damaged: table {name} is named in it, but its items are not there."
            )
        found[name] = frozenset(table.record.indexes)
    return found


def generation_of(connection: apsw.Connection) -> int:
    return connection.execute("SELECT generation FROM meta").get  # type: ignore[no-any-return]


def next_number(connection: apsw.Connection) -> int:
    """Return a number for a table or backup that was never used before."""
    return connection.execute(  # type: ignore[no-any-return]
        "UPDATE meta SET next_number = next_number + 1 RETURNING next_number - 1"
    ).get


class Changes(Protocol):
    """A unit of work that changes the catalog. It must then discard the catalog it has loaded."""

    connection: apsw.Connection

    def forget_catalog(self) -> None: ...


def insert_table(changes: Changes, record: TableRecord) -> None:
    connection = changes.connection
    connection.execute(schema.create_items(record.number))
    for index in record.indexes.values():
        connection.execute(schema.create_index(record.number, index.slot))
    connection.execute(
        "INSERT INTO tables (number, name, record) VALUES (?, ?, ?)",
        (record.number, record.definition.name, _ENCODER.encode(record)),
    )
    _turn_generation(changes)


def save_table(changes: Changes, record: TableRecord) -> None:
    changes.connection.execute(
        "UPDATE tables SET record = ? WHERE number = ?", (_ENCODER.encode(record), record.number)
    )
    _turn_generation(changes)


def remove_table(changes: Changes, number: int) -> None:
    """Remove the table from the catalog at once. A job drops its rows."""
    changes.connection.execute("DELETE FROM tables WHERE number = ?", (number,))
    _turn_generation(changes)


def create_index(connection: apsw.Connection, number: int, slot: int) -> None:
    connection.execute(schema.create_index(number, slot))


def _turn_generation(changes: Changes) -> None:
    changes.connection.execute("UPDATE meta SET generation = ?", (secrets.randbits(62),))
    changes.forget_catalog()
