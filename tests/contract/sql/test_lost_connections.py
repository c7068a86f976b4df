"""Connections cut before PostgreSQL gets a request or before its answer arrives: what the engine retries."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import OutcomeUnknown, StoreUnreachable
from holdfast.stores.sql.postgres import PoolSizes, PostgresSql, open_postgres
from tests import postgres

from .lossy_proxy import LossyProxy
from .test_statements import read, write

INSERT = write("INSERT INTO t VALUES (1)")
REPEATABLE = write("INSERT INTO t SELECT 1 WHERE NOT EXISTS (SELECT FROM t)", repeatable=True)
COUNT = read("SELECT count(*) AS n FROM t")


@pytest.fixture(scope="module")
def proxy() -> Iterator[LossyProxy]:
    with tempfile.TemporaryDirectory(prefix="cut-") as folder:
        proxy = LossyProxy(postgres.create_database(), Path(folder))
        yield proxy
        proxy.close()


@pytest.fixture(scope="module")
def module_engine(proxy: LossyProxy) -> Iterator[PostgresSql]:
    """Open one engine through the proxy, with one connection and a table without a key."""
    with closing(open_postgres(proxy.url, sizes=PoolSizes(min=1, max=1))) as engine:
        # No key: a row that is written twice appears twice.
        asyncio.run(engine.run(write("CREATE TABLE t (id integer)")))
        yield engine


@pytest.fixture
async def engine(proxy: LossyProxy, module_engine: PostgresSql) -> PostgresSql:
    """Return the engine with an empty table."""
    await module_engine.run(write("TRUNCATE t"))
    proxy.cuts = 0
    return module_engine


async def interactive(engine: PostgresSql) -> None:
    """Insert the row in a transaction of the caller."""
    async with engine.transaction() as transaction:
        await transaction.run(INSERT)


Work = Callable[[PostgresSql], Awaitable[object]]
ALONE: Work = lambda engine: engine.run(INSERT)  # noqa: E731
ALONE_REPEATABLE: Work = lambda engine: engine.run(REPEATABLE)  # noqa: E731
COUNTED: Work = lambda engine: engine.run(write(INSERT.text, expected=1))  # noqa: E731
TOGETHER: Work = lambda engine: engine.run_all([INSERT, read("SELECT 1")])  # noqa: E731
ALL_REPEATABLE: Work = lambda engine: engine.run_all([REPEATABLE, read("SELECT 1")])  # noqa: E731

CASES: list[tuple[str, Work, bytes, bool, type[Exception] | None, int]] = [
    (
        "a statement that did not reach the server may have been done",
        ALONE,
        b"INSERT",
        False,
        OutcomeUnknown,
        0,
    ),
    ("a statement whose answer is lost may have been done", ALONE, b"INSERT", True, OutcomeUnknown, 1),
    ("a repeatable one is repeated", ALONE_REPEATABLE, b"INSERT", False, None, 1),
    ("a repeatable one is repeated though it was done", ALONE_REPEATABLE, b"INSERT", True, None, 1),
    ("a transaction cut at its begin was not done and is repeated", TOGETHER, b"BEGIN", False, None, 1),
    ("also if the server got its begin", TOGETHER, b"BEGIN", True, None, 1),
    ("also for one statement with an expected count", COUNTED, b"BEGIN", True, None, 1),
    (
        "a commit that did not reach the server may have been done",
        TOGETHER,
        b"COMMIT",
        False,
        OutcomeUnknown,
        0,
    ),
    ("a commit whose answer is lost may have been done", TOGETHER, b"COMMIT", True, OutcomeUnknown, 1),
    ("a transaction of repeatable statements is repeated", ALL_REPEATABLE, b"COMMIT", True, None, 1),
    ("a caller's transaction is begun again if its begin was lost", interactive, b"BEGIN", False, None, 1),
    ("in a caller's transaction nothing is repeated", interactive, b"INSERT", True, StoreUnreachable, 0),
    (
        "the commit of a caller's transaction may have been done",
        interactive,
        b"COMMIT",
        True,
        OutcomeUnknown,
        1,
    ),
]


@pytest.mark.parametrize(
    ("work", "word", "is_heard", "raised", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
async def test_outcome_after_a_lost_connection(
    proxy: LossyProxy,
    engine: PostgresSql,
    work: Work,
    word: bytes,
    is_heard: bool,
    raised: type[Exception] | None,
    rows: int,
) -> None:
    """The proxy cuts at `word`, after the server got it if `is_heard`; check the error and the number of
    rows.
    """
    proxy.cut(word, is_heard=is_heard)

    async def story() -> Exception | None:
        try:
            await work(engine)
        except (OutcomeUnknown, StoreUnreachable) as error:
            return error
        return None

    outcome = await story()
    assert proxy.cuts == 1
    assert (None if outcome is None else type(outcome)) is raised
    assert (await engine.run(COUNT)).rows == ({"n": rows},)
    if isinstance(outcome, OutcomeUnknown):
        assert not outcome.safe_to_repeat


async def test_logs_loss_and_recovery_once_each(
    proxy: LossyProxy, engine: PostgresSql, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    proxy.cut(b"count", is_heard=True)
    for _ in range(2):
        await engine.run(COUNT)

    assert [(each.name.split(".")[0], each.levelname) for each in caplog.records] == [
        ("holdfast", "WARNING"),
        ("holdfast", "INFO"),
    ]


async def test_retries_a_read(proxy: LossyProxy, engine: PostgresSql) -> None:
    for is_heard in (True, False):
        proxy.cut(b"count", is_heard=is_heard)
        assert (await engine.run(COUNT)).rows == ({"n": 0},)
    assert proxy.cuts == 2


async def test_repeatable_write_has_an_unknown_outcome_after_the_deadline(
    proxy: LossyProxy, engine: PostgresSql
) -> None:
    engine._max_retry_s = 2.0
    proxy.cut(b"INSERT", is_heard=True)
    proxy.close()
    with pytest.raises(OutcomeUnknown) as unknown:
        await engine.run(REPEATABLE)
    assert unknown.value.safe_to_repeat
