"""Page cursors in memory: each continues its own query only, and stays valid across releases."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Attr, Entity, IndexKey, Key, Query, Table, attr
from holdfast.core.errors import InternalError, InvalidRequest
from holdfast.model.entities.cursors import LABELS, decode_cursor, encode_cursor
from holdfast.model.entities.reads import PagedRead
from holdfast.model.system import System, load_systems
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.reports.examples import list_examples
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

seats = Table("Seats", partition="flight", sort="row", sort_type="N")
by_price = seats.global_index("by-price", "cabin", "price", sort_type="N")
by_mark = seats.global_index("by-mark", "cabin", "mark", sort_type="B")


class Seat(Entity, table=seats):
    flight: Attr[str] = attr()
    row: Attr[Decimal] = attr()
    cabin: Attr[str] = attr(default="Y")
    price: Attr[Decimal] = attr()
    mark: Attr[bytes] = attr()

    of = Key(flight, row)
    in_cabin = IndexKey(by_price, cabin, price)
    by_mark = IndexKey(by_mark, cabin, mark)


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    """Open stores with seven seats of one flight."""
    with open_blocking_stores(seats) as opened:
        for number in range(7):
            opened.run(
                Seat.put(
                    Seat(
                        flight="EY11",
                        row=Decimal(number) / 4,
                        price=Decimal(number % 3),
                        mark=bytes([255 - number]),
                    )
                )
            )
        yield opened


QUERIES: list[Query[Seat]] = [
    Seat.of("EY11").query(),
    Seat.of("EY11").query().descending(),
    Seat.of("EY11").since(Decimal("0.5")),
    Seat.in_cabin("Y").query(),
    Seat.in_cabin("Y").query().descending(),
    Seat.by_mark("Y").query(),
]


@pytest.mark.parametrize("query", QUERIES)
def test_pages_together_are_the_whole(stores: BlockingStores, query: Query[Seat]) -> None:
    whole = stores.run(query)
    found, cursor, pages = list[Seat](), None, 0
    while True:
        page = stores.run(query.page(2, cursor))
        found, cursor, pages = found + list(page), page.cursor, pages + 1
        if cursor is None:
            break

    assert tuple(found) == whole.items
    assert pages >= len(found) / 2


@pytest.mark.parametrize("chosen", range(len(QUERIES)))
def test_cursor_of_one_query_is_refused_by_every_other(stores: BlockingStores, chosen: int) -> None:
    cursor = stores.run(QUERIES[chosen].page(2)).cursor
    assert cursor is not None
    for other, query in enumerate(QUERIES):
        if other != chosen:
            with pytest.raises(InvalidRequest, match="does not belong to this query"):
                stores.run(query.page(2, cursor))


def test_the_cursor_of_a_partition_is_refused_by_its_neighbour_and_by_a_scan(stores: BlockingStores) -> None:
    cursor = stores.run(Seat.of("EY11").query().page(1)).cursor
    for query in (Seat.of("EY12").query(), Seat.scan(reason="a test")):
        with pytest.raises(InvalidRequest, match="does not belong to this query"):
            stores.run(query.after(cursor))


def test_cursor_works_with_another_page_size(stores: BlockingStores) -> None:
    query = Seat.of("EY11").query().where(Seat.price < Decimal(2))
    first = stores.run(query.page(2))
    rest = stores.run(query.page(100, first.cursor))

    assert [seat.row for seat in rest] == [Decimal(n) / 4 for n in range(2, 7) if n % 3 < 2]


def test_a_cursor_is_refused_by_the_same_query_with_another_filter(stores: BlockingStores) -> None:
    query = Seat.of("EY11").query().where(Seat.price < Decimal(2))
    first = stores.run(query.page(2))
    for other in (Seat.of("EY11").query(), query.where(Seat.cabin == "Y")):
        with pytest.raises(InvalidRequest, match="does not belong to this query"):
            stores.run(other.after(first.cursor))


def test_a_cursor_is_the_same_in_every_process_though_sets_have_no_order() -> None:
    """The order of a set of texts follows hashes, which every process salts differently."""
    made = (
        "from holdfast.model.entities.cursors import encode_cursor\n"
        "from holdfast.operations.expressions.nodes import Literal\n"
        "print(encode_cursor({'id': '1'}, (Literal([frozenset('abcdefgh'), {'b': 1, 'a': 2}]),)))"
    )
    cursors = {
        subprocess.run(
            [sys.executable, "-c", made],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(cursors) == 1


def test_a_cursor_that_was_altered_in_any_character_is_refused(stores: BlockingStores) -> None:
    query = Seat.of("EY11").query().page(2)
    cursor = stores.run(query).cursor
    assert cursor is not None
    # The last character may hold bits that mean nothing.
    for place in range(len(cursor) - 1):
        altered = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        with pytest.raises(InvalidRequest, match="does not belong to this query"):
            stores.run(query.after(altered))


FOREIGN: list[Any] = [
    "",
    "x",
    "é",
    "ü" * 40,
    "=" * 8,
    "A" * 4000,
    base64.b64encode(b"\x80").decode(),
    7,
    b"AAAA",
]


@pytest.mark.parametrize("cursor", FOREIGN, ids=lambda cursor: str(cursor)[:12])
def test_rejects_an_invalid_cursor(cursor: Any) -> None:
    with pytest.raises(InvalidRequest, match="does not belong to this query"):
        decode_cursor(cursor, ("T",))


keys = st.dictionaries(
    st.text(min_size=1),
    st.text()
    | st.binary()
    | st.integers(-(10**37), 10**37)
    | st.sampled_from([Decimal("0.5"), Decimal("-1E-7")]),
    min_size=1,
    max_size=4,
)


@given(keys)
def test_a_key_of_any_type_survives_the_cursor(key: dict[str, Any]) -> None:
    cursor = encode_cursor(key, ("T", None))
    found = decode_cursor(cursor, ("T", None))

    assert found == key
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in key.items()}
    assert cursor.isascii() and not set(cursor) & set("+/=&?")


EVERY_CONDITION = nodes.And(
    (
        nodes.Compare("=", nodes.Path("a", ("b", 1)), nodes.Literal("x")),
        nodes.Not(
            nodes.In(nodes.Path("s"), (nodes.Literal("q"), nodes.Literal(3), nodes.Literal(Decimal("1.5"))))
        ),
        nodes.Or(
            (
                nodes.AttributeExists(nodes.Path("z")),
                nodes.AttributeNotExists(nodes.Path("y")),
                nodes.AttributeType(nodes.Path("t"), "S"),
                nodes.BeginsWith(nodes.Path("u"), nodes.Literal("pre")),
                nodes.Contains(nodes.Path("v"), nodes.Literal(b"x")),
                nodes.Between(nodes.Size(nodes.Path("w")), nodes.Literal(1), nodes.Literal(2)),
                nodes.Compare(
                    "<>",
                    nodes.Path("o"),
                    nodes.Literal(
                        [None, True, {"b": 1, "a": frozenset({1, 2})}, frozenset({"x", "y"})],
                    ),
                ),
            )
        ),
    )
)
BETWEEN = (KeyTest("PK", "=", ("A#1",)), KeyTest("SK", "between", ("E#1", "E#2")))
# As clients received them. A changed cursor would be refused for every client that still holds it.
HELD: list[tuple[tuple[object, ...], str]] = [
    (("Seats", "by-price", None, (KeyTest("cabin", "=", ("Y",)),), True), "2MzPFV0UgaJpZJKhU6Ex"),
    (("Seats", None, EVERY_CONDITION, BETWEEN, False), "ZZoJjqBpgaJpZJKhU6Ex"),
    (("T", None, None, "scan", None, None), "KgJfCSlegaJpZJKhU6Ex"),
    (("T", None, None, "scan", 0, 4), "Opa5LE_GgaJpZJKhU6Ex"),
]


@pytest.mark.parametrize(("question", "cursor"), HELD, ids=["index", "filter", "scan", "segment"])
def test_accepts_cursors_that_clients_hold(question: tuple[object, ...], cursor: str) -> None:
    """Cursors of earlier releases are still produced and accepted. `question` identifies the query."""
    assert encode_cursor({"id": "1"}, question) == cursor
    assert decode_cursor(cursor, question) == {"id": "1"}


def test_labels_match_the_cursors_that_clients_hold() -> None:
    """The labels in fingerprints must not change."""
    assert sorted(LABELS.values()) == [
        "And",
        "AttributeExists",
        "AttributeNotExists",
        "AttributeType",
        "BeginsWith",
        "Between",
        "Compare",
        "Contains",
        "In",
        "KeyTest",
        "Literal",
        "Not",
        "Or",
        "Path",
        "Size",
    ]


def test_every_part_of_a_condition_has_a_label() -> None:
    assert LABELS.keys() == {KeyTest, *get_args(nodes.Condition), *get_args(nodes.Operand)}


@pytest.mark.parametrize(
    "part", [nodes.RemoveAction(nodes.Path("a")), object(), 1.5], ids=["node", "object", "float"]
)
def test_part_without_a_label_is_an_internal_error(part: object) -> None:
    with pytest.raises(InternalError, match="add a label for its class"):
        encode_cursor({"id": "1"}, ("T", None, part))


def test_a_member_of_an_enum_is_spelled_as_its_text() -> None:
    class Letter(StrEnum):
        A = "a"

    assert encode_cursor({"id": "1"}, (nodes.Literal(Letter.A),)) == encode_cursor(
        {"id": "1"}, (nodes.Literal("a"),)
    )


@pytest.mark.parametrize("system", load_systems().values(), ids=lambda system: system.name)
def test_every_page_of_a_system_can_have_a_cursor(system: System) -> None:
    for example in list_examples(system):
        for part in example.parts:
            if isinstance(part, PagedRead):
                encode_cursor({"id": "1"}, part._cursor_scope)
