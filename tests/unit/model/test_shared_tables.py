"""Several entities in one table: which keys may share it, and which are refused as ambiguous."""

from __future__ import annotations

import types
from typing import Any, cast

import pytest

from holdfast import Attr, Entity, Key, Table, attr
from holdfast.core.errors import DeclarationError


def _declare_entity(table: Table, name: str, key: Any) -> type[Entity]:
    """Declare an entity with the attributes a and b, whose key `key` builds from them."""
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
        _declare_entity(table, "One", one),
        _declare_entity(table, "Other", other),
    ] == list(table.entities)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("one", "other"), [each[1:] for each in TOGETHER], ids=[each[0] for each in TOGETHER]
)
def test_rejects_entities_with_ambiguous_keys(one: Any, other: Any, turned: bool) -> None:
    """Either order of declaration is refused (`turned`)."""
    table = Table("Shared", partition="PK", sort="SK")
    first, second = (other, one) if turned else (one, other)
    _declare_entity(table, "One", first)
    with pytest.raises(
        DeclarationError, match=r"Conflicting keys of Other and One in table Shared.*such as 'OTHER#'"
    ):
        _declare_entity(table, "Other", second)
    assert [each.__name__ for each in table.entities] == ["One"]


def test_partition_keys_distinguish_entities_without_a_sort_key() -> None:
    table = Table("Shared", partition="PK")
    _declare_entity(table, "One", lambda a, b: ("A#" + a,))
    _declare_entity(table, "Two", lambda a, b: ("A#X#" + a,))
    with pytest.raises(DeclarationError, match="Three and One"):
        _declare_entity(table, "Three", lambda a, b: ("A#" + b,))


def test_base_and_derived_class_share_their_items() -> None:
    table = Table("Shared", partition="PK", sort="SK")

    class Thing(Entity, table=table):
        id: Attr[str] = attr()
        of = Key("T#" + id, "M")

    class Detailed(Thing, table=table):
        weight: Attr[int] = attr(default=0)

    assert Detailed.from_item(Thing(id="1").to_item()) == Detailed(id="1")


def test_redefined_class_replaces_the_old_one() -> None:
    table = Table("Shared", partition="PK", sort="SK")
    _declare_entity(table, "One", lambda a, b: ("P#" + a, "M"))
    again = _declare_entity(table, "One", lambda a, b: ("P#" + a, "M"))

    assert table.entities == [again]
