"""Verification of an embedded PostgreSQL, for `holdfast doctor --deep`: every page against its checksum.

A running server reads and verifies all pages for a base backup, which is thrown away. The pages of a stopped
one are verified by `pg_checksums`. The server is neither started nor stopped.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from holdfast.stores.sql.postgres import accounts
from holdfast.stores.sql.postgres.embedded import USER, EmbeddedServer, Postmaster
from holdfast.stores.sql.postgres.programs import find_programs

# PostgreSQL's report of a damaged page: the folder of the database, the file, the block.
_DAMAGE: Final = re.compile(r'in file "[^"]*?base/(\d+)/(\d+)(?:[._]\w+)*", block (\d+)')
_FAILURE: Final = re.compile(r"(?:WARNING|error): +(checksum verification failed in .*)")


def verify_cluster(folder: Path) -> list[str]:
    """Return everything that is wrong with the pages of a server's folder, one line each."""
    server = EmbeddedServer(folder)
    if not (server.data / "PG_VERSION").is_file():
        return []
    running = server.find_running()
    if running is None:
        return _verify_stopped(server.data)
    return _verify_running(running)


def _verify_stopped(data: Path) -> list[str]:
    """Verify the pages of a server that does not run."""
    ended = subprocess.run(
        [str(find_programs() / "pg_checksums"), "--check", "-D", accounts.get_path_from_inside(data)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=data,
        check=False,
        **accounts.build_subprocess_arguments(),
    )
    return _collect(ended)


def _verify_running(running: Postmaster) -> list[str]:
    """Verify the pages of a running server, and name the table or index of each damaged one."""
    address = ("-h", running.socket_folder, "-p", str(running.port), "-U", USER)
    ended = subprocess.run(
        [
            *(str(find_programs() / "pg_basebackup"), *address, "--pgdata=-", "--format=tar"),
            *("--wal-method=none", "--no-manifest", "--checkpoint=fast"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return [_name_relation(line, running) for line in _collect(ended)]


def _collect(ended: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the damaged pages that a program reports, or the whole report of another failure."""
    if ended.returncode == 0:
        return []
    return _FAILURE.findall(ended.stderr) or [ended.stderr.strip().replace("\n", "; ")]


def _name_relation(line: str, running: Postmaster) -> str:
    """Return the report of a damaged page with the name of its table or index, if that can be found."""
    import psycopg

    found = _DAMAGE.search(line)
    if found is None:
        return line
    database, file, block = found.groups()
    address = {"host": running.socket_folder, "port": running.port, "user": USER}
    try:
        with psycopg.connect(**address, dbname="postgres", autocommit=True) as connection:  # type: ignore[arg-type]
            row = connection.execute("SELECT datname FROM pg_database WHERE oid = %s", (database,)).fetchone()
        name = "postgres" if row is None else str(row[0])
        with psycopg.connect(**address, dbname=name, autocommit=True) as connection:  # type: ignore[arg-type]
            row = connection.execute(
                "SELECT oid::regclass::text FROM pg_class WHERE pg_relation_filenode(oid) = %s", (file,)
            ).fetchone()
    except psycopg.Error:
        return line
    if row is None:
        return line
    return f"{row[0]} in the database {name} is damaged: block {block} of file base/{database}/{file}"
