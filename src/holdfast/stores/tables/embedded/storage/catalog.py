"""The catalog: the stored records of all tables, and a cache of them in compiled form.

Each transaction checks the cache against the generation in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import apsw
import msgspec

from holdfast.core.errors import StoreFileError
from holdfast.core.rng import draw_bits
from holdfast.stores.tables.embedded.records import TableRecord
from holdfast.stores.tables.embedded.storage import schema
from holdfast.stores.tables.embedded.table import Table

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(TableRecord)


class Catalog:
    """The tables as of one generation, by name and by number."""

    __slots__ = ("generation", "tables_by_number", "tables")

    def __init__(self, generation: int, tables: Mapping[str, Table]) -> None:
        self.generation = generation
        self.tables = tables
        self.tables_by_number = {table.number: table for table in tables.values()}


class CatalogCache:
    """A cache that reloads the catalog when its generation changed. Unchanged records are not recompiled.

    Generations are random rather than counted: a generation from a transaction that did not commit is never
    used again for another state.
    """

    def __init__(self) -> None:
        self.catalog = Catalog(-1, {})
        self._compiled: dict[int, tuple[bytes, Table]] = {}

    def invalidate(self) -> None:
        """Drop the cached catalog, so that the next access loads it."""
        self.catalog = Catalog(-1, {})

    def get_current(self, connection: apsw.Connection) -> Catalog:
        """Return the catalog as this connection sees it."""
        # Read once: another thread, with another state of the database, may replace it between two reads.
        catalog = self.catalog
        return catalog if read_generation(connection) == catalog.generation else self.load(connection)

    def load(self, connection: apsw.Connection) -> Catalog:
        """Load the generation and the records in one snapshot, so that they match."""
        with connection:
            self.catalog = catalog = self._read_catalog(connection)
        return catalog

    def _read_catalog(self, connection: apsw.Connection) -> Catalog:
        """Read all records and compile those that changed."""
        generation = read_generation(connection)
        compiled: dict[int, tuple[bytes, Table]] = {}
        tables: dict[str, Table] = {}
        for number, blob in connection.execute("SELECT number, record FROM tables ORDER BY name"):
            former = self._compiled.get(number)
            table = former[1] if former and former[0] == blob else Table(_DECODER.decode(blob))
            compiled[number] = (blob, table)
            tables[table.name] = table
        self._compiled = compiled
        return Catalog(generation, tables)


def inspect_tables(connection: apsw.Connection, path: str) -> dict[str, frozenset[str]]:
    """Return the names of the file's tables, each with its indexes, for `holdfast doctor`.

    Raise `StoreFileError` if a record is unreadable or the rows of a table are missing.
    """
    indexes_by_table: dict[str, frozenset[str]] = {}
    with connection:
        read_generation(connection)
        rows = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        records = list(connection.execute("SELECT name, record FROM tables ORDER BY name"))
    for name, blob in records:
        try:
            table = Table(_DECODER.decode(blob))
        except (msgspec.MsgspecError, LookupError, TypeError) as error:
            raise StoreFileError(
                f"{path} is damaged: the record of table {name} is unreadable."
                " Restore the file from a backup."
            ) from error
        if f"items_{table.number}" not in rows:
            raise StoreFileError(
                f"{path} is damaged: the items of table {name} are missing. Restore the file from a backup."
            )
        indexes_by_table[name] = frozenset(table.record.indexes)
    return indexes_by_table


def read_generation(connection: apsw.Connection) -> int:
    """Return the number that changes with every change of the catalog."""
    return connection.execute("SELECT generation FROM meta").get  # type: ignore[no-any-return]


def allocate_number(connection: apsw.Connection) -> int:
    """Return a number that no table or backup of the file has used before."""
    return connection.execute(  # type: ignore[no-any-return]
        "UPDATE meta SET next_number = next_number + 1 RETURNING next_number - 1"
    ).get


class CatalogWriter(Protocol):
    """A unit of work that changes the catalog. After a change it must reload the catalog."""

    connection: apsw.Connection

    def invalidate_catalog(self) -> None:
        """Make the unit of work load the catalog again at the next access."""
        ...


def insert_table(writer: CatalogWriter, record: TableRecord) -> None:
    """Add a table to the catalog, with empty rows."""
    connection = writer.connection
    connection.execute(schema.build_items_ddl(record.number))
    for index in record.indexes.values():
        connection.execute(schema.build_index_ddl(record.number, index.slot))
    connection.execute(
        "INSERT INTO tables (number, name, record) VALUES (?, ?, ?)",
        (record.number, record.definition.name, _ENCODER.encode(record)),
    )
    _change_generation(writer)


def save_table(writer: CatalogWriter, record: TableRecord) -> None:
    """Replace a table's record."""
    writer.connection.execute(
        "UPDATE tables SET record = ? WHERE number = ?", (_ENCODER.encode(record), record.number)
    )
    _change_generation(writer)


def remove_table(writer: CatalogWriter, number: int) -> None:
    """Remove the table from the catalog. A job deletes its rows later."""
    writer.connection.execute("DELETE FROM tables WHERE number = ?", (number,))
    _change_generation(writer)


def create_index(connection: apsw.Connection, number: int, slot: int) -> None:
    """Create the rows of an index, empty; `number` is the table's number, `slot` the index's."""
    connection.execute(schema.build_index_ddl(number, slot))


def _change_generation(writer: CatalogWriter) -> None:
    """Give the catalog a new random generation, so that every process reloads it."""
    writer.connection.execute("UPDATE meta SET generation = ?", (draw_bits(62),))
    writer.invalidate_catalog()
