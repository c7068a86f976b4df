"""The SQLite schema of the embedded tables, and its migrations.

meta       one row; `generation` changes with every change of the catalog, so that each transaction can
           see whether the definitions cached in this process are still valid
tables     the catalog: a record per table
counts     per table (slot 0) and index: items, bytes, and the last sequence number of the change log
items_N    the items of table N; index_N_S the rows of its index in slot S; changes_N its change log. Each
           item and each change has a checksum
streams, backups, tokens, jobs   as named
"""

from __future__ import annotations

from typing import Final

from holdfast.stores.sqlite import Migration, Schema
from holdfast.stores.sqlite.leases import CREATE_LEASES
from holdfast.stores.tables.embedded.storage.row_sums import add_sums

APPLICATION_ID: Final = 0x48464454  # "HFDT"

INITIAL: Final = """
CREATE TABLE meta (only INTEGER PRIMARY KEY CHECK (only = 1), generation INTEGER NOT NULL,
                   next_number INTEGER NOT NULL);
INSERT INTO meta VALUES (1, 0, 1);
CREATE TABLE tables (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, record BLOB NOT NULL);
CREATE TABLE counts (number INTEGER NOT NULL, slot INTEGER NOT NULL, items INTEGER NOT NULL DEFAULT 0,
                     bytes INTEGER NOT NULL DEFAULT 0, seq INTEGER NOT NULL DEFAULT 0,
                     PRIMARY KEY (number, slot)) WITHOUT ROWID;
CREATE TABLE streams (name TEXT NOT NULL, label TEXT NOT NULL, number INTEGER NOT NULL, record BLOB NOT NULL,
                      PRIMARY KEY (name, label)) WITHOUT ROWID;
CREATE TABLE backups (id TEXT PRIMARY KEY, name TEXT NOT NULL, created_at REAL NOT NULL, record BLOB NOT NULL)
                      WITHOUT ROWID;
CREATE TABLE tokens (token TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX tokens_by_age ON tokens (at);
CREATE TABLE jobs (id INTEGER PRIMARY KEY, record BLOB NOT NULL);
"""

SCHEMA: Final = Schema(APPLICATION_ID, (Migration(1, INITIAL + CREATE_LEASES), Migration(2, add_sums)))


def build_items_ddl(number: int) -> str:
    """Return the SQL that creates the rows, the change log and the counts of a table or backup."""
    return f"""
CREATE TABLE items_{number} (id INTEGER PRIMARY KEY, pk BLOB NOT NULL, sk BLOB NOT NULL,
                             size INTEGER NOT NULL, expires INTEGER, item BLOB NOT NULL,
                             sum INTEGER NOT NULL);
CREATE UNIQUE INDEX items_{number}_key ON items_{number} (pk, sk);
CREATE INDEX items_{number}_expiry ON items_{number} (expires) WHERE expires IS NOT NULL;
CREATE TABLE changes_{number} (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, event INTEGER NOT NULL,
                               by_service INTEGER NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
                               key BLOB, old BLOB, new BLOB, sum INTEGER NOT NULL);
INSERT INTO counts (number, slot) VALUES ({number}, 0);
"""


def build_index_ddl(number: int, slot: int) -> str:
    """Return the SQL that creates the rows and the counts of an index.

    Their `size` is that of the index's copy of the item; NULL if the index holds whole items.
    """
    return f"""
CREATE TABLE index_{number}_{slot} (ipk BLOB NOT NULL, isk BLOB NOT NULL, pk BLOB NOT NULL, sk BLOB NOT NULL,
                                    id INTEGER NOT NULL, size INTEGER,
                                    PRIMARY KEY (ipk, isk, pk, sk)) WITHOUT ROWID;
INSERT INTO counts (number, slot) VALUES ({number}, {slot});
"""
