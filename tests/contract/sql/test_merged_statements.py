"""Independent writes of one transaction, which the engine sends as one statement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.errors import ConditionFailed, RowAlreadyExists
from holdfast.operations.sql import Statement
from holdfast.stores.sql.postgres.merging import merge

from .conftest import OpenEngine
from .test_statements import MADE, add, count, read, write

# With a common table expression of its own, and parentheses in a text and in a comment.
COUNTED = """WITH counted AS (SELECT count(*) AS n FROM patient -- (
WHERE name <> ')(')
INSERT INTO patient (id, name) SELECT %(id)s, %(name)s || counted.n FROM counted
RETURNING pg_notify('c', '')"""


def independent(*statements: Statement) -> list[Statement]:
    """Return the statements, declared to be independent."""
    return [msgspec.structs.replace(each, is_independent=True) for each in statements]


def sent(monkeypatch: pytest.MonkeyPatch, engine: Any) -> list[str]:
    """Return the list to which the texts that the engine runs alone are added."""
    texts: list[str] = []
    run = engine._run

    def listen(statement: Statement, left_s: float) -> Any:
        texts.append(statement.text)
        return run(statement, left_s)

    monkeypatch.setattr(engine, "_run", listen)
    return texts


async def test_independent_writes_are_one_statement(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    await engine.run(write(MADE))
    texts = sent(monkeypatch, engine)
    writes = independent(add(1, "a", expected=1), add(2, "b"), write(COUNTED, id=3, name="c", expected=1))
    results = await engine.run_all(writes)
    assert [each.count for each in results] == [1, 0, 1]
    assert len(texts) == 1
    found = await engine.run(read("SELECT id, name FROM patient ORDER BY id"))
    # All see the rows as they were before.
    assert [tuple(each.values()) for each in found.rows] == [(1, "a"), (2, "b"), (3, "c0")]


async def test_unexpected_count_or_a_refused_row_undoes_all_of_them(open_engine: OpenEngine) -> None:
    engine = open_engine()
    await engine.run(write(MADE))
    await engine.run(add(1, "a"))
    taken = write(
        "INSERT INTO patient (id, name) VALUES (%(id)s, %(name)s) ON CONFLICT DO NOTHING",
        id=1,
        name="a",
        expected=1,
    )
    with pytest.raises(ConditionFailed):
        await engine.run_all(independent(add(2, "b", expected=1), taken))
    with pytest.raises(RowAlreadyExists):
        await engine.run_all(independent(add(3, "c", expected=1), add(4, "a")))
    assert await count(engine) == 1


@pytest.mark.parametrize(
    "statements",
    [
        independent(add(1, "a")),
        [add(1, "a"), *independent(add(2, "b"))],
        independent(add(1, "a"), read("SELECT 1")),
        independent(add(1, "a"), write("WITH RECURSIVE r AS (SELECT 1) DELETE FROM patient")),
        independent(add(1, "a"), write("WITH r AS (SELECT 1), s AS (SELECT 2) DELETE FROM patient")),
        independent(write(COUNTED, id=1, name="a"), write(COUNTED, id=2, name="b")),
    ],
)
def test_other_transactions_are_not_merged(statements: list[Statement]) -> None:
    assert merge(statements) is None
