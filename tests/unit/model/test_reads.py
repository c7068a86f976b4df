"""Reads in memory: pages, counts, batches, parallel queries, selections and scans."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from holdfast import KEYS_ONLY, Attr, Entity, IndexKey, Key, Query, Table, attr, batch_get, batch_put, include
from holdfast.core.errors import DeclarationError, HoldfastError, InvalidRequest, ItemUnreadable, NotFound
from holdfast.model.entities import parallel_query
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

docs = Table("Docs", partition="PK", sort="SK", naming=str)
by_kind = docs.global_index("by-kind", "kind", "rank", sort_type="N", projection=KEYS_ONLY)
by_size = docs.global_index("by-size", "kind", "size", sort_type="N", projection=include("rank", "title"))


class Doc(Entity, table=docs):
    shelf: Attr[str] = attr()
    number: Attr[int] = attr()
    kind: Attr[str] = attr(default="a")
    rank: Attr[int] = attr(default=0)
    size: Attr[int | None] = attr(default=None)
    title: Attr[str] = attr(default="untitled")
    tags: Attr[frozenset[str]] = attr(default=frozenset())
    body: Attr[str] = attr(default="")

    of = Key("SHELF#" + shelf, "DOC#" + number.zero_pad(6))
    by_kind = IndexKey(by_kind, kind, rank)
    by_size = IndexKey(by_size, kind, size)


class Shelf(Entity, table=docs):
    shelf: Attr[str] = attr()
    place: Attr[str] = attr()

    of = Key("SHELF#" + shelf, "ABOUT")


other = Table("Other", partition="id")


class Other(Entity, table=other):
    id: Attr[str] = attr()

    of = Key(id)


@pytest.fixture
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(docs, other) as opened:
        yield opened


@pytest.fixture(scope="module")
def large() -> Iterator[BlockingStores]:
    """Create a partition of 2.5 MB: three pages."""
    with open_blocking_stores(docs) as opened:
        opened.run(
            batch_put(Doc.put(Doc(shelf="s", number=n, rank=n, body="x" * 25_000)) for n in range(100))
        )
        opened.run(Shelf.put(Shelf(shelf="s", place="hall")))
        yield opened


def test_page_ends_with_the_page_of_the_engine(large: BlockingStores) -> None:
    page = large.run(Doc.of("s").query())

    assert 0 < len(page) < 100
    assert page.cursor is not None
    assert page.examined == len(page)
    assert page.units == pytest.approx(len(page) * 25_000 / 4096 / 2, rel=0.02)


def test_all_joins_the_pages(large: BlockingStores) -> None:
    page = large.all(Doc.of("s").query())

    assert [doc.number for doc in page] == list(range(100))
    assert page.cursor is None
    assert page.examined == 100
    assert page.units == pytest.approx(100 * 25_000 / 4096 / 2, rel=0.02)


def test_each_yields_items_across_pages(large: BlockingStores) -> None:
    newest = Doc.of("s").query().descending()

    assert [doc.number for doc in large.each(newest)] == list(range(99, -1, -1))
    assert [doc.number for doc in large.each(newest.page(7))] == list(range(99, -1, -1))


def test_a_count_goes_over_all_pages_and_reads_no_entity(large: BlockingStores) -> None:
    count = large.run(Doc.of("s").query().where(Doc.rank >= 90).count())

    assert (count.count, count.examined, int(count)) == (10, 100, 10)
    assert count.units == pytest.approx(100 * 25_000 / 4096 / 2, rel=0.02)
    assert large.run(Doc.by_kind("a").query().count()).count == 100


def test_filtered_items_still_count_as_read(large: BlockingStores) -> None:
    page = large.all(Doc.of("s").query().where(Doc.rank > 97))

    assert [doc.number for doc in page] == [98, 99]
    assert page.examined == 100


def test_an_empty_page_is_still_a_page(stores: BlockingStores) -> None:
    page = stores.run(Doc.of("nowhere").query())

    assert (len(page), page.cursor, list(page), page.items) == (0, None, [], ())


def test_batch_uses_the_fewest_requests(stores: BlockingStores) -> None:
    with stores.stores.meter_usage() as meter:
        stores.run(batch_get(Doc.of("s").get(n % 150) for n in range(300)))

    assert [usage.operation for usage in meter.usages] == ["BatchGetItem", "BatchGetItem"]


def test_empty_batch_sends_no_request(stores: BlockingStores) -> None:
    with stores.stores.meter_usage() as meter:
        assert stores.run(batch_get(list[Any]())) == ()
        assert stores.run(batch_put(list[Any]())) == 0
        assert stores.run(parallel_query(list[Any]())) == ()

    assert meter.usages == []


def test_a_batch_over_two_tables_is_refused() -> None:
    mixed: Any = [Doc.of("s").get(1), Other.of("x").get()]
    with pytest.raises(DeclarationError, match="use one batch per table"):
        batch_get(mixed)
    puts: Any = [Doc.put(Doc(shelf="s", number=1)), Other.put(Other(id="1"))]
    with pytest.raises(InvalidRequest, match="use one batch per table"):
        batch_put(puts)


def test_a_batch_of_puts_with_a_condition_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="A batch does not support conditions"):
        batch_put([Doc.create(Doc(shelf="s", number=1))])


@pytest.mark.parametrize("twin", [1, 40])
def test_rejects_a_batch_with_a_duplicate_key(stores: BlockingStores, twin: int) -> None:
    puts = [Doc.put(Doc(shelf="s", number=n % twin if n == 59 else n)) for n in range(60)]
    with pytest.raises(InvalidRequest, match="in one batch: put it once"):
        stores.run(batch_put(puts))
    assert stores.run(Doc.of("s").query().count()).count == 0


def test_parallel_queries_answer_in_their_order_each_to_its_end(large: BlockingStores) -> None:
    queries = [Doc.of("s").query(), Doc.of("none").query(), Doc.of("s").between(3, 5).page(1)]

    pages = large.run(parallel_query(queries))

    assert [[doc.number for doc in page] for page in pages] == [list(range(100)), [], [3, 4, 5]]
    assert [page.cursor for page in pages] == [None, None, None]


def test_parallel_queries_may_exceed_the_concurrency_limit(stores: BlockingStores) -> None:
    stores.run(batch_put(Doc.put(Doc(shelf=str(n), number=n)) for n in range(50)))

    pages = stores.run(parallel_query(Doc.of(str(n)).query() for n in range(50)))

    assert [page[0].number for page in pages] == list(range(50))


def test_parallel_queries_of_two_indexes_are_refused() -> None:
    with pytest.raises(DeclarationError, match="one table and one index"):
        parallel_query([Doc.of("s").query(), Doc.by_kind("a").query()])


def test_a_parallel_query_that_fails_raises_its_own_error(stores: BlockingStores) -> None:
    with pytest.raises(InvalidRequest, match="does not belong to this query"):
        stores.run(parallel_query([Doc.of("s").query(), Doc.of("t").query().after("nonsense")]))


def test_a_selection_reads_an_index_that_holds_keys_alone(stores: BlockingStores) -> None:
    stores.run(Doc.put(Doc(shelf="s", number=1, rank=7)))

    (row,) = stores.run(Doc.by_kind("a").query().select(Doc.rank, Doc.kind, Doc.rank))

    assert (row[Doc.rank], row[Doc.kind]) == (7, "a")


def test_rejects_selecting_an_unprojected_attribute(stores: BlockingStores) -> None:
    with pytest.raises(InvalidRequest, match="by-kind does not project title. Add them"):
        stores.run(Doc.by_kind("a").query().select(Doc.rank, Doc.title))


def test_a_selected_attribute_that_is_absent_has_its_default(stores: BlockingStores) -> None:
    stores.put_item(docs, {"PK": "SHELF#s", "SK": "DOC#000001", "shelf": "s", "number": 1})

    (row,) = stores.run(Doc.of("s").query().select(Doc.tags, Doc.size, Doc.title, Doc.number))

    assert (row[Doc.tags], row[Doc.size], row[Doc.title], row[Doc.number]) == (
        frozenset(),
        None,
        "untitled",
        1,
    )


def test_missing_selected_attribute_is_named(stores: BlockingStores) -> None:
    stores.put_item(docs, {"PK": "SHELF#s", "SK": "DOC#000001", "shelf": "s"})
    (row,) = stores.run(Doc.of("s").query().select(Doc.number))
    with pytest.raises(ItemUnreadable, match="number: field required"):
        row[Doc.number]


def test_a_row_refuses_an_attribute_that_was_not_selected(stores: BlockingStores) -> None:
    stores.run(Doc.put(Doc(shelf="s", number=1, size=3)))
    (row,) = stores.run(Doc.of("s").query().select(Doc.number))
    with pytest.raises(InvalidRequest, match=r"Doc\.size was not selected"):
        row[Doc.size]


def test_rows_are_equal_by_value(stores: BlockingStores) -> None:
    stores.run(Doc.put(Doc(shelf="s", number=1, tags=frozenset({"b", "a"}))))
    query = Doc.of("s").query().select(Doc.number, Doc.tags)
    (one,), (two,) = stores.run(query), stores.run(query)

    assert one == two and hash(one) == hash(two)
    assert one != stores.run(Doc.of("s").query().select(Doc.number))[0]


def test_a_selection_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Empty select"):
        Doc.of("s").query().select()


@pytest.mark.parametrize("query", [Doc.by_kind("a").query(), Doc.by_size("a").query()])
def test_partial_index_cannot_return_whole_entities(stores: BlockingStores, query: Query[Doc]) -> None:
    stores.run(Doc.put(Doc(shelf="s", number=1, size=1, title="kept")))

    with pytest.raises(InvalidRequest, match=r"does not project .*body, which Doc needs. Use select"):
        stores.run(query)


@pytest.mark.proves("SM-X26")
def test_a_consistent_read_of_a_global_index_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Read the table by its primary key"):
        Doc.by_kind("a").query().consistent()
    assert Doc.of("s").query().consistent().is_consistent


def test_a_scan_needs_a_reason() -> None:
    with pytest.raises(DeclarationError, match="Missing reason for a scan"):
        Doc.scan(reason=" ")


def test_a_scan_reads_its_own_items_of_a_shared_table(stores: BlockingStores) -> None:
    stores.run(batch_put(Doc.put(Doc(shelf="s", number=n)) for n in range(10)))
    stores.run(Shelf.put(Shelf(shelf="s", place="hall")))

    assert sorted(doc.number for doc in stores.all(Doc.scan(reason="a test"))) == list(range(10))
    assert [shelf.place for shelf in stores.all(Shelf.scan(reason="a test"))] == ["hall"]
    assert stores.run(Doc.scan(reason="a test").where(Doc.number < 3).count()).count == 3


def test_scan_segments_cover_the_table(stores: BlockingStores) -> None:
    stores.run(batch_put(Doc.put(Doc(shelf=str(n), number=n)) for n in range(40)))
    scan = Doc.scan(reason="a test")

    found = [doc.number for part in range(3) for doc in stores.all(scan.with_segment(part, 3).page(5))]

    assert sorted(found) == list(range(40))
    with pytest.raises(InvalidRequest, match="Invalid segment 3 of 3: expected 0 to 2"):
        scan.with_segment(3, 3)


NO_OPERATIONS: list[Any] = ["x", None, Doc, Doc.of, Doc(shelf="s", number=1)]


@pytest.mark.parametrize("wrong", NO_OPERATIONS, ids=lambda wrong: type(wrong).__name__)
def test_rejects_an_unknown_operation(stores: BlockingStores, wrong: Any) -> None:
    with pytest.raises(InvalidRequest, match="Invalid operation"):
        stores.run(wrong)


def test_missing_table_error_says_how_to_create_it() -> None:
    with open_blocking_stores() as stores, pytest.raises(NotFound) as refused:
        stores.run(Other.of("x").get())

    assert any("Other" in note and "--create" in note for note in refused.value.__notes__)


def test_meters_and_observes_operations(stores: BlockingStores) -> None:
    seen: list[str] = []
    stores.stores.observe(lambda usage: seen.append(usage.operation))
    with stores.stores.meter_usage() as meter:
        stores.run(Doc.put(Doc(shelf="s", number=1)))
        stores.run(Doc.of("s").query().where(Doc.rank == 5).with_pattern("D1"))
        with pytest.raises(HoldfastError):
            stores.run(Doc.create(Doc(shelf="s", number=1)))

    assert seen == ["PutItem", "Query", "PutItem"]
    assert [usage.error for usage in meter.usages] == [None, None, "ConditionFailed"]
    assert (meter.filter_by_pattern("D1").items_read, meter.filter_by_pattern("D1").items_returned) == (1, 0)
    assert meter.units.write >= 1
    assert meter.patterns == ("D1",)


@pytest.mark.parametrize("limit", [0, -1, 10**30, 2**31, "5", 1.5])
def test_rejects_an_invalid_page_size(limit: Any) -> None:
    with pytest.raises(InvalidRequest, match="Invalid page size"):
        Doc.of("s").query().page(limit)


@pytest.mark.parametrize("number", ["1", True, 1.0, None])
def test_a_padded_number_in_a_key_is_a_whole_number(number: Any) -> None:
    """Other types and None are refused as the value of a padded number."""
    with pytest.raises(InvalidRequest, match="expected an integer|None is not allowed"):
        Doc.of("s").get(number)


def test_invalid_range_is_reported() -> None:
    wrong: Any = Doc.of("s")
    with pytest.raises(
        InvalidRequest, match=r"at\(…\): expected only the first attribute of the sort key SK"
    ):
        wrong.at(1, 2)
    with pytest.raises(
        InvalidRequest, match="Invalid prefix datetime.date.* of a sort key: expected a string"
    ):
        wrong.begins_with(date(2026, 2, 4))
    with pytest.raises(InvalidRequest, match="Invalid prefix 7 for Doc.title: expected a string"):
        Doc.title.begins_with(7)  # type: ignore[arg-type]


def test_invalid_value_is_reported_with_its_attribute_and_the_reason() -> None:
    wrong: Any = "heavy"
    with pytest.raises(InvalidRequest, match="^Invalid rank 'heavy': input should be a valid integer"):
        _ = Doc.rank == wrong
