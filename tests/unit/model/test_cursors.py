"""Cursors lead through a question, and are refused by every other one."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Attr, Entity, IndexKey, Key, Query, Table, attr
from holdfast.errors import InvalidRequest
from holdfast.model.cursors import read_cursor, write_cursor
from tests.unit.model.blocking import Blocking, in_memory

seats = Table("Seats", partition="flight", sort="row", sort_type="N")
by_price = seats.index("by-price", "cabin", "price", sort_type="N")
by_mark = seats.index("by-mark", "cabin", "mark", sort_type="B")


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
def stores() -> Iterator[Blocking]:
    with in_memory(seats) as opened:
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
    Seat.of("EY11").query().newest_first(),
    Seat.of("EY11").since(Decimal("0.5")),
    Seat.in_cabin("Y").query(),
    Seat.in_cabin("Y").query().newest_first(),
    Seat.by_mark("Y").query(),
]


@pytest.mark.parametrize("query", QUERIES)
def test_pages_joined_are_the_whole(stores: Blocking, query: Query[Seat]) -> None:
    whole = stores.run(query)
    found, cursor, pages = list[Seat](), None, 0
    while True:
        page = stores.run(query.page(2, cursor))
        found, cursor, pages = found + list(page), page.cursor, pages + 1
        if cursor is None:
            break

    assert tuple(found) == whole.items
    assert pages >= len(found) / 2


@pytest.mark.parametrize("asked", range(len(QUERIES)))
def test_the_cursor_of_one_question_is_refused_by_every_other(stores: Blocking, asked: int) -> None:
    cursor = stores.run(QUERIES[asked].page(2)).cursor
    assert cursor is not None
    for other, query in enumerate(QUERIES):
        if other != asked:
            with pytest.raises(InvalidRequest, match="does not belong to this question"):
                stores.run(query.page(2, cursor))


def test_the_cursor_of_a_partition_is_refused_by_its_neighbour_and_by_a_scan(stores: Blocking) -> None:
    cursor = stores.run(Seat.of("EY11").query().page(1)).cursor
    for query in (Seat.of("EY12").query(), Seat.scan(reason="a test")):
        with pytest.raises(InvalidRequest, match="does not belong to this question"):
            stores.run(query.after(cursor))


def test_a_cursor_goes_on_with_another_page_size(stores: Blocking) -> None:
    query = Seat.of("EY11").query().where(Seat.price < Decimal(2))
    first = stores.run(query.page(2))
    rest = stores.run(query.page(100, first.cursor))

    assert [seat.row for seat in rest] == [Decimal(n) / 4 for n in range(2, 7) if n % 3 < 2]


def test_a_cursor_is_refused_by_the_same_query_with_another_filter(stores: Blocking) -> None:
    query = Seat.of("EY11").query().where(Seat.price < Decimal(2))
    first = stores.run(query.page(2))
    for other in (Seat.of("EY11").query(), query.where(Seat.cabin == "Y")):
        with pytest.raises(InvalidRequest, match="does not belong to this question"):
            stores.run(other.after(first.cursor))


def test_a_cursor_is_the_same_in_every_process_though_sets_have_no_order() -> None:
    """The order of a set of texts follows hashes, which every process salts anew."""
    made = (
        "from holdfast.model.cursors import write_cursor\n"
        "from holdfast.operations.expressions.nodes import Literal\n"
        "print(write_cursor({'id': '1'}, (Literal([frozenset('abcdefgh'), {'b': 1, 'a': 2}]),)))"
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


def test_a_cursor_that_was_altered_in_any_character_is_refused(stores: Blocking) -> None:
    query = Seat.of("EY11").query().page(2)
    cursor = stores.run(query).cursor
    assert cursor is not None
    # The last character may hold bits that mean nothing.
    for place in range(len(cursor) - 1):
        altered = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        with pytest.raises(InvalidRequest, match="does not belong to this question"):
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
def test_what_is_no_cursor_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidRequest, match="does not belong to this question"):
        read_cursor(cursor, ("T",))


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
    cursor = write_cursor(key, ("T", None))
    found = read_cursor(cursor, ("T", None))

    assert found == key
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in key.items()}
    assert cursor.isascii() and not set(cursor) & set("+/=&?")
