"""Declarations of tables and entities: invalid ones are refused at definition, with a correction.

Each function with a leading underscore makes one invalid declaration, which raises.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from holdfast import Attr, Document, Entity, EpochSeconds, IndexKey, Key, Lifetime, Table, attr, keep_names
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities import TimestampSeconds, get_declaration
from holdfast.model.tables import Index


def _table(**parts: Any) -> tuple[Table, Index]:
    """Return a table with a global index. `parts` are further arguments of `Table`."""
    table = Table("Tab", partition="PK", sort="SK", **parts)
    return table, table.global_index("by-x", "GSI1PK", "GSI1SK")


def _no_key() -> object:
    """Declare an entity without a primary key."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str] = attr()

    return Wrong


def _two_keys() -> object:
    """Declare an entity with two primary keys."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")
        also = Key("C#" + id, "D")

    return Wrong


def _sort_key_left_out() -> object:
    """Declare an entity without the sort key that its table has."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str] = attr()
        of = Key("A#" + id)

    return Wrong


def _sort_key_too_many() -> object:
    """Declare an entity with a sort key that its table does not have."""

    class Wrong(Entity, table=Table("Tab", partition="PK")):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")

    return Wrong


def _empty_partition() -> object:
    """Declare an entity with an empty partition key."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str] = attr()
        of = Key("", id)

    return Wrong


def _optional_in_primary_key() -> object:
    """Declare an entity with an optional attribute in its primary key."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str | None] = attr(default=None)
        of = Key("A#" + id, "B")

    return Wrong


def _no_separator() -> object:
    """Declare an entity with two attributes in a key and no separator between them."""

    class Wrong(Entity, table=_table()[0]):
        a: Attr[str] = attr()
        b: Attr[str] = attr()
        of = Key("A#" + a + b, "B")

    return Wrong


def _other_separator() -> object:
    """Declare an entity whose key has another separator than its table."""

    class Wrong(Entity, table=_table()[0]):
        a: Attr[str] = attr()
        b: Attr[str] = attr()
        of = Key("A#" + a + "-" + b, "B")

    return Wrong


def _index_of_another_table() -> object:
    """Declare an entity with a key for an index of another table."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")
        by = IndexKey(_table()[1], "X#" + id, "Y")

    return Wrong


def _index_without_its_sort_key() -> object:
    """Declare an entity whose index key lacks the index's sort key."""
    table, index = _table()

    class Wrong(Entity, table=table):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")
        by = IndexKey(index, "X#" + id)

    return Wrong


def _two_keys_for_one_index() -> object:
    """Declare an entity with two keys for one index."""
    table, index = _table()

    class Wrong(Entity, table=table):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")
        by = IndexKey(index, "X#" + id, "Y")
        also = IndexKey(index, "Z#" + id, "Y")

    return Wrong


def _one_key_attribute_made_in_two_ways() -> object:
    """Declare an entity whose primary key and index key compute one key attribute differently."""
    table, _ = _table()
    inverted = table.global_index("inverted", "SK", "PK")

    class Wrong(Entity, table=table):
        id: Attr[str] = attr()
        of = Key("A#" + id, "B")
        by = IndexKey(inverted, "B", "X#" + id)

    return Wrong


def _only_without_a_key_of_its_own() -> object:
    """Declare an entity with `only` on an index key of plain attributes."""
    table = Table("Tab", partition="id")
    index = table.global_index("by-state", "state")

    class Wrong(Entity, table=table):
        id: Attr[str] = attr()
        state: Attr[str] = attr()
        of = Key(id)
        by = IndexKey(index, state, only=state.one_of("open"))

    return Wrong


def _attribute_under_a_key_made_of_it() -> object:
    """Declare an entity whose attribute has the stored name of a computed key."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        of = Key("A#" + id)

    return Wrong


def _two_attributes_under_one_name() -> object:
    """Declare an entity with two attributes under one stored name."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        a: Attr[str] = attr("x")
        b: Attr[str] = attr("x")
        of = Key(id)

    return Wrong


def _number_where_the_table_has_a_text() -> object:
    """Declare an entity with a number as a key that its table declares as text."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[int] = attr()
        of = Key(id)

    return Wrong


def _text_where_the_index_has_a_number() -> object:
    """Declare an entity with text as a key that its index declares as a number."""
    table = Table("Tab", partition="id")
    index = table.global_index("by-rank", "kind", "rank", sort_type="N")

    class Wrong(Entity, table=table):
        id: Attr[str] = attr()
        kind: Attr[str] = attr()
        rank: Attr[str | None] = attr(default=None)
        of = Key(id)
        by = IndexKey(index, kind, rank)

    return Wrong


def _name_that_every_entity_has() -> object:
    """Declare an entity with an attribute named like a method of `Entity`."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        put: Attr[str] = attr()  # type: ignore[assignment]
        of = Key(id)

    return Wrong


def _forgetful_document() -> object:
    """Declare an entity with a nested document that drops unknown members."""

    class Forgetful(BaseModel):
        name: str

    class Holder(Document):
        inner: list[Forgetful]

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        held: Attr[dict[str, Holder] | None] = attr(default=None)
        of = Key(id)

    return Wrong


def _type_that_is_not_defined() -> object:
    """Declare an entity with a type that is defined only later."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        later: Attr[Later] = attr()
        of = Key(id)

    class Later(Document):
        name: str

    return Wrong


def _optional_with_a_default() -> object:
    """Declare an entity with an optional attribute whose default is not None."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        state: Attr[str | None] = attr(default="new")
        of = Key(id)

    return Wrong


def _set_with_a_default() -> object:
    """Declare an entity with a set whose default is not empty."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        tags: Attr[frozenset[str]] = attr(default=frozenset({"a"}))
        of = Key(id)

    return Wrong


def _lifetime_without_a_place() -> object:
    """Declare an entity with a lifetime in a table without a time to live."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        made: Attr[datetime] = attr()
        of = Key(id)
        lives = Lifetime(made, timedelta(days=1))

    return Wrong


def _two_lifetimes() -> object:
    """Declare an entity with two lifetimes."""

    class Wrong(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        made: Attr[datetime] = attr()
        of = Key(id)
        lives = Lifetime(made, timedelta(days=1))
        ends = Lifetime(made, timedelta(days=2))

    return Wrong


def _lifetime_over_an_attribute() -> object:
    """Declare an entity with a lifetime and an attribute under the same stored name."""

    class Wrong(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        ends: Attr[EpochSeconds] = attr()
        of = Key(id)
        lives = Lifetime(ends)

    return Wrong


def _separator_of_two_characters() -> object:
    """Declare a table with a separator of two characters."""
    return Table("Tab", partition="id", separator="::")


def _separator_that_escapes() -> object:
    """Declare a table with the escape character as its separator."""
    return Table("Tab", partition="id", separator="%")


def _two_indexes_of_one_name() -> object:
    """Declare two indexes of one name."""
    table, _ = _table()
    return table.local_index("by-x", "LSI1")


def _lifetime_from_a_day() -> object:
    """Declare an entity with a lifetime from a date instead of a time."""

    class Wrong(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        day: Attr[date] = attr()
        of = Key(id)
        lives = Lifetime(day, timedelta(days=1))  # type: ignore[arg-type]

    return Wrong


def _text_as_the_end_of_a_life() -> object:
    """Declare an entity with a datetime, stored as text, under the time-to-live attribute."""

    class Wrong(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        ends: Attr[datetime] = attr()
        of = Key(id)

    return Wrong


def _seconds_as_the_end_of_a_life() -> object:
    """Declare an entity with a text in seconds under the time-to-live attribute."""

    class Wrong(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        over: Attr[TimestampSeconds | None] = attr("ends", default=None)
        of = Key(id)

    return Wrong


def _attribute_without_attr_in_a_key() -> object:
    """Declare an entity with an attribute in its key that lacks `= attr()`."""

    class Wrong(Entity, table=_table()[0]):
        id: Attr[str]
        of = Key(id, "M")

    return Wrong


def _table_with_a_short_name() -> object:
    """Declare a table with a name of one character."""
    return Table("T", partition="id")


def _table_with_an_odd_name() -> object:
    """Declare a table with a name that is not ASCII."""
    return Table("Flüge", partition="id")


def _index_with_a_long_name() -> object:
    """Declare an index with a name of 256 characters."""
    return _table()[0].global_index("x" * 256, "x")


def _index_with_a_space_in_its_name() -> object:
    """Declare an index with a space in its name."""
    return _table()[0].local_index("by x", "x")


def _projection_as_text() -> object:
    """Declare an index with a projection as text."""
    wrong: Any = "KEYS_ONLY"
    return _table()[0].global_index("by-y", "y", projection=wrong)


class Labels(Document):
    texts: frozenset[str]


def _document_with_a_set_that_cannot_be_absent() -> object:
    """Declare an entity with documents that have a set without a default."""

    class Wrong(Entity, table=Table("Tab", partition="id")):
        id: Attr[str] = attr()
        labels: Attr[list[Labels]] = attr()
        of = Key(id)

    return Wrong


def _use_without_a_table() -> object:
    """Put an entity that has no table."""

    class Base(Entity):
        id: Attr[str] = attr()

    return Base.put(Base(id="1"))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (_no_key, r"Wrong has 0 primary keys: expected exactly one, such as of = Key\(PK, SK\)"),
    (_two_keys, "Wrong has 2 primary keys"),
    (_sort_key_left_out, "Wrong in table Tab: missing sort key SK"),
    (_sort_key_too_many, "Wrong in table Tab has no sort key: remove the second argument"),
    (_empty_partition, "the partition key PK is empty"),
    (_optional_in_primary_key, "id may be absent, but the primary key is required"),
    (_no_separator, r"expected '#' after a"),
    (_other_separator, r"expected '#' after a, or two different items could get the same key"),
    (_index_of_another_table, "Wrong in index by-x: the index belongs to table Tab, not to Tab"),
    (_index_without_its_sort_key, "Wrong in index by-x: missing sort key GSI1SK"),
    (_two_keys_for_one_index, "Wrong has two keys for the index by-x"),
    (_one_key_attribute_made_in_two_ways, "Wrong computes the key attribute PK in two ways"),
    (_only_without_a_key_of_its_own, "`only` needs a computed key attribute"),
    (_attribute_under_a_key_made_of_it, "id is the stored name of the attribute id and also a computed key"),
    (_two_attributes_under_one_name, "Wrong stores two attributes under x"),
    (_number_where_the_table_has_a_text, "the key id is declared as text, but its value is a number"),
    (_text_where_the_index_has_a_number, "the key rank is declared as a number, but its value is text"),
    (_name_that_every_entity_has, r"Reserved name Wrong\.put"),
    (_forgetful_document, r"Invalid type of Wrong\.held: Forgetful drops members"),
    (_type_that_is_not_defined, "Undefined type Later in an annotation of Wrong"),
    (_optional_with_a_default, r"Invalid default of Wrong\.state: .* expected None"),
    (_set_with_a_default, r"Invalid default of Wrong\.tags: .* expected an empty set"),
    (_lifetime_without_a_place, "a table with a time-to-live attribute"),
    (_two_lifetimes, "expected at most one"),
    (_lifetime_over_an_attribute, "an attribute is stored under ends, where its Lifetime writes"),
    (_separator_of_two_characters, "Invalid separator .*: expected one character"),
    (_separator_that_escapes, "Invalid separator .*: expected one character"),
    (_lifetime_from_a_day, "day is not a datetime"),
    (
        _text_as_the_end_of_a_life,
        r"\.ends: it is stored under the table's ttl attribute ends, which needs epoch seconds",
    ),
    (_seconds_as_the_end_of_a_life, r"\.over: it is stored under the table's ttl attribute ends"),
    (_attribute_without_attr_in_a_key, r"such as id: Attr\[str\] = attr\(\)"),
    (_table_with_a_short_name, "Invalid name of the table 'T': expected 3 to 255 letters"),
    (_table_with_an_odd_name, "Invalid name of the table 'Flüge'"),
    (_index_with_a_long_name, "Invalid name of the index"),
    (_index_with_a_space_in_its_name, "Invalid name of the index Tab.by x"),
    (_projection_as_text, "Invalid projection 'KEYS_ONLY' .* expected ALL, KEYS_ONLY or include"),
    (_document_with_a_set_that_cannot_be_absent, r"Missing default of Labels.texts.*Give it the default"),
    (_two_indexes_of_one_name, "Table Tab has two indexes named by-x"),
    (_use_without_a_table, r"Base has no table: declare it with class Base\(Entity, table=…\)"),
]


@pytest.mark.parametrize(
    ("declare", "message"), REFUSED, ids=[declare.__name__[1:] for declare, _ in REFUSED]
)
@pytest.mark.filterwarnings("ignore:Field name .* shadows an attribute")
def test_rejects_an_invalid_declaration(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()


def test_a_number_in_a_template_is_refused() -> None:
    number: Any = 5
    with pytest.raises(TypeError, match="Invalid key part 5"):

        class Wrong(Entity, table=_table()[0]):
            id: Attr[str] = attr()
            of = Key("A#" + id + number, "B")


# --- inherited declarations ---------------------------------------------------------------------------------


class TimestampedEntity(Entity):
    """The common attributes of every item, without a table."""

    id: Attr[str] = attr()
    made: Attr[datetime] = attr("createdAt")
    version: Attr[int] = attr(default=1)

    of = Key("ITEM#" + id)


class Invoice(TimestampedEntity, table=Table("Invoices", partition="PK")):
    amount_due: Attr[Decimal] = attr()


class Receipt(TimestampedEntity, table=Table("Receipts", partition="pk", naming=keep_names)):
    amount_paid: Attr[Decimal] = attr()
    items: Attr[list[str]] = attr(default_factory=list)


NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
INVOICE = Invoice(id="1", made=NOON, amount_due=Decimal("1.5"))
RECEIPT = Receipt(id="1", made=NOON, amount_paid=Decimal("1.5"))


def test_attributes_and_keys_are_inherited_and_named_by_each_table() -> None:
    assert INVOICE.to_item().keys() == {"PK", "id", "createdAt", "version", "amountDue"}
    assert RECEIPT.to_item().keys() == {"pk", "id", "createdAt", "version", "amount_paid", "items"}
    assert Invoice.from_item(INVOICE.to_item()) == INVOICE
    assert Receipt.from_item(RECEIPT.to_item()) == RECEIPT


def test_inherited_attribute_belongs_to_the_accessed_entity() -> None:
    assert repr(Invoice.version) == "Invoice.version"
    assert repr(Receipt.version) == "Receipt.version"
    assert {Invoice.of("1").get().table.name, Receipt.of("1").get().table.name} == {"Invoices", "Receipts"}


def test_an_entity_that_is_derived_without_a_table_has_none() -> None:
    class Special(Invoice):
        pass

    with pytest.raises(DeclarationError, match="Special has no table"):
        get_declaration(Special)


def test_an_entity_is_frozen_and_takes_no_other_attribute() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        INVOICE.version = 2  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="Extra inputs"):
        Invoice(id="1", made=NOON, amount_due=Decimal(1), colour="red")  # type: ignore[call-arg]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda kept: pickle.loads(pickle.dumps(kept))])
def test_an_entity_survives_copying_and_pickling(way: Callable[[Invoice], Invoice]) -> None:
    assert way(INVOICE) == INVOICE
    assert hash(way(INVOICE)) == hash(INVOICE)
    assert way(INVOICE).to_item() == INVOICE.to_item()


def test_expiry_may_be_an_attribute_in_seconds() -> None:
    class Token(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        ends: Attr[EpochSeconds | None] = attr(default=None)
        of = Key(id)

    class Session(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        ends: Attr[int] = attr()
        of = Key(id)

    assert Token(id="1", ends=NOON).to_item()["ends"] == int(NOON.timestamp())
    assert Session(id="1", ends=7).to_item()["ends"] == 7


def test_rejects_an_expiry_after_the_last_year() -> None:
    class Thing(Entity, table=Table("Tab", partition="id", ttl="ends")):
        id: Attr[str] = attr()
        made: Attr[datetime] = attr()
        of = Key(id)
        lives = Lifetime(made, timedelta(days=90))

    with pytest.raises(InvalidRequest, match="is later than the last supported year"):
        Thing(id="1", made=datetime(9999, 12, 1, tzinfo=UTC)).to_item()


def test_unknown_attribute_error_suggests_the_nearest() -> None:
    wrong: Any = Invoice
    with pytest.raises(
        AttributeError, match="Invoice has no attribute 'verson': did you mean Invoice.version?"
    ):
        wrong.verson  # noqa: B018
    with pytest.raises(AttributeError, match="Invoice has no attribute 'colour': it has .*version"):
        wrong.colour  # noqa: B018
    assert not hasattr(wrong, "_hidden")


def test_put_refuses_another_entity() -> None:
    other: Any = RECEIPT
    with pytest.raises(DeclarationError, match="Invoice.put: expected a Invoice, got a Receipt"):
        Invoice.put(other)


OPERATIONS: list[Callable[[], object]] = [
    lambda: Invoice.of("1").get().consistent(),
    lambda: Invoice.of("1").query().where(Invoice.version == 1).page(3, "x"),
    lambda: Invoice.of("1").query().select(Invoice.version),
    lambda: Invoice.of("1").query().count(),
    lambda: Invoice.of("1").update().set(Invoice.version, 2).when(Invoice.made < NOON),
    lambda: Invoice.of("1").delete().with_pattern("X"),
    lambda: Invoice.of("1").check(),
    lambda: Invoice.create(INVOICE),
    lambda: Invoice.scan(reason="a test"),
]


@pytest.mark.parametrize("build", OPERATIONS)
def test_operations_are_values_that_compare_and_hash(build: Callable[[], object]) -> None:
    assert build() == build()
    assert hash(build()) == hash(build())
    assert len({build(), build()}) == 1


def test_operations_on_other_values_are_other_operations() -> None:
    assert len({Invoice.of("1").get(), Invoice.of("2").get(), Invoice.of("1").get().with_pattern("X")}) == 3


def test_a_local_index_shares_the_partition_of_its_table() -> None:
    table = Table("Tab", partition="PK", sort="SK")
    newest = table.local_index("newest", "made")

    class Event(Entity, table=table):
        owner: Attr[str] = attr()
        id: Attr[str] = attr()
        made: Attr[datetime] = attr()

        of = Key("O#" + owner, "E#" + id)
        by_time = IndexKey(newest, "O#" + owner, made)

    (definition,) = table.definition("T").local_indexes
    assert (definition.keys.partition, definition.keys.sort) == ("PK", "made")
    made = Event.of("o").update("1").set(Event.made, NOON).or_create()
    assert made.compute_key_changes() == {}
