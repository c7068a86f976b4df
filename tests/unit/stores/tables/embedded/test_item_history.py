"""The past of one item, read from the change log: at a time, and change by change."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest, InvalidRestoreTime, NotFound, RecoveryUnavailable
from holdfast.operations.expressions.nodes import Literal, Path, SetAction, Update
from holdfast.operations.tables import (
    CreateTable,
    DeleteItem,
    GetItemAt,
    ItemAt,
    ItemChange,
    ListItemChanges,
    PutItem,
    UpdateContinuousBackups,
    UpdateItem,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.handlers import item_history

from .stepped_engine import SteppedEngine, definition

KEY: Item = {"pk": "a"}


@pytest.fixture
def recoverable(engine: SteppedEngine) -> SteppedEngine:
    engine.run(CreateTable(definition()))
    engine.run(UpdateContinuousBackups("tab", True))
    engine.clock.moment += 60
    return engine


def read_at(engine: SteppedEngine, at: float, key: Item = KEY) -> ItemAt:
    """Return the item at the time, examining as much of the log as that needs."""
    found = engine.run(GetItemAt("tab", key, at))
    while found.next is not None:
        found = engine.run(GetItemAt("tab", key, at, found.next))
    return found


def list_changes(engine: SteppedEngine, limit: int = 25) -> list[ItemChange]:
    """Return all changes of the item, over all pages."""
    page = engine.run(ListItemChanges("tab", KEY, limit=limit))
    changes = list(page.changes)
    while page.next is not None:
        page = engine.run(ListItemChanges("tab", KEY, page.next, limit))
        changes += page.changes
    return changes


@pytest.mark.parametrize("examined", [3, 50_000])
def test_agrees_with_a_plain_history(
    recoverable: SteppedEngine, monkeypatch: pytest.MonkeyPatch, examined: int
) -> None:
    monkeypatch.setattr(item_history, "MAX_EXAMINED_CHANGES", examined)
    draw, state, history = Random(18), dict[str, Item](), list[tuple[float, dict[str, Item]]]()
    for step in range(120):
        key = draw.choice("abc")
        if draw.random() < 0.3:
            recoverable.run(DeleteItem("tab", {"pk": key}))
            state.pop(key, None)
        else:
            state[key] = {"pk": key, "v": step}
            recoverable.run(PutItem("tab", state[key]))
        history.append((recoverable.clock.moment, dict(state)))
        recoverable.clock.moment += 1.5

    for at, then in history:
        for key in "abc":
            for moment in (at, at + 1.2):
                assert read_at(recoverable, moment, {"pk": key}).item == then.get(key)


@pytest.mark.parametrize("examined", [2, 50_000])
def test_lists_each_change_with_both_images(
    recoverable: SteppedEngine, monkeypatch: pytest.MonkeyPatch, examined: int
) -> None:
    monkeypatch.setattr(item_history, "MAX_EXAMINED_CHANGES", examined)
    for version in (1, 2):
        recoverable.run(PutItem("tab", {"pk": "a", "v": version}))
        recoverable.run(PutItem("tab", {"pk": "b", "v": version}))
    recoverable.run(DeleteItem("tab", KEY))
    recoverable.run(PutItem("tab", {"pk": "b", "v": 3}))

    for limit in (1, 25):
        found = [
            (each.event, each.before, each.after)
            for each in list_changes(recoverable, limit)
            if each.is_after_known
        ]
        assert ("REMOVE", {"pk": "a", "v": 2}, None) in found
        assert [event for event, *_ in found] == ["REMOVE", "MODIFY", "INSERT"]
        assert found[1] == ("MODIFY", {"pk": "a", "v": 1}, {"pk": "a", "v": 2})


def test_an_unchanged_item_is_the_current_one(recoverable: SteppedEngine) -> None:
    recoverable.run(PutItem("tab", {"pk": "a", "v": 1}))
    recoverable.clock.moment += 10

    assert read_at(recoverable, recoverable.clock.moment) == ItemAt({"pk": "a", "v": 1})


def test_says_when_the_item_changed_next(recoverable: SteppedEngine) -> None:
    recoverable.run(PutItem("tab", {"pk": "a", "v": 1}))
    recoverable.clock.moment += 10
    before = recoverable.clock.moment
    recoverable.clock.moment += 10
    recoverable.run(PutItem("tab", {"pk": "a", "v": 2}))

    assert read_at(recoverable, before) == ItemAt({"pk": "a", "v": 1}, changed_at=recoverable.clock.moment)


def erase_item(engine: SteppedEngine) -> float:
    """Create, delete and erase the item. Return a time when it existed."""
    engine.run(PutItem("tab", {"pk": "a", "v": 1}))
    engine.clock.moment += 10
    existed_at = engine.clock.moment
    engine.clock.moment += 10
    engine.run(DeleteItem("tab", KEY))
    engine.tables.erase_traces("tab", [KEY])
    return existed_at


def test_an_erased_item_never_was(recoverable: SteppedEngine) -> None:
    assert read_at(recoverable, erase_item(recoverable)) == ItemAt(None)
    assert list_changes(recoverable) == []


def test_an_image_that_was_erased_from_a_stream_is_unknown_and_not_absent(engine: SteppedEngine) -> None:
    engine.run(CreateTable(replace(definition(), stream_view="NEW_AND_OLD_IMAGES")))
    engine.run(UpdateContinuousBackups("tab", True))

    assert not read_at(engine, erase_item(engine)).is_known
    removal, creation = list_changes(engine)
    assert not removal.is_before_known
    assert creation.before is None
    assert creation.is_before_known


def test_an_update_of_a_part_shows_the_whole_item_before(recoverable: SteppedEngine) -> None:
    recoverable.run(PutItem("tab", {"pk": "a", "v": 1, "w": 1}))
    recoverable.run(UpdateItem("tab", KEY, Update(sets=(SetAction(Path("v"), Literal(2)),))))

    newest = list_changes(recoverable)[0]
    assert (newest.before, newest.after) == ({"pk": "a", "v": 1, "w": 1}, {"pk": "a", "v": 2, "w": 1})


def test_refuses_a_time_outside_the_window_and_a_table_without_recovery(engine: SteppedEngine) -> None:
    engine.run(CreateTable(definition()))
    with pytest.raises(RecoveryUnavailable):
        engine.run(GetItemAt("tab", KEY, engine.clock.moment))

    engine.run(UpdateContinuousBackups("tab", True))
    for at in (engine.clock.moment - 100, engine.clock.moment + 100):
        with pytest.raises(InvalidRestoreTime):
            engine.run(GetItemAt("tab", KEY, at))


def test_refuses_an_unknown_table_a_wrong_key_and_a_wrong_limit(recoverable: SteppedEngine) -> None:
    at = recoverable.clock.moment
    with pytest.raises(NotFound):
        recoverable.run(GetItemAt("none", KEY, at))
    with pytest.raises(InvalidRequest):
        recoverable.run(GetItemAt("tab", {"other": "a"}, at))
    with pytest.raises(InvalidRequest, match="limit"):
        recoverable.run(ListItemChanges("tab", KEY, limit=0))
