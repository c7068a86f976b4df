"""Single items on every tables engine: put, get, update and delete, with conditions and return values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.core.errors import ConditionFailed, InvalidRequest, NotFound
from holdfast.operations.tables import DeleteItem, GetItem, PutItem, UpdateItem, WriteResult
from holdfast.operations.values import Item, are_equal

from .store import Store, condition, projection, update

KEY: Item = {"pk": "a"}
EVERY_TYPE: Item = {
    "pk": "a",
    "text": "ü",
    "empty": "",
    "whole": 12345678901234567890123456789012345678,
    "fraction": Decimal("-0.000123"),
    "binary": b"\x00\xff",
    "yes": True,
    "no": False,
    "nothing": None,
    "things": [1, "two", [b"3"], {"four": Decimal("4.5")}],
    "tree": {"branch": {"deep": [None, True]}},
    "texts": frozenset({"x", "y"}),
    "numbers": frozenset({1, Decimal("2.5"), -3}),
    "binaries": frozenset({b"a", b"b"}),
}


def _deep(levels: int) -> object:
    """Return a value inside this many nested lists."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def name(store: Store) -> str:
    return store.create("pk:S")


def item_of(store: Store, name: str) -> Item | None:
    """Return the item with the key `KEY`, or None."""
    return store.run(GetItem(table=name, key=KEY, consistent=True)).item


def test_every_type_of_value_comes_back_unchanged(store: Store, name: str) -> None:
    store.put(name, EVERY_TYPE)

    found = item_of(store, name)
    assert found is not None
    assert are_equal(found, EVERY_TYPE)


def test_numbers_come_back_canonical(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "n": Decimal("1.500"), "m": Decimal("3.0"), "s": frozenset({Decimal("2.0")})})

    found = item_of(store, name)
    assert found == {"pk": "a", "n": Decimal("1.5"), "m": 3, "s": frozenset({2})}
    assert type(found["m"]) is int


def test_a_key_with_no_item_reads_as_none(store: Store, name: str) -> None:
    assert item_of(store, name) is None


def test_a_nested_projection_shows_only_what_it_names(store: Store, name: str) -> None:
    store.put(name, EVERY_TYPE)

    got = store.run(
        GetItem(table=name, key=KEY, projection=projection("tree.branch.deep[1], things[1], texts"))
    )
    assert got.item == {
        "tree": {"branch": {"deep": [True]}}, "things": ["two"], "texts": frozenset({"x", "y"}),
    }  # fmt: skip


def test_a_reserved_word_and_an_odd_name_can_be_projected(store: Store, name: str) -> None:
    from holdfast.operations.expressions.nodes import Path

    store.put(name, {"pk": "a", "status": 1, "a.b#c": 2, "other": 3})

    got = store.run(GetItem(table=name, key=KEY, projection=(Path("status"), Path("a.b#c"))))
    assert got.item == {"status": 1, "a.b#c": 2}


def test_a_put_replaces_the_whole_item_and_can_return_the_old_one(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": 1})

    written = store.run(PutItem(table=name, item={"pk": "a", "y": 2}, returns="ALL_OLD"))
    assert written == WriteResult({"pk": "a", "x": 1})
    assert item_of(store, name) == {"pk": "a", "y": 2}


def test_the_first_put_has_no_old_item_to_return(store: Store, name: str) -> None:
    assert store.run(PutItem(table=name, item=KEY, returns="ALL_OLD")) == WriteResult(None)


def test_a_put_whose_condition_fails_changes_nothing_and_shows_the_item(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": frozenset({1})})

    with pytest.raises(ConditionFailed) as failed:
        store.run(
            PutItem(
                table=name,
                item={"pk": "a"},
                condition=condition("attribute_not_exists(pk)"),
                returns_on_failure="ALL_OLD",
            )
        )
    assert failed.value.item == {"pk": "a", "x": frozenset({1})}
    assert failed.value.message == "The conditional request failed"
    assert item_of(store, name) == {"pk": "a", "x": frozenset({1})}


def test_a_failed_condition_shows_no_item_unless_asked(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": 1})

    with pytest.raises(ConditionFailed) as failed:
        store.run(PutItem(table=name, item=KEY, condition=condition("x = :two", two=2)))
    assert failed.value.item is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("x = :v AND (y < :w OR attribute_exists(z))", {"v": 1, "w": 5}, id="and or"),
        pytest.param("NOT x <> :v", {"v": 1}, id="not"),
        pytest.param("x BETWEEN :v AND :w", {"v": 0, "w": 2}, id="between"),
        pytest.param("x IN (:v, :w)", {"v": 1, "w": 2}, id="in"),
        pytest.param("begins_with(s, :v) AND contains(tags, :w)", {"v": "ab", "w": "t"}, id="within"),
        pytest.param("size(s) = :v AND attribute_type(s, :t)", {"v": 3, "t": "S"}, id="size and type"),
        pytest.param("m.leaves[0] = :v AND attribute_not_exists(m.elsewhere)", {"v": True}, id="paths"),
    ],
)
def test_evaluates_every_kind_of_condition(store: Store, name: str, text: str, values: Item) -> None:
    item: Item = {"pk": "a", "x": 1, "y": 2, "s": "abc", "tags": frozenset({"t"}), "m": {"leaves": [True]}}
    store.put(name, item)

    store.run(PutItem(table=name, item=item, condition=condition(text, **values)))
    with pytest.raises(ConditionFailed):
        store.run(PutItem(table=name, item=item, condition=condition(f"NOT ({text})", **values)))


def test_an_update_sets_removes_adds_and_deletes(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "n": 1, "stale": 1, "tags": frozenset({"x", "y"}), "things": [1], "m": {}})

    change = update(
        "SET m.leaf = :m, things = list_append(things, :l), made = if_not_exists(made, :made), n = n + :one "
        "REMOVE stale ADD tally :five, seen :seen DELETE tags :gone",
        m={"k": b"v"},
        l=[2],
        made="now",
        one=1,
        five=5,
        seen=frozenset({1}),
        gone=frozenset({"x"}),
    )
    store.run(UpdateItem(table=name, key=KEY, update=change))
    assert item_of(store, name) == {
        "pk": "a", "n": 2, "tags": frozenset({"y"}), "things": [1, 2], "m": {"leaf": {"k": b"v"}},
        "made": "now", "tally": 5, "seen": frozenset({1}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("returns", "attributes"),
    [
        ("NONE", None),
        ("ALL_OLD", {"pk": "a", "x": 1, "y": 1}),
        ("UPDATED_OLD", {"x": 1}),
        ("ALL_NEW", {"pk": "a", "x": 2, "y": 1, "z": 3}),
        ("UPDATED_NEW", {"x": 2, "z": 3}),
    ],
)
def test_update_returns_the_requested_values(store: Store, name: str, returns: str, attributes: Item) -> None:
    store.put(name, {"pk": "a", "x": 1, "y": 1})

    change = update("SET x = :x, z = :z", x=2, z=3)
    operation = UpdateItem(table=name, key=KEY, update=change, returns=returns)  # type: ignore[arg-type]
    assert store.run(operation).attributes == attributes


def test_an_update_without_an_expression_makes_the_item(store: Store, name: str) -> None:
    store.run(UpdateItem(table=name, key=KEY))

    assert item_of(store, name) == KEY


def test_an_update_whose_condition_fails_shows_the_item(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "version": 3})

    with pytest.raises(ConditionFailed) as failed:
        store.run(
            UpdateItem(
                table=name,
                key=KEY,
                update=update("SET version = version + :one", one=1),
                condition=condition("version = :seen", seen=2),
                returns_on_failure="ALL_OLD",
            )
        )
    assert failed.value.item == {"pk": "a", "version": 3}


def test_delete_returns_the_item_and_accepts_an_absent_one(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": 1})

    assert store.run(DeleteItem(table=name, key=KEY, returns="ALL_OLD")).attributes == {"pk": "a", "x": 1}
    assert store.run(DeleteItem(table=name, key=KEY, returns="ALL_OLD")).attributes is None
    assert item_of(store, name) is None


def test_a_delete_whose_condition_fails_leaves_the_item(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": 1})

    with pytest.raises(ConditionFailed) as failed:
        store.run(
            DeleteItem(table=name, key=KEY, condition=condition("x > :v", v=1), returns_on_failure="ALL_OLD")
        )
    assert failed.value.item == {"pk": "a", "x": 1}
    assert item_of(store, name) == {"pk": "a", "x": 1}


# --- refusals -----------------------------------------------------------------------------------------------


def test_missing_table_is_not_found(store: Store) -> None:
    for operation in (GetItem(table="Nowhere", key=KEY), PutItem(table="Nowhere", item=KEY)):
        with pytest.raises(NotFound):
            store.run(operation)


def test_a_key_of_the_wrong_type_is_refused(store: Store, name: str) -> None:
    for operation in (GetItem(table=name, key={"pk": 1}), PutItem(table=name, item={"pk": b"a"})):
        with pytest.raises(InvalidRequest):
            store.run(operation)


def test_an_item_without_its_key_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(PutItem(table=name, item={"x": 1}))


def test_an_empty_key_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(PutItem(table=name, item={"pk": ""}))


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        frozenset(),
        object(),
        {"inner": (1,)},
        10**126,
        Decimal("NaN"),
        "\ud800",
        {1: 2},
        {"\ud800": 1},
        _deep(2000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rejects_values_that_cannot_be_stored(store: Store, name: str, value: object) -> None:
    with pytest.raises(InvalidRequest):
        store.run(PutItem(table=name, item={"pk": "a", "x": value}))  # type: ignore[dict-item]


def test_an_item_over_400_kilobytes_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(PutItem(table=name, item={"pk": "a", "x": "x" * 410_000}))


def test_adding_to_a_text_is_refused(store: Store, name: str) -> None:
    store.put(name, {"pk": "a", "x": "text"})

    with pytest.raises(InvalidRequest):
        store.run(UpdateItem(table=name, key=KEY, update=update("ADD x :one", one=1)))


def test_changing_a_key_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(UpdateItem(table=name, key=KEY, update=update("SET pk = :b", b="b")))


def test_rejects_a_key_that_is_not_a_dict(store: Store, name: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(GetItem(table=name, key="a"))  # type: ignore[arg-type]
