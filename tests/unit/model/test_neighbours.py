"""Several entities in one table: what stands side by side, and what would get in each other's way."""

from __future__ import annotations

import types
from typing import Any, cast

import pytest

from holdfast import Attr, Entity, Key, Table, attr
from holdfast.core.errors import DeclarationError


def _declared(table: Table, name: str, key: Any) -> type[Entity]:
    """An entity with the attributes a and b, whose key `key` makes of them."""
    a, b = attr(), attr()
    body: dict[str, Any] = {
        "__annotations__": {"a": Attr[str], "b": Attr[str]},
        "__module__": __name__,
        "__qualname__": name,
        "a": a,
        "b": b,
        "of": Key(*key(a, b)),
    }
    made: Any = types.new_class(name, (Entity,), {"table": table}, lambda namespace: namespace.update(body))
    return cast(type[Entity], made)


APART = [
    ("another constant", lambda a, b: ("P#" + a, "METADATA"), lambda a, b: ("P#" + a, "EVENT#" + b)),
    ("another partition", lambda a, b: ("P#" + a, "M"), lambda a, b: ("Q#" + a, "M")),
    ("another depth", lambda a, b: ("P#" + a, "M#" + b), lambda a, b: ("P#" + a + "#X#" + b, "M#" + a)),
    ("a constant that is longer", lambda a, b: ("P#" + a, "M"), lambda a, b: ("P#" + a, "MORE")),
    ("ids as they are", lambda a, b: (a, "M"), lambda a, b: (a, "E#" + b)),
    ("an id and a constant", lambda a, b: (a, b), lambda a, b: ("SETTING#" + a, b)),
    ("a part of a word", lambda a, b: ("PRO#" + a, "E#" + b), lambda a, b: ("PROJECT#" + a, "E#" + b)),
]
TOGETHER = [
    ("the same", lambda a, b: ("P#" + a, "M"), lambda a, b: ("P#" + b, "M")),
    ("a start", lambda a, b: ("P#" + a, "E#" + b), lambda a, b: ("P#" + a, "E#X#" + b)),
    ("a start of a word", lambda a, b: ("P#" + a, "E" + b), lambda a, b: ("P#" + a, "EX" + b)),
    ("no constant", lambda a, b: ("P#" + a, b), lambda a, b: ("P#" + a, "M")),
    ("a value that is a constant", lambda a, b: ("P#" + a, "M"), lambda a, b: ("P#X", "M")),
    ("a constant among values", lambda a, b: ("P#" + a, "E#" + b), lambda a, b: ("P#" + a, "E#LAST")),
    ("ids as they are", lambda a, b: (a, b), lambda a, b: (b, a)),
]


@pytest.mark.parametrize(("one", "other"), [each[1:] for each in APART], ids=[each[0] for each in APART])
def test_entities_whose_keys_differ_share_a_table(one: Any, other: Any) -> None:
    table = Table("Shared", partition="PK", sort="SK")

    assert table.entities == [] and [
        _declared(table, "One", one),
        _declared(table, "Other", other),
    ] == list(table.entities)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other"), [each[1:] for each in TOGETHER], ids=[each[0] for each in TOGETHER]
)
def test_entities_that_could_be_taken_for_each_other_are_refused(one: Any, other: Any, turned: bool) -> None:
    table = Table("Shared", partition="PK", sort="SK")
    first, second = (other, one) if turned else (one, other)
    _declared(table, "One", first)
    with pytest.raises(
        DeclarationError, match=r"Conflicting keys of Other and One in table Shared.*such as 'OTHER#'"
    ):
        _declared(table, "Other", second)
    assert [each.__name__ for each in table.entities] == ["One"]


def test_partitions_alone_tell_entities_apart_where_there_is_no_sort_key() -> None:
    table = Table("Shared", partition="PK")
    _declared(table, "One", lambda a, b: ("A#" + a,))
    _declared(table, "Two", lambda a, b: ("A#X#" + a,))
    with pytest.raises(DeclarationError, match="Three and One"):
        _declared(table, "Three", lambda a, b: ("A#" + b,))


def test_a_class_and_one_derived_from_it_are_the_same_items() -> None:
    table = Table("Shared", partition="PK", sort="SK")

    class Thing(Entity, table=table):
        id: Attr[str] = attr()
        of = Key("T#" + id, "M")

    class Detailed(Thing, table=table):
        weight: Attr[int] = attr(default=0)

    assert Detailed.from_item(Thing(id="1").to_item()) == Detailed(id="1")


def test_a_class_that_is_written_anew_takes_the_place_of_the_old_one() -> None:
    table = Table("Shared", partition="PK", sort="SK")
    _declared(table, "One", lambda a, b: ("P#" + a, "M"))
    again = _declared(table, "One", lambda a, b: ("P#" + a, "M"))

    assert table.entities == [again]
