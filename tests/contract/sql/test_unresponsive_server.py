"""A paused PostgreSQL server, embedded: every wait for it is bounded, and it serves again when resumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from holdfast.core.errors import HoldfastError, OutcomeUnknown, StoreBusy, StoreUnreachable
from holdfast.stores.sql.postgres import (
    EmbeddedServer,
    PoolSizes,
    PostgresSql,
    connections,
    endpoints,
    open_embedded_postgres,
)
from tests.postgres import new_folder

from .paused_server import paused
from .test_statements import read, write

INSERT = write("INSERT INTO t VALUES (1)")


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with new_folder() as folder:
        server = EmbeddedServer(folder, configuration={"fsync": "off"})
        server.use()
        yield server
        server.release()


@pytest.fixture
async def engine(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresSql]:
    """Yield an engine with short limits on waiting, whose two connections are open."""
    monkeypatch.setattr(connections, "RESPONSE_MARGIN_S", 0.3)
    monkeypatch.setattr(endpoints, "MAX_CONNECT_S", 2)
    sizes = PoolSizes(min=2, max=2)
    with closing(open_embedded_postgres(server.folder, sizes=sizes, statement_timeout_ms=300)) as engine:
        await engine.run(write("CREATE TABLE IF NOT EXISTS t (x integer)"))
        await _connect_both(engine)
        engine._max_retry_s = 0.5
        yield engine


async def _connect_both(engine: PostgresSql) -> None:
    """Wait until the pool has connected in the background, before a test pauses the server."""
    async with engine.transaction() as one, engine.transaction() as other:
        await one.run(read("SELECT 1"))
        await other.run(read("SELECT 1"))


async def test_paused_server_times_out_and_serves_again_when_resumed(
    server: EmbeddedServer, engine: PostgresSql
) -> None:
    async def story() -> None:
        async with asyncio.timeout(60):
            async with engine.transaction() as begun:
                with paused(server):
                    with pytest.raises(StoreUnreachable):
                        await begun.run(INSERT)
                    with pytest.raises(OutcomeUnknown):
                        await engine.run(INSERT)
                raise LookupError

    with pytest.raises(LookupError):
        await story()
    engine._max_retry_s = 30.0
    async with engine.transaction() as transaction:
        await transaction.run(INSERT)


async def test_deadline_of_a_read_includes_waiting_for_a_thread(
    server: EmbeddedServer, engine: PostgresSql
) -> None:
    errors: Counter[type[HoldfastError]] = Counter()

    async def ask() -> None:
        try:
            await engine.run(read("SELECT 1"))
        except HoldfastError as error:
            errors[type(error)] += 1

    with paused(server):
        async with asyncio.timeout(60):
            await asyncio.gather(*(ask() for _ in range(6)))
    # Both threads wait for an answer: the other callers never get one.
    assert errors == {StoreBusy: 4, StoreUnreachable: 2}


async def test_closing_does_not_wait_for_a_paused_server(
    server: EmbeddedServer,
) -> None:
    """`close` returns after its limit, and the pending statement raises an error."""
    engine = open_embedded_postgres(server.folder, sizes=PoolSizes(min=1, max=1), statement_timeout_ms=0)
    engine._close_s_max = 0.2
    await engine.run(read("SELECT 1"))
    with ThreadPoolExecutor(1) as threads, paused(server):
        pending = threads.submit(asyncio.run, engine.run(read("SELECT 1")))
        while not engine._writer._in_use:
            pass
        engine.close()
        with pytest.raises(HoldfastError):
            pending.result(30)
