"""A connection is lost before the server hears a request, or before we hear its answer: what is done again, what never."""

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

from .cutting_front import CuttingFront
from .test_statements import read, write

INSERT = write("INSERT INTO t VALUES (1)")
REPEATABLE = write("INSERT INTO t SELECT 1 WHERE NOT EXISTS (SELECT FROM t)", repeatable=True)
COUNT = read("SELECT count(*) AS n FROM t")


@pytest.fixture(scope="module")
def front() -> Iterator[CuttingFront]:
    with tempfile.TemporaryDirectory(prefix="cut-") as folder:
        front = CuttingFront(postgres.fresh_database(), Path(folder))
        yield front
        front.close()


@pytest.fixture(scope="module")
def opened(front: CuttingFront) -> Iterator[PostgresSql]:
    with closing(open_postgres(front.url, sizes=PoolSizes(min=1, max=1))) as engine:
        # No key: a row that is written twice is there twice.
        asyncio.run(engine.run(write("CREATE TABLE t (id integer)")))
        yield engine


@pytest.fixture
def engine(front: CuttingFront, opened: PostgresSql) -> PostgresSql:
    asyncio.run(opened.run(write("TRUNCATE t")))
    front.cuts = 0
    return opened


async def interactive(engine: PostgresSql) -> None:
    async with engine.transaction() as transaction:
        await transaction.run(INSERT)


Work = Callable[[PostgresSql], Awaitable[object]]
ALONE: Work = lambda engine: engine.run(INSERT)  # noqa: E731
ALONE_REPEATABLE: Work = lambda engine: engine.run(REPEATABLE)  # noqa: E731
COUNTED: Work = lambda engine: engine.run(write(INSERT.text, expected=1))  # noqa: E731
TOGETHER: Work = lambda engine: engine.run_all([INSERT, read("SELECT 1")])  # noqa: E731
ALL_REPEATABLE: Work = lambda engine: engine.run_all([REPEATABLE, read("SELECT 1")])  # noqa: E731

CASES: list[tuple[str, Work, bytes, bool, type[Exception] | None, int]] = [
    ("a statement that nobody heard of may have been done", ALONE, b"INSERT", False, OutcomeUnknown, 0),
    ("a statement whose answer is lost may have been done", ALONE, b"INSERT", True, OutcomeUnknown, 1),
    ("a repeatable one is repeated", ALONE_REPEATABLE, b"INSERT", False, None, 1),
    ("a repeatable one is repeated though it was done", ALONE_REPEATABLE, b"INSERT", True, None, 1),
    ("without its commit a transaction was not done, and is repeated", TOGETHER, b"BEGIN", False, None, 1),
    ("and so where it was heard", TOGETHER, b"BEGIN", True, None, 1),
    ("and so for one statement with a count", COUNTED, b"BEGIN", True, None, 1),
    ("a commit that nobody heard of may have been done", TOGETHER, b"COMMIT", False, OutcomeUnknown, 0),
    ("a commit whose answer is lost may have been done", TOGETHER, b"COMMIT", True, OutcomeUnknown, 1),
    ("unless all of it is repeatable", ALL_REPEATABLE, b"COMMIT", True, None, 1),
    ("a caller's transaction is begun again, if nobody heard of it", interactive, b"BEGIN", False, None, 1),
    ("in it nothing is repeated", interactive, b"INSERT", True, StoreUnreachable, 0),
    ("and its commit may have been done", interactive, b"COMMIT", True, OutcomeUnknown, 1),
]


@pytest.mark.parametrize(
    ("work", "word", "is_heard", "raised", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_lost_connection(
    front: CuttingFront,
    engine: PostgresSql,
    work: Work,
    word: bytes,
    is_heard: bool,
    raised: type[Exception] | None,
    rows: int,
) -> None:
    front.cut(word, is_heard=is_heard)

    async def story() -> Exception | None:
        try:
            await work(engine)
        except (OutcomeUnknown, StoreUnreachable) as error:
            return error
        return None

    outcome = asyncio.run(story())
    assert front.cuts == 1
    assert (None if outcome is None else type(outcome)) is raised
    assert asyncio.run(engine.run(COUNT)).rows == ({"n": rows},)
    if isinstance(outcome, OutcomeUnknown):
        assert not outcome.safe_to_repeat


def test_that_it_was_lost_and_answers_again_is_logged_once_each(
    front: CuttingFront, engine: PostgresSql, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    front.cut(b"count", is_heard=True)
    for _ in range(2):
        asyncio.run(engine.run(COUNT))

    assert [(each.name.split(".")[0], each.levelname) for each in caplog.records] == [
        ("holdfast", "WARNING"),
        ("holdfast", "INFO"),
    ]


def test_a_read_is_asked_again(front: CuttingFront, engine: PostgresSql) -> None:
    for is_heard in (True, False):
        front.cut(b"count", is_heard=is_heard)
        assert asyncio.run(engine.run(COUNT)).rows == ({"n": 0},)
    assert front.cuts == 2


def test_the_outcome_of_a_repeatable_write_is_unknown_and_may_be_repeated_when_patience_is_over(
    front: CuttingFront, engine: PostgresSql
) -> None:
    engine._patience_s = 0.3
    front.cut(b"INSERT", is_heard=True)
    front.close()
    with pytest.raises(OutcomeUnknown) as unknown:
        asyncio.run(engine.run(REPEATABLE))
    assert unknown.value.safe_to_repeat
