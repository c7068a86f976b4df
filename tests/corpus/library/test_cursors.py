"""Cursors that a client kept from an earlier version continue exactly where their page ended."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from holdfast import Query
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import OutboxStatus
from holdfast.model.entities import parallel_query
from holdfast.operations.expressions import key_conditions, nodes

from . import books, effects, histories, news, trips
from .conftest import Library

pytestmark = pytest.mark.anyio

# Nodes that only updates contain: no query has them.
OF_UPDATES = {
    "IfNotExists",
    "ListAppend",
    "Plus",
    "Minus",
    "SetAction",
    "RemoveAction",
    "AddAction",
    "DeleteAction",
    "Update",
    "Node",
}


async def test_a_cursor_continues_with_exactly_the_rest(library: Library) -> None:
    noted = library.notes["books"]
    asked = books.build_queries()

    found = {
        name: [books.get_key(each) for each in await library.stores.all(asked[name].after(kept["cursor"]))]
        for name, kept in noted.items()
    }

    assert found == {name: kept["rest"] for name, kept in noted.items()}


async def test_same_query_gives_the_same_cursor(library: Library) -> None:
    if not library.is_latest:
        pytest.skip("only for the latest archive: an older version may have encoded cursors differently")
    noted = library.notes["books"]

    found = {name: await library.stores.run(query) for name, query in books.build_queries().items()}

    assert {name: page.cursor for name, page in found.items()} == {
        name: kept["cursor"] for name, kept in noted.items()
    }
    assert {name: list(map(books.get_key, page)) for name, page in found.items()} == {
        name: kept["first"] for name, kept in noted.items()
    }


async def test_rejects_the_cursor_of_another_query(library: Library) -> None:
    asked, noted = books.build_queries(), library.notes["books"]
    other = noted["filter: less"]["cursor"]

    with pytest.raises(InvalidRequest):
        await library.stores.run(asked["filter: at most"].after(other))


async def test_parallel_queries_continue_from_their_cursors(library: Library) -> None:
    noted, asked = library.notes["books"], books.build_queries()
    names = [name for name in noted if name.startswith("filter: ")]
    queries: list[Query[Any]] = []
    for name in names:
        query = asked[name].after(noted[name]["cursor"])
        assert isinstance(query, Query)
        queries.append(query)

    pages = await library.stores.run(parallel_query(queries))

    found = {name: list(map(books.get_key, page)) for name, page in zip(names, pages, strict=True)}
    assert found == {name: noted[name]["rest"] for name in names}


async def test_pattern_accepts_its_cursor_as_an_argument(library: Library) -> None:
    kept = library.notes["books"]["of a pattern"]

    page = await library.stores.run(books.books_about(books.Subject.art, 100, kept["cursor"]))

    assert list(map(books.get_key, page)) == kept["rest"]
    assert page.cursor is None


def test_corpus_queries_contain_every_class_that_a_cursor_is_bound_to() -> None:
    used: set[str] = set()
    for query in books.build_queries().values():
        _collect(query._cursor_scope, used)

    classes = {
        name
        for module in (nodes, key_conditions)
        for name, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, msgspec.Struct) and each.__module__ == module.__name__
    }
    assert used == classes - OF_UPDATES


def _collect(part: object, used: set[str]) -> None:
    """Add the names of all struct classes inside the value to `used`."""
    if isinstance(part, msgspec.Struct):
        used.add(type(part).__name__)
        part = msgspec.structs.astuple(part)
    if isinstance(part, tuple | list):
        for each in part:
            _collect(each, used)


# --- cursors of guarantees and flows ------------------------------------------------------------------------


async def test_history_of_an_audit_continues(library: Library) -> None:
    noted, page = library.notes["histories"], histories.PAGE
    places = [each["place"] for each in noted["entries"]]

    history = await library.stores.run(
        histories.DEEDS.pattern_set.history(histories.SUBJECT, 100, noted["history"])
    )
    span = await library.stores.run(
        histories.DEEDS.pattern_set.between(histories.SUBJECT, *histories.get_span(), 100, noted["span"])
    )

    assert [each.place for each in history] == places[page:]
    assert [each.place for each in span] == places[page + 1 :]


async def test_list_of_due_records_continues(library: Library) -> None:
    noted = library.notes["effects"]["due"]
    now = library.clock.time()

    rest = await library.stores.all(effects.LETTERS.pattern_set.due(now, 2, noted["cursor"]))

    assert sorted([*noted["first"], *(each.id for each in rest)]) == [
        "approved",
        "due 1",
        "due 2",
        "due 3",
        "failed",
        "reopened",
    ]


async def test_list_of_an_outbox_continues(library: Library) -> None:
    noted = library.notes["news"]["outbox"]
    waiting = news.ANNOUNCEMENTS.pattern_set.waiting(OutboxStatus.PENDING, 0)
    everything = await library.stores.all(waiting)

    first = await library.stores.run(waiting.page(2))
    rest = await library.stores.all(waiting.after(noted["cursor"]))

    assert [*first, *rest] == list(everything)
    assert len(rest) > 0
    assert not library.is_latest or first.cursor == noted["cursor"]


async def test_list_of_flows_continues(library: Library) -> None:
    noted = library.notes["trips"]
    places = trips.TRIPS.pattern_set.executions(1)
    everything = await library.stores.all(places)

    first = await library.stores.run(places.page(2))
    rest = await library.stores.all(places.after(noted["cursor"]))

    assert [*first, *rest] == list(everything)
    assert len(rest) > 0
    assert not library.is_latest or first.cursor == noted["cursor"]
