"""Fixtures of the SQL contract: every test runs on both engines, each with a database of its own.

embedded   a PostgreSQL of our own, by its folder
server     a PostgreSQL by its URL: TCP, TLS, a password from a secret
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, open_embedded_postgres, open_postgres
from tests import postgres

from .secured_server import SecuredServer, start_secured_server

OpenEngine = Callable[..., PostgresSql]

PASSWORD = "first-password"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def secured_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """Run one secured PostgreSQL server for all tests of the session."""
    secured_server = start_secured_server(tmp_path_factory.mktemp("secured"), PASSWORD)
    try:
        yield secured_server
    finally:
        secured_server.stop()


@pytest.fixture(params=["embedded", "server"])
def open_engine(request: pytest.FixtureRequest) -> Iterator[OpenEngine]:
    """Return a function that opens engines over the test's own database; close them at the end."""
    kind, name = request.param, f"contract_{next(_numbers)}"
    engines: list[PostgresSql] = []
    secured_server: SecuredServer | None = None
    if kind == "server":
        secured_server = request.getfixturevalue("secured_server")
        secured_server.create_database(name)

    def open_one(*, sizes: PoolSizes | None = None, statement_timeout_ms: int = 15_000) -> PostgresSql:
        if secured_server is not None:
            engine = open_postgres(
                secured_server.url(name),
                credentials=lambda: PASSWORD,
                sizes=sizes,
                statement_timeout_ms=statement_timeout_ms,
            )
        else:
            engine = open_embedded_postgres(
                postgres.get_server().folder,
                database=name,
                sizes=sizes,
                statement_timeout_ms=statement_timeout_ms,
            )
        engines.append(engine)
        return engine

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(open_engine: OpenEngine) -> PostgresSql:
    """Return one engine over the test's own database."""
    return open_engine()
