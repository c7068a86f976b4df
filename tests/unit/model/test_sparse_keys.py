"""Sparse index keys in memory: each kind of write adds and removes index entries with their attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Attr, Entity, IndexKey, Key, Table, Update, attr
from holdfast.core.errors import ConditionFailed, InvalidRequest
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

tasks = Table("Tasks", partition="PK", sort="SK")
by_assignee = tasks.global_index("by-assignee", "GSI1PK", "GSI1SK")
by_state = tasks.global_index("by-state", "GSI2PK", "GSI2SK")
by_label = tasks.global_index("by-label", "label", "rank", sort_type="N")


class State(StrEnum):
    open = "open"
    waiting = "waiting"
    done = "done"


class Task(Entity, table=tasks):
    id: Attr[str] = attr()
    project: Attr[str] = attr()
    state: Attr[State] = attr(default=State.open)
    assignee: Attr[str | None] = attr(default=None)
    due: Attr[str | None] = attr(default=None)
    label: Attr[str | None] = attr(default=None)
    rank: Attr[int | None] = attr(default=None)
    title: Attr[str] = attr(default="")

    of = Key("PROJECT#" + project, "TASK#" + id)
    of_assignee = IndexKey(by_assignee, "WHO#" + assignee, "DUE#" + due)
    unfinished = IndexKey(by_state, "OPEN#" + project, id, only=state.one_of(State.open, State.waiting))
    of_label = IndexKey(by_label, label, rank)


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(tasks) as opened:
        yield opened


def _assigned_ids(stores: BlockingStores) -> list[str]:
    """Return the tasks that the index of assignees has for Ada."""
    return [task.id for task in stores.run(Task.of_assignee("ada").query())]


def _unfinished_ids(stores: BlockingStores) -> list[str]:
    """Return the tasks that the index of unfinished tasks has."""
    return [task.id for task in stores.run(Task.unfinished("p").query())]


def test_an_item_without_an_attribute_of_the_key_is_not_in_the_index(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p", assignee="ada")))
    item = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")

    assert item is not None and not {"GSI1PK", "GSI1SK"} & item.keys()
    assert _assigned_ids(stores) == []


def test_put_adds_and_removes_an_index_entry(stores: BlockingStores) -> None:
    task = Task(id="1", project="p", assignee="ada", due="2026-03-01")
    stores.run(Task.put(task))
    assert _assigned_ids(stores) == ["1"]

    stores.run(Task.put(task.model_copy(update={"assignee": None})))
    assert _assigned_ids(stores) == []


def test_update_adds_and_removes_an_index_entry(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p")))
    change = Task.of("p").update("1")

    stores.run(change.set(Task.assignee, "ada").set(Task.due, "2026-03-01"))
    assert _assigned_ids(stores) == ["1"]

    stores.run(change.remove(Task.assignee).set(Task.due, "2026-03-01"))
    assert _assigned_ids(stores) == []
    item = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")
    assert item is not None and not {"GSI1PK", "GSI1SK", "assignee"} & item.keys()


def test_an_update_moves_an_item_within_the_index(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p", assignee="ada", due="2026-03-01")))

    stores.run(Task.of("p").update("1").set(Task.assignee, "bo").set(Task.due, "2026-04-01"))

    assert _assigned_ids(stores) == []
    assert [task.due for task in stores.run(Task.of_assignee("bo").query())] == ["2026-04-01"]


def test_only_keeps_an_item_in_the_index_while_the_attribute_has_one_of_its_values(
    stores: BlockingStores,
) -> None:
    stores.run(Task.put(Task(id="1", project="p")))
    change = Task.of("p").update("1")
    seen = []
    for state in (State.open, State.waiting, State.done, State.open):
        stores.run(change.set(Task.state, state))
        seen.append(_unfinished_ids(stores))

    assert seen == [["1"], ["1"], [], ["1"]]


def test_an_update_of_something_else_leaves_the_keys_alone(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p", assignee="ada", due="2026-03-01")))
    before = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")
    stores.run(Task.of("p").update("1").set(Task.title, "x"))
    after = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")

    assert before is not None and after == {**before, "title": "x"}


def test_index_on_plain_attributes_stores_no_extra_key(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p")))
    stores.run(Task.of("p").update("1").set(Task.label, "red"))
    assert list(stores.run(Task.of_label("red").query())) == []

    stores.run(Task.of("p").update("1").set(Task.rank, 7))
    assert [task.id for task in stores.run(Task.of_label("red").at(7))] == ["1"]


LEAVING: list[tuple[Update[Task], list[str]]] = [
    (Task.of("p").update("1").remove(Task.due), ["GSI1PK", "GSI1SK"]),
    (Task.of("p").update("1").remove(Task.assignee), ["GSI1PK", "GSI1SK"]),
    (Task.of("p").update("1").remove(Task.assignee).remove(Task.due), ["GSI1PK", "GSI1SK"]),
    (Task.of("p").update("1").remove(Task.assignee).set_if_absent(Task.due, "x"), ["GSI1PK", "GSI1SK"]),
    (Task.of("p").update("1").set(Task.state, State.done), ["GSI2PK", "GSI2SK"]),
]


@pytest.mark.parametrize(("update", "names"), LEAVING, ids=range(len(LEAVING)))
def test_an_update_that_leaves_an_index_needs_nothing_else_of_its_key(
    update: Update[Task], names: list[str], stores: BlockingStores
) -> None:
    assert update.compute_key_changes() == dict.fromkeys(names)
    stores.run(Task.put(Task(id="1", project="p", assignee="ada", due="d", state=State.waiting)))
    stores.run(update)
    item = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")
    assert item is not None and not item.keys() & set(names)


def test_current_value_is_used_for_the_key_and_not_written(stores: BlockingStores) -> None:
    stores.run(Task.put(Task(id="1", project="p", due="2026")))
    stores.run(Task.of("p").update("1").set(Task.assignee, "ada").with_current(Task.due, "2026"))

    assert _assigned_ids(stores) == ["1"]
    update = Task.of("p").update("1").set(Task.assignee, "eve").with_current(Task.due, "2026")
    assert "due" not in str(update.build_request(str).update)
    assert update.with_current(Task.state, State.open).compute_key_changes() == {
        "GSI1PK": "WHO#eve",
        "GSI1SK": "DUE#2026",
    }


def test_current_value_of_none_keeps_the_item_out_of_the_index() -> None:
    update = Task.of("p").update("1").set(Task.assignee, "ada").with_current(Task.due, None)

    assert update.compute_key_changes() == {"GSI1PK": None, "GSI1SK": None}


REFUSED = [
    (
        Task.of("p").update("1").set(Task.assignee, "ada").set(Task.due, "x").with_current(Task.due, "x"),
        r"due is both changed by this update and passed to with_current\(…\)",
    ),
    (Task.of("p").update("1").with_current(Task.project, "q"), "the updated item has 'PROJECT#p'"),
    (
        Task.of("p").update("1").with_current(Task.due, "x").or_create(),
        r"would then lack due: use set\(…\)",
    ),
    (Task.of("p").update("1").set(Task.assignee, "ada"), "assignee and due: also set due"),
    (
        Task.of("p").update("1").set_if_absent(Task.state, State.open),
        "set state to a known value",
    ),
    (
        Task.of("p").update("1").set_if_absent(Task.due, "x").set(Task.assignee, "ada"),
        "set due to a known value",
    ),
]


@pytest.mark.parametrize(("update", "message"), REFUSED)
def test_rejects_an_update_with_missing_or_contradictory_key_values(
    stores: BlockingStores, update: object, message: str
) -> None:
    stores.run(Task.put(Task(id="1", project="p", assignee="bo", due="2026-01-01")))
    assert isinstance(update, type(Task.of("p").update("1")))
    with pytest.raises(InvalidRequest, match=message):
        stores.run(update)
    assert stores.run(Task.of_assignee("bo").query()).items[0].due == "2026-01-01"


texts = st.sampled_from(["", "a", "b#", "c%"])
CHANGES: list[st.SearchStrategy[Callable[[Update[Task]], Update[Task]]]] = [
    texts.map(lambda text: lambda update: update.set(Task.assignee, text)),
    texts.map(lambda text: lambda update: update.set(Task.due, text)),
    texts.map(lambda text: lambda update: update.set(Task.title, text)),
    texts.map(lambda text: lambda update: update.set(Task.label, f"l{text}")),
    texts.map(lambda text: lambda update: update.set_if_absent(Task.due, text)),
    st.sampled_from(State).map(lambda state: lambda update: update.set(Task.state, state)),
    st.just(lambda update: update.remove(Task.assignee)),
    st.just(lambda update: update.remove(Task.due)),
    st.just(lambda update: update.remove(Task.rank)),
    st.just(lambda update: update.add(Task.rank, 1)),
    st.just(lambda update: update.or_create()),
]


def _apply_changes(changes: list[Callable[[Update[Task]], Update[Task]]]) -> Update[Task]:
    """Return the update of task 1 with these changes."""
    update = Task.of("p").update("1")
    for change in changes:
        update = change(update)
    return update


@given(st.lists(st.lists(st.one_of(CHANGES), min_size=1, max_size=4), max_size=8), st.booleans())
def test_keys_always_match_the_attributes(
    changes: list[list[Callable[[Update[Task]], Update[Task]]]], begins_with_one: bool
) -> None:
    with open_blocking_stores(tasks) as stores:
        if begins_with_one:
            stores.run(Task.put(Task(id="1", project="p", assignee="a", due="b#", label="l")))
        for several in changes:
            with suppress(InvalidRequest, ConditionFailed):
                stores.run(_apply_changes(several))

            item = stores.get_item(tasks, PK="PROJECT#p", SK="TASK#1")
            # An item created by an update has no defaults written out; its keys must be right anyway.
            assert item is None or item == {
                name: value
                for name, value in Task.from_item(item).to_item().items()
                if name in item or name.startswith("GSI")
            }
