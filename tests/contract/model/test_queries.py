"""Queries on every tables engine: ranges, pages, indexes, counts, batches, parallel queries and scans."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from holdfast import Query, batch_get, batch_put
from holdfast.core.errors import InvalidRequest
from holdfast.model.entities import parallel_query
from tests.contract.model.conftest import OpenStores
from tests.contract.model.entities import FAR_AHEAD, Board, Counter, State, Ticket, counters, day, desk
from tests.unit.model.blocking_stores import BlockingStores


def _numbers(stores: BlockingStores, query: Query[Ticket]) -> list[int]:
    """Return the ticket numbers of all pages of the query."""
    return [ticket.number for ticket in stores.all(query)]


def _fill(open_stores: OpenStores) -> BlockingStores:
    """Create the table with 30 tickets on one board, one ticket on another, and one board."""
    stores = open_stores(desk)
    states = (State.open, State.waiting, State.done)
    stores.run(
        batch_put(
            Ticket.put(
                Ticket(board="b", number=n, state=states[n % 3], created=FAR_AHEAD + timedelta(hours=5 * n))
            )
            for n in range(30)
        )
    )
    stores.run(Board.put(Board(board="b", title="x")))
    stores.run(Ticket.put(Ticket(board="b2", number=99, created=FAR_AHEAD + timedelta(days=99))))
    return stores


def test_ranges_of_the_sort_key_are_exact(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    board = Ticket.of("b")

    assert _numbers(stores, board.query()) == list(range(30))
    assert _numbers(stores, board.query().descending()) == list(range(29, -1, -1))
    assert _numbers(stores, board.at(7)) == [7]
    assert _numbers(stores, board.between(3, 5)) == [3, 4, 5]
    assert _numbers(stores, board.since(27)) == [27, 28, 29]
    assert _numbers(stores, board.until(2)) == [0, 1, 2]


def test_pages_follow_each_other_by_their_cursors(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    query = Ticket.of("b").query().where(Ticket.state == State.done).descending()
    found, cursor, pages = list[int](), None, 0
    while True:
        page = stores.run(query.page(7, cursor))
        assert page.examined <= 7
        found, cursor, pages = found + [ticket.number for ticket in page], page.cursor, pages + 1
        if cursor is None:
            break
        with pytest.raises(InvalidRequest, match="does not belong to this query"):
            stores.run(Ticket.of("b2").query().after(cursor))

    assert found == [n for n in range(29, -1, -1) if n % 3 == 2]
    assert pages == 5
    assert [ticket.number for ticket in stores.each(query.page(4))] == found


def test_sparse_index_holds_only_matching_items(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    unfinished = Ticket.unfinished("b")

    assert _numbers(stores, unfinished.at(State.open)) == list(range(0, 30, 3))
    assert _numbers(stores, unfinished.query()) == [*range(0, 30, 3), *range(1, 30, 3)]
    stores.run(Ticket.of("b").update(0).set(Ticket.state, State.done))
    stores.run(Ticket.of("b").update(2).set(Ticket.state, State.open))
    assert _numbers(stores, unfinished.at(State.open)) == sorted({*range(3, 30, 3), 2})


@pytest.mark.proves("SM-31")
@pytest.mark.proves("SM-X18")
def test_keys_only_index_is_read_by_selecting_projected_attributes(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    today = Ticket.of_day(day(FAR_AHEAD))

    rows = stores.run(today.query().select(Ticket.created))

    assert [row[Ticket.created] for row in rows] == [
        *(FAR_AHEAD + timedelta(hours=5 * n) for n in (0, 1, 2)),
    ]
    with pytest.raises(InvalidRequest, match="does not project"):
        stores.run(today.query())
    with pytest.raises(InvalidRequest, match="does not project notes. Add them"):
        stores.run(today.query().select(Ticket.created, Ticket.notes))
    assert stores.run(today.since(FAR_AHEAD + timedelta(hours=5)).count()).count == 2


def test_count_covers_all_pages(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    count = stores.run(Ticket.of("b").query().where(Ticket.state == State.open).page(4).count())

    assert (count.count, count.examined) == (10, 30)


@pytest.mark.proves("SM-X12")
def test_a_partition_of_more_than_a_megabyte_is_read_whole(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(batch_put(Ticket.put(Ticket(board="b", number=n, notes=["x" * 50_000])) for n in range(40)))

    first = stores.run(Ticket.of("b").query())
    assert 0 < len(first) < 40 and first.cursor is not None
    assert _numbers(stores, Ticket.of("b").query()) == list(range(40))
    assert stores.run(Ticket.of("b").query().count()).count == 40
    (page,) = stores.run(parallel_query([Ticket.of("b").query()]))
    assert len(page) == 40


def test_batch_answers_in_request_order(open_stores: OpenStores) -> None:
    stores = open_stores(counters)
    stores.run(batch_put(Counter.put(Counter(name="c", at=n, value=n)) for n in range(0, 240, 2)))
    numbers = [*range(239, -1, -1), 4, 4, 5]

    found = stores.run(batch_get(Counter.of("c").get(n) for n in numbers))

    assert [counter and counter.value for counter in found] == [n if n % 2 == 0 else None for n in numbers]


@pytest.mark.proves("SM-X17")
def test_parallel_queries_answer_in_request_order(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)
    pages = stores.run(
        parallel_query([Ticket.of("b").between(1, 2), Ticket.of("none").query(), Ticket.of("b2").query()])
    )

    assert [[ticket.number for ticket in page] for page in pages] == [[1, 2], [], [99]]


def test_a_scan_finds_the_entity_in_a_shared_table(open_stores: OpenStores) -> None:
    stores = _fill(open_stores)

    assert len(stores.all(Ticket.scan(reason="a test").page(7))) == 31
    assert [board.title for board in stores.all(Board.scan(reason="a test"))] == ["x"]
    parts = [
        stores.run(Ticket.scan(reason="a test").with_segment(part, 3).count()).count for part in range(3)
    ]
    assert sum(parts) == 31


def test_numeric_sort_key_orders_by_value(open_stores: OpenStores) -> None:
    stores = open_stores(counters)
    stores.run(batch_put(Counter.put(Counter(name="c", at=at)) for at in (-5, 0, 3, 10, 200)))

    assert [counter.at for counter in stores.run(Counter.of("c").between(-5, 10))] == [-5, 0, 3, 10]
    assert [counter.at for counter in stores.run(Counter.of("c").before(3).descending())] == [0, -5]


def test_conditions_on_every_kind_of_value_hold(open_stores: OpenStores) -> None:
    stores = open_stores(desk)
    stores.run(
        Ticket.put(
            Ticket(
                board="b",
                number=1,
                rank=Decimal("1.5"),
                tags=frozenset({"x"}),
                notes=["n"],
                seal=b"\x01",
                agent="Ada",
            )
        )
    )
    held = (
        (Ticket.rank >= Decimal("1.5"))
        & Ticket.rank.between(Decimal(1), Decimal(2))
        & Ticket.tags.contains("x")
        & Ticket.notes.contains("n")
        & (Ticket.seal == b"\x01")
        & Ticket.agent.begins_with("A")
        & Ticket.agent.contains("d")
        & ~Ticket.address.exists()
        & (Ticket.agent.not_exists() | (Ticket.created == FAR_AHEAD))
        & Ticket.state.in_([State.open, State.done])
    )

    assert _numbers(stores, Ticket.of("b").query().where(held)) == [1]
    assert _numbers(stores, Ticket.of("b").query().where(~held)) == []
