"""The engines this suite runs over: each test once on each.

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

Opened = Callable[..., PostgresSql]

PASSWORD = "first-password"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    secured = start_secured_server(tmp_path_factory.mktemp("secured"), PASSWORD)
    try:
        yield secured
    finally:
        secured.stop()


@pytest.fixture(params=["embedded", "server"])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """Opens engines over one database of the test's own, and closes them."""
    kind, name = request.param, f"contract_{next(_numbers)}"
    engines: list[PostgresSql] = []
    secured: SecuredServer | None = None
    if kind == "server":
        secured = request.getfixturevalue("secured")
        secured.create_database(name)

    def open_one(*, sizes: PoolSizes | None = None, statement_timeout_ms: int = 15_000) -> PostgresSql:
        if secured is not None:
            engine = open_postgres(
                secured.url(name),
                credentials=lambda: PASSWORD,
                sizes=sizes,
                statement_timeout_ms=statement_timeout_ms,
            )
        else:
            engine = open_embedded_postgres(
                postgres.server().folder,
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
def engine(opened: Opened) -> PostgresSql:
    return opened()
