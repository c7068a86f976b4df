"""Backups of an embedded PostgreSQL: every row of every database at one moment, while statements continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.config.settings import Settings
from holdfast.core.errors import DataDamaged, StoreFailed
from holdfast.runtime.folder_backups import back_up_folder, backup, restore_folder
from holdfast.stores.sql.postgres import EmbeddedServer, dumps
from holdfast.stores.sql.postgres.embedded import find_running_server
from tests.postgres import new_folder

from .data_folders import build_settings

ROWS = 500
CREATE = """
    CREATE EXTENSION vector;
    CREATE ROLE reader NOLOGIN;
    CREATE SCHEMA shop;
    CREATE TABLE shop.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, place vector(3));
    CREATE INDEX ON shop.orders USING hnsw (place vector_l2_ops);
    CREATE TABLE shop.lines ("Order" bigint REFERENCES shop.orders, text text);
    GRANT USAGE ON SCHEMA shop TO reader;
    GRANT SELECT ON shop.orders TO reader;
    INSERT INTO shop.orders (name, place) SELECT 'order ' || n, '[1,2,3]' FROM generate_series(1, 500) n;
    INSERT INTO shop.lines SELECT id, repeat('line ', 100) FROM shop.orders;
"""


@contextmanager
def connect(data: Path, database: str = "holdfast") -> Iterator[psycopg.Connection[Any]]:
    """Connect to the running server of a data folder."""
    running = find_running_server(data / "postgres")
    assert running is not None
    with psycopg.connect(
        host=running.socket_folder, port=running.port, user="postgres", dbname=database, autocommit=True
    ) as connection:
        yield connection


@contextmanager
def use_server(data: Path) -> Iterator[None]:
    server = EmbeddedServer(data / "postgres")
    server.use()
    try:
        yield
    finally:
        server.release()


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """Return a data folder with two databases; its server is stopped."""
    with new_folder() as folder:
        path = folder / "data"
        with use_server(path):
            with connect(path, "postgres") as connection:
                connection.execute("CREATE DATABASE holdfast")
                connection.execute('CREATE DATABASE "Other"')
            with connect(path) as connection:
                connection.execute(CREATE)
            with connect(path, "Other") as connection:
                connection.execute("CREATE TABLE notes AS SELECT 'a note' AS text")
        yield path


def read_rows(data: Path) -> list[Any]:
    """Return the rows of both databases."""
    with connect(data) as connection:
        orders = connection.execute("SELECT * FROM shop.orders ORDER BY id").fetchall()
        lines = connection.execute('SELECT * FROM shop.lines ORDER BY "Order"').fetchall()
    with connect(data, "Other") as connection:
        return [orders, lines, connection.execute("SELECT * FROM notes").fetchall()]


def test_restores_every_row_of_the_moment(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze_all = backup._freeze_all

    def freeze_then_write(copies: Any) -> None:
        freeze_all(copies)
        with connect(data) as connection:
            connection.execute("INSERT INTO shop.orders (name) VALUES ('later')")

    monkeypatch.setattr(backup, "_freeze_all", freeze_then_write)
    with use_server(data):
        before = read_rows(data)
        manifest = back_up_folder(build_settings(data), tmp_path / "backup")
        assert find_running_server(data / "postgres") is not None
    with new_folder() as folder:
        restore_folder(tmp_path / "backup", folder / "data", settings=Settings(), verify=True)
        assert find_running_server(folder / "data" / "postgres") is None
        with use_server(folder / "data"):
            restored = read_rows(folder / "data")
            _check_use(folder / "data")

    assert restored == before
    assert manifest.stores["sql"].counts["holdfast.shop.orders"] == ROWS
    assert manifest.stores["sql"].counts["Other.public.notes"] == 1


def _check_use(data: Path) -> None:
    """Check that sequences, constraints, indexes, roles and their rights were restored."""
    with connect(data) as connection:
        row = connection.execute("INSERT INTO shop.orders (name) VALUES ('next') RETURNING id").fetchone()
        assert row is not None and row[0] > ROWS
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("INSERT INTO shop.lines VALUES (-1, '')")
        indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = 'shop'").fetchall()
        assert any("hnsw" in text for (text,) in indexes)
        connection.execute("SET ROLE reader")
        connection.execute("SELECT * FROM shop.orders").fetchall()


def test_damaged_table_is_named_and_nothing_is_backed_up(tmp_path: Path, data: Path) -> None:
    with use_server(data), connect(data) as connection:
        connection.execute("CREATE TABLE shop.spoilt AS SELECT repeat('x', 100) AS text FROM shop.orders")
        connection.execute("CHECKPOINT")
        (path,) = connection.execute("SELECT pg_relation_filepath('shop.spoilt')").fetchone() or ("",)
    file = data / "postgres" / "server" / path
    content = bytearray(file.read_bytes())
    content[5000] ^= 1
    file.write_bytes(content)

    with pytest.raises(DataDamaged, match="spoilt"):
        back_up_folder(build_settings(data), tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []
    with use_server(data), connect(data) as connection:
        connection.execute("DROP TABLE shop.spoilt")


def test_failed_dump_leaves_no_backup(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "find_client_programs", lambda: _write_failing_program(tmp_path / "bin"))

    with pytest.raises(StoreFailed, match=r"pg_dumpall failed \(3\): out of luck"):
        back_up_folder(build_settings(data), tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def _write_failing_program(folder: Path) -> Path:
    folder.mkdir()
    (folder / "pg_dumpall").write_text("#!/bin/sh\necho 'out of luck' >&2\nexit 3\n")
    (folder / "pg_dumpall").chmod(0o755)
    return folder
