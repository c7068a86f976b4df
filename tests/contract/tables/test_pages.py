"""Query and Scan on every tables engine: key conditions, order, filters, pages, indexes and segments."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.tables import PageResult, Query, Scan
from holdfast.operations.values import Item

from .store import Store, condition, index, key_condition, projection

NUMBERS = [-5, 0, Decimal("1.5"), 2, 10, 300]


@pytest.fixture
def name(store: Store) -> str:
    """Create a table with five items in partition `a`, whose sort keys are texts, and two in others."""
    made = store.create("pk:S", "sk:S")
    store.put(made, *({"pk": "a", "sk": sk, "n": n} for n, sk in enumerate(["a", "ab", "abc", "b", "c"])))
    store.put(made, {"pk": "b", "sk": "a", "n": 10}, {"pk": "c", "sk": "a", "n": 11})
    return made


def sort_keys(page: PageResult) -> list[Any]:
    return [item["sk"] for item in page.items or ()]


def every_page(store: Store, operation: Query | Scan) -> list[PageResult]:
    """Return all pages of the operation."""
    pages = [store.run(operation)]
    while pages[-1].last_key is not None:
        pages.append(store.run(replace(operation, start_key=pages[-1].last_key)))
    return pages


def every_item(store: Store, operation: Query | Scan) -> list[Item]:
    """Return the items of all pages of the operation."""
    return [item for page in every_page(store, operation) for item in page.items or ()]


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("test", "values", "found"),
    [
        pytest.param("", {}, ["a", "ab", "abc", "b", "c"], id="partition"),
        pytest.param(" AND sk = :v", {"v": "ab"}, ["ab"], id="equal"),
        pytest.param(" AND sk < :v", {"v": "abc"}, ["a", "ab"], id="less"),
        pytest.param(" AND sk <= :v", {"v": "abc"}, ["a", "ab", "abc"], id="at most"),
        pytest.param(" AND sk > :v", {"v": "abc"}, ["b", "c"], id="greater"),
        pytest.param(" AND sk >= :v", {"v": "abc"}, ["abc", "b", "c"], id="at least"),
        pytest.param(" AND sk BETWEEN :v AND :w", {"v": "ab", "w": "b"}, ["ab", "abc", "b"], id="between"),
        pytest.param(" AND begins_with(sk, :v)", {"v": "ab"}, ["ab", "abc"], id="begins with"),
    ],
)
def test_every_kind_of_key_condition_selects_its_items(
    store: Store, name: str, test: str, values: dict[str, Any], found: list[str]
) -> None:
    query = Query(table=name, key_condition=key_condition(f"pk = :p{test}", p="a", **values))

    forward = store.run(query)
    assert sort_keys(forward) == found
    assert (forward.count, forward.scanned_count, forward.last_key) == (len(found), len(found), None)
    assert sort_keys(store.run(replace(query, forward=False))) == found[::-1]


def test_numbers_are_ordered_by_their_value(store: Store) -> None:
    name = store.create("pk:S", "sk:N")
    store.put(name, *({"pk": "a", "sk": n} for n in reversed(NUMBERS)))

    everything = store.run(Query(table=name, key_condition=key_condition("pk = :p", p="a")))
    assert sort_keys(everything) == NUMBERS
    some = key_condition("pk = :p AND sk BETWEEN :v AND :w", p="a", v=Decimal("0.5"), w=10)
    assert sort_keys(store.run(Query(table=name, key_condition=some))) == [Decimal("1.5"), 2, 10]


def test_binaries_are_ordered_by_their_unsigned_bytes(store: Store) -> None:
    name = store.create("pk:S", "sk:B")
    store.put(name, *({"pk": "a", "sk": b} for b in (b"\xff", b"\x7f\x00", b"\x7f", b"\x00")))

    everything = store.run(Query(table=name, key_condition=key_condition("pk = :p", p="a")))
    assert sort_keys(everything) == [b"\x00", b"\x7f", b"\x7f\x00", b"\xff"]


# --- pages --------------------------------------------------------------------------------------------------


def test_pages_follow_each_other_by_their_start_key(store: Store, name: str) -> None:
    query = Query(table=name, key_condition=key_condition("pk = :p", p="a"), limit=2)

    pages = every_page(store, query)
    assert [sort_keys(page) for page in pages[:3]] == [["a", "ab"], ["abc", "b"], ["c"]]
    assert pages[0].last_key == {"pk": "a", "sk": "ab"}
    backwards = every_page(store, replace(query, forward=False))
    assert [sort_keys(page) for page in backwards[:3]] == [["c", "b"], ["abc", "ab"], ["a"]]


def test_a_page_ends_at_a_megabyte(store: Store) -> None:
    name = store.create("pk:S", "sk:N")
    store.put(name, *({"pk": "a", "sk": n, "x": "x" * 300_000} for n in range(5)))

    pages = every_page(store, Query(table=name, key_condition=key_condition("pk = :p", p="a")))
    assert len(pages) == 2
    assert [sk for page in pages for sk in sort_keys(page)] == [0, 1, 2, 3, 4]


def test_a_filter_hides_after_the_page_was_read(store: Store, name: str) -> None:
    query = Query(
        table=name,
        key_condition=key_condition("pk = :p", p="a"),
        filter=condition("n = :one OR n > :three", one=1, three=3),
    )

    page = store.run(query)
    assert (sort_keys(page), page.count, page.scanned_count) == (["ab", "c"], 2, 5)
    first = store.run(replace(query, limit=1))
    assert (first.items, first.count, first.scanned_count, first.last_key) == (
        [],
        0,
        1,
        {"pk": "a", "sk": "a"},
    )


def test_a_count_has_no_items(store: Store, name: str) -> None:
    query = Query(
        table=name,
        key_condition=key_condition("pk = :p", p="a"),
        filter=condition("n > :one", one=1),
        select="COUNT",
    )

    page = store.run(query)
    assert (page.items, page.count, page.scanned_count) == (None, 3, 5)


def test_a_projection_shows_only_what_it_names(store: Store, name: str) -> None:
    query = Query(
        table=name,
        key_condition=key_condition("pk = :p AND sk = :s", p="a", s="b"),
        projection=projection("n"),
    )

    assert store.run(query).items == [{"n": 3}]


def test_missing_partition_is_empty(store: Store, name: str) -> None:
    page = store.run(Query(table=name, key_condition=key_condition("pk = :p", p="nobody")))

    assert page == PageResult([], 0, 0)


# --- scans --------------------------------------------------------------------------------------------------


def test_a_scan_finds_every_item_whatever_its_pages(store: Store, name: str) -> None:
    found = {(item["pk"], item["sk"]) for item in every_item(store, Scan(table=name, limit=3))}

    assert len(found) == 7


def test_segments_cover_the_whole_table(store: Store) -> None:
    name = store.create("pk:S")
    store.put(name, *({"pk": f"{n}"} for n in range(40)))

    found = [
        item["pk"]
        for segment in range(3)
        for item in every_item(store, Scan(table=name, segment=segment, segments=3, limit=7))
    ]
    assert sorted(found, key=str) == sorted(map(str, range(40)))


def test_a_scan_filters_and_counts(store: Store, name: str) -> None:
    scan = Scan(table=name, filter=condition("n >= :ten", ten=10))

    page = store.run(scan)
    assert (page.count, page.scanned_count) == (2, 7)
    assert store.run(replace(scan, select="COUNT")) == replace(page, items=None)


# --- indexes ------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed_table(store: Store) -> str:
    """Create a table with three global and two local indexes and five items, one without index keys."""
    made = store.create(
        "pk:S",
        "sk:S",
        attributes=("kind:S", "grade:N"),
        gsi=(
            index("by_kind", "kind", "grade"),
            index("kinds_only", "kind", kind="KEYS_ONLY"),
            index("some", "kind", kind="INCLUDE", include=("x",)),
        ),
        lsi=(index("by_rank", "pk", "grade"), index("ranks_only", "pk", "grade", kind="KEYS_ONLY")),
    )
    for n, kind in enumerate(["x", "y", "x", "x"]):
        store.put(made, {"pk": "a", "sk": f"{n}", "kind": kind, "grade": 10 - n, "x": n, "y": n})
    store.put(made, {"pk": "a", "sk": "sparse", "x": 9})
    return made


def of_kind(name: str, used: str, **more: Any) -> Query:
    """Return a query of the items of kind `x` in the index `used`."""
    return Query(table=name, index=used, key_condition=key_condition("kind = :k", k="x"), **more)


def test_global_index_is_ordered_by_its_key_and_omits_items_without_it(
    store: Store, indexed_table: str
) -> None:
    assert sort_keys(store.run(of_kind(indexed_table, "by_kind"))) == ["3", "2", "0"]
    assert len(every_item(store, Scan(table=indexed_table, index="by_kind"))) == 4


def test_a_page_of_a_global_index_ends_with_both_keys(store: Store, indexed_table: str) -> None:
    query = of_kind(indexed_table, "by_kind", limit=2)

    pages = every_page(store, query)
    assert pages[0].last_key == {"kind": "x", "grade": 8, "pk": "a", "sk": "2"}
    assert [sort_keys(page) for page in pages[:2]] == [["3", "2"], ["0"]]


def test_an_index_shows_what_it_projects(store: Store, indexed_table: str) -> None:
    shown = store.run(of_kind(indexed_table, "kinds_only", limit=1)).items
    assert shown is not None
    assert set(shown[0]) == {"pk", "sk", "kind"}
    shown = store.run(of_kind(indexed_table, "some", limit=1)).items
    assert shown is not None
    assert set(shown[0]) == {"pk", "sk", "kind", "x"}


def test_a_local_index_orders_a_partition_and_can_fetch_the_rest(store: Store, indexed_table: str) -> None:
    query = Query(
        table=indexed_table, index="by_rank", key_condition=key_condition("pk = :p", p="a"), consistent=True
    )
    assert sort_keys(store.run(query)) == ["3", "2", "1", "0"]

    whole = replace(query, index="ranks_only", select="ALL_ATTRIBUTES", limit=1)
    assert store.run(whole).items == [{"pk": "a", "sk": "3", "kind": "x", "grade": 7, "x": 3, "y": 3}]


def test_range_on_a_local_index_selects_its_items(store: Store, indexed_table: str) -> None:
    key_range = key_condition("pk = :p AND grade BETWEEN :v AND :w", p="a", v=8, w=9)

    assert sort_keys(store.run(Query(table=indexed_table, index="by_rank", key_condition=key_range))) == [
        "2",
        "1",
    ]


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make_request",
    [
        pytest.param(lambda t: Query(table=t, key_condition=key_condition("n = :v", v=1)), id="no key"),
        pytest.param(
            lambda t: Query(table=t, key_condition=key_condition("sk = :v", v="a")), id="no partition"
        ),
        pytest.param(
            lambda t: Query(table=t, key_condition=key_condition("pk = :v", v=1)), id="type of a key"
        ),
        pytest.param(
            lambda t: Query(
                table=t, key_condition=key_condition("pk = :v", v="a"), filter=condition("sk = :w", w="a")
            ),
            id="key in a filter",
        ),
        pytest.param(
            lambda t: Query(table=t, key_condition=key_condition("pk = :v", v="a"), index="none"),
            id="no index",
        ),
        pytest.param(lambda t: Scan(table=t, start_key={"pk": "a"}), id="half a start key"),
        pytest.param(lambda t: Scan(table=t, segment=3, segments=3), id="segment"),
        pytest.param(lambda t: Scan(table=t, limit=0), id="limit"),
    ],
)
def test_rejects_an_invalid_page_request(
    store: Store, name: str, make_request: Callable[[str], Query | Scan]
) -> None:
    with pytest.raises(InvalidRequest):
        store.run(make_request(name))


def test_page_of_a_missing_table_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(Scan(table="Nowhere"))
