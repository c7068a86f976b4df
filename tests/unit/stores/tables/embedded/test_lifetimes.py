"""Time to live in the embedded engine: which items are removed, hidden and kept."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeExists, Path
from holdfast.operations.tables import (
    BatchGetItem,
    CreateTable,
    GetItem,
    KeysAndAttributes,
    PutItem,
    Query,
    Scan,
    UpdateTimeToLive,
)
from holdfast.operations.values import Value
from tests.cases import all_cases
from tests.faults.tables.engine_consistency import assert_consistent, read_items

from .stepped_engine import BY_G, START, SteppedEngine, definition

YEAR = 365 * 86400


@pytest.fixture
def ttl_engine(engine: SteppedEngine) -> SteppedEngine:
    """Return the stepped engine with a table whose items expire by `end`."""
    engine.run(CreateTable(definition(BY_G)))
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.finish()
    return engine


@all_cases(
    ("end", "stays"),
    [
        (int(START), False),
        (int(START) - 4 * YEAR, False),
        (int(START) - 6 * YEAR, True),
        (int(START) + 1, True),
        (0, True),
        (Decimal("999999999.5"), False),
        (Decimal("1000000000.5"), False),
        (str(int(START)), True),
        (frozenset({int(START)}), True),
        (10**37, True),
        (-(10**37), True),
        (Decimal("1234567890123456789012345678.5"), True),
        (Decimal("-1234567890123456789012345678.5"), True),
    ],
)
def test_removes_items_with_a_recent_numeric_expiry(
    ttl_engine: SteppedEngine, end: Value, stays: bool
) -> None:
    ttl_engine.run(PutItem("tab", {"pk": "a", "end": end}))
    hidden = ttl_engine.run(GetItem("tab", {"pk": "a"}, hide_expired=True)).item is None
    assert hidden == (not stays)
    ttl_engine.tables.sweep()
    assert (ttl_engine.run(GetItem("tab", {"pk": "a"})).item is not None) == stays
    assert_consistent(ttl_engine.tables)


def test_expiry_of_a_former_attribute_removes_nothing(ttl_engine: SteppedEngine) -> None:
    """Ends of life stored for a former lifetime attribute are not used after it changed."""
    for at in range(20):
        ttl_engine.run(PutItem("tab", {"pk": f"{at}", "end": int(START) + 100}))
    ttl_engine.run(UpdateTimeToLive("tab", "end", False))
    ttl_engine.clock.moment += 200
    ttl_engine.run(UpdateTimeToLive("tab", "other", True))
    while ttl_engine.pending():
        ttl_engine.expire("tab")
        ttl_engine.step()
    ttl_engine.tables.sweep()
    assert len(read_items(ttl_engine.tables, "tab")) == 20


def test_removes_items_written_before_ttl_was_enabled(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition(BY_G)))
    for at in range(20):
        engine.run(PutItem("tab", {"pk": f"{at}", "end": int(START) + at}))
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.clock.moment += 9.5
    while engine.pending():
        engine.expire("tab")
        engine.step()
    engine.tables.sweep()
    assert read_items(engine.tables, "tab").keys() == {f"{at}" for at in range(10, 20)}
    assert_consistent(engine.tables)


def test_expired_items_are_returned_unless_hidden(ttl_engine: SteppedEngine) -> None:
    """AWS returns such items; `hide_expired` is ours."""
    ttl_engine.run(PutItem("tab", {"pk": "a", "g": "x", "n": 1, "end": int(START)}))
    of_a = (KeyTest("pk", "=", ("a",)),)
    assert ttl_engine.run(GetItem("tab", {"pk": "a"})).item is not None
    assert ttl_engine.run(Scan("tab")).count == ttl_engine.run(Query("tab", of_a)).count == 1
    assert ttl_engine.run(GetItem("tab", {"pk": "a"}, hide_expired=True)).item is None
    hidden = [
        ttl_engine.run(Scan("tab", hide_expired=True)),
        ttl_engine.run(Query("tab", of_a, hide_expired=True)),
    ]
    assert [(page.count, page.scanned_count) for page in hidden] == [(0, 1), (0, 1)]


def test_batch_hides_only_expired_items(ttl_engine: SteppedEngine) -> None:
    living = {"pk": "b", "end": int(START) + 100}
    ttl_engine.run(PutItem("tab", {"pk": "a", "end": int(START)}))
    ttl_engine.run(PutItem("tab", living))  # type: ignore[arg-type]
    both = (KeysAndAttributes("tab", ({"pk": "a"}, {"pk": "b"})),)
    assert len(ttl_engine.run(BatchGetItem(both)).items["tab"]) == 2
    hidden = ttl_engine.run(BatchGetItem(both, hide_expired=True))
    assert hidden.items == {"tab": [living]}
    assert hidden.unprocessed == ()


@pytest.mark.parametrize("index", [None, "by_g"])
def test_filter_does_not_reveal_hidden_items(ttl_engine: SteppedEngine, index: str | None) -> None:
    ttl_engine.run(PutItem("tab", {"pk": "a", "g": "x", "n": 1, "end": int(START)}))
    ttl_engine.run(PutItem("tab", {"pk": "b", "g": "x", "n": 2, "end": int(START) + 100}))
    there = AttributeExists(Path("end"))
    of_x = (KeyTest("g", "=", ("x",)),)
    assert ttl_engine.run(Scan("tab", index=index, filter=there)).count == 2
    pages = [ttl_engine.run(Scan("tab", index=index, filter=there, hide_expired=True))]
    if index is not None:
        pages.append(ttl_engine.run(Query("tab", of_x, index, there, hide_expired=True)))
    for page in pages:
        assert [item["pk"] for item in page.items or []] == ["b"]
