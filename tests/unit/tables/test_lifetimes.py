"""Lifetimes: what is over goes, what is not stays, whatever the attribute was before."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.expressions.nodes import AttributeExists, Path
from holdfast.operations.tables import (
    BatchGetItem,
    CreateTable,
    GetItem,
    KeysOfTable,
    PutItem,
    Query,
    Scan,
    UpdateTimeToLive,
)
from holdfast.operations.values import Value
from tests.faults.engine_consistency import assert_consistent, items_of

from .stepping import BY_G, START, Stepped, definition

YEAR = 365 * 86400


@pytest.fixture
def mortal(engine: Stepped) -> Stepped:
    engine.run(CreateTable(definition(BY_G)))
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.finish()
    return engine


@pytest.mark.parametrize(
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
def test_an_item_goes_if_its_end_is_a_number_not_long_ago(mortal: Stepped, end: Value, stays: bool) -> None:
    mortal.run(PutItem("tab", {"pk": "a", "end": end}))
    hidden = mortal.run(GetItem("tab", {"pk": "a"}, hide_expired=True)).item is None
    assert hidden == (not stays)
    mortal.tables.sweep()
    assert (mortal.run(GetItem("tab", {"pk": "a"})).item is not None) == stays
    assert_consistent(mortal.tables)


def test_an_end_noted_for_a_former_attribute_takes_nothing_away(mortal: Stepped) -> None:
    for at in range(20):
        mortal.run(PutItem("tab", {"pk": f"{at}", "end": int(START) + 100}))
    mortal.run(UpdateTimeToLive("tab", "end", False))
    mortal.clock.moment += 200
    mortal.run(UpdateTimeToLive("tab", "other", True))
    while mortal.pending():
        mortal.expire("tab")
        mortal.step()
    mortal.tables.sweep()
    assert len(items_of(mortal.tables, "tab")) == 20


def test_items_written_before_the_lifetime_was_set_go_too(engine: Stepped) -> None:
    engine.run(CreateTable(definition(BY_G)))
    for at in range(20):
        engine.run(PutItem("tab", {"pk": f"{at}", "end": int(START) + at}))
    engine.run(UpdateTimeToLive("tab", "end", True))
    engine.clock.moment += 9.5
    while engine.pending():
        engine.expire("tab")
        engine.step()
    engine.tables.sweep()
    assert items_of(engine.tables, "tab").keys() == {f"{at}" for at in range(10, 20)}
    assert_consistent(engine.tables)


def test_an_item_given_a_longer_life_stays(mortal: Stepped) -> None:
    mortal.run(PutItem("tab", {"pk": "a", "end": int(START) + 10}))
    mortal.run(PutItem("tab", {"pk": "a", "end": int(START) + 1000}))
    mortal.clock.moment += 100
    mortal.tables.sweep()
    assert items_of(mortal.tables, "tab").keys() == {"a"}


def test_what_is_over_but_not_yet_removed_is_shown_unless_it_shall_be_hidden(mortal: Stepped) -> None:
    """AWS shows it; `hide_expired` is ours."""
    mortal.run(PutItem("tab", {"pk": "a", "g": "x", "n": 1, "end": int(START)}))
    of_a = (KeyTest("pk", "=", ("a",)),)
    assert mortal.run(GetItem("tab", {"pk": "a"})).item is not None
    assert mortal.run(Scan("tab")).count == mortal.run(Query("tab", of_a)).count == 1
    assert mortal.run(GetItem("tab", {"pk": "a"}, hide_expired=True)).item is None
    hidden = [mortal.run(Scan("tab", hide_expired=True)), mortal.run(Query("tab", of_a, hide_expired=True))]
    assert [(page.count, page.scanned_count) for page in hidden] == [(0, 1), (0, 1)]


def test_of_a_batch_only_what_is_over_is_hidden(mortal: Stepped) -> None:
    living = {"pk": "b", "end": int(START) + 100}
    mortal.run(PutItem("tab", {"pk": "a", "end": int(START)}))
    mortal.run(PutItem("tab", living))  # type: ignore[arg-type]
    both = (KeysOfTable("tab", ({"pk": "a"}, {"pk": "b"})),)
    assert len(mortal.run(BatchGetItem(both)).items["tab"]) == 2
    hidden = mortal.run(BatchGetItem(both, hide_expired=True))
    assert hidden.items == {"tab": [living]}
    assert hidden.unprocessed == ()


@pytest.mark.parametrize("index", [None, "by_g"])
def test_a_filter_does_not_bring_back_what_is_hidden(mortal: Stepped, index: str | None) -> None:
    mortal.run(PutItem("tab", {"pk": "a", "g": "x", "n": 1, "end": int(START)}))
    mortal.run(PutItem("tab", {"pk": "b", "g": "x", "n": 2, "end": int(START) + 100}))
    there = AttributeExists(Path("end"))
    of_x = (KeyTest("g", "=", ("x",)),)
    assert mortal.run(Scan("tab", index=index, filter=there)).count == 2
    pages = [mortal.run(Scan("tab", index=index, filter=there, hide_expired=True))]
    if index is not None:
        pages.append(mortal.run(Query("tab", of_x, index, there, hide_expired=True)))
    for page in pages:
        assert [item["pk"] for item in page.items or []] == ["b"]
