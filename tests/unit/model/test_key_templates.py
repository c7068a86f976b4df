"""Key templates in memory: no two items have one key, stored order is value order, and ranges are exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import Attr, Entity, IndexKey, Key, Query, Table, attr
from holdfast.core.errors import InvalidRequest
from holdfast.model.entities import format_timestamp
from tests.unit.model.blocking_stores import BlockingStores, open_blocking_stores

logs = Table("Logs", partition="PK", sort="SK")
by_place = logs.global_index("by-place", "GSI1PK", "GSI1SK")


class Entry(Entity, table=logs):
    owner: Attr[str] = attr()
    group: Attr[str] = attr()
    name: Attr[str] = attr()
    part: Attr[str] = attr()

    of = Key("LOG#" + owner + "#" + group, "ENTRY#" + name + "#P#" + part)
    by_part = IndexKey(by_place, part + "#" + group, name + "#" + owner)


# The same table declared again: in Entry's own table the declaration would be refused.
class Neighbour(Entity, table=Table("Logs", partition="PK", sort="SK")):
    """Other items in the same partition, under nearby sort keys."""

    owner: Attr[str] = attr()
    group: Attr[str] = attr()
    mark: Attr[str] = attr()

    of = Key("LOG#" + owner + "#" + group, "ENTRY" + mark)


NEIGHBOURS = ("", "\x00", "!", '"', "$", "%", "S#x", "\U0010ffff", "Z")
texts = st.text(alphabet=st.sampled_from("a#%2305\U0010ffff é\x00"), max_size=5)
keys = st.tuples(texts, texts, texts, texts)


@given(keys, keys)
@example(("a#b", "c", "", ""), ("a", "b#c", "", ""))
@example(("a%23b", "", "", ""), ("a#b", "", "", ""))
@example(("", "", "a#P#b", "c"), ("", "", "a", "b#P#c"))
def test_no_two_different_items_have_one_key(
    one: tuple[str, str, str, str], two: tuple[str, str, str, str]
) -> None:
    first, second = (_entry(*each).to_item() for each in (one, two))

    for names in (("PK", "SK"), ("GSI1PK", "GSI1SK")):
        assert ([first[name] for name in names] == [second[name] for name in names]) == (one == two)


def test_separators_in_values_are_escaped_and_the_attributes_are_not() -> None:
    item = _entry("50%", "a#b", "n", "p").to_item()

    assert (item["PK"], item["owner"], item["group"]) == ("LOG#50%25#a%23b", "50%", "a#b")


def test_another_separator_is_escaped_where_the_table_has_one() -> None:
    class Line(Entity, table=Table("Lines", partition="PK", separator="|")):
        a: Attr[str] = attr()
        b: Attr[str] = attr()

        of = Key("L|" + a + "|" + b)

    assert Line(a="x|y", b="#").to_item()["PK"] == "L|x%7Cy|#"


@pytest.fixture(scope="module")
def stores() -> Iterator[BlockingStores]:
    with open_blocking_stores(logs, journal, counters) as opened:
        yield opened


_OWNERS = (f"o-{number}" for number in itertools.count())


@given(st.sets(texts, max_size=6), texts)
def test_query_finds_only_its_own_items(stores: BlockingStores, names: set[str], wanted: str) -> None:
    owner = _fill(stores, names)
    partition = Entry.of(owner, "g")

    assert _names(stores, partition.query()) == names
    assert _names(stores, partition.at(wanted)) == names & {wanted}
    assert _names(stores, partition.begins_with(wanted)) == {n for n in names if n.startswith(wanted)}


digits = st.text(alphabet="0123456789", min_size=3, max_size=3)


@given(st.sets(digits, max_size=8), digits, digits)
def test_a_range_of_fixed_width_values_is_exact(
    stores: BlockingStores, names: set[str], one: str, two: str
) -> None:
    owner = _fill(stores, names)
    partition, (low, high) = Entry.of(owner, "g"), sorted((one, two))

    assert _names(stores, partition.between(low, high)) == {n for n in names if low <= n <= high}
    assert _names(stores, partition.since(low)) == {n for n in names if n >= low}
    assert _names(stores, partition.until(high)) == {n for n in names if n <= high}


journal = Table("Journal", partition="PK", sort="SK")
by_day = journal.global_index("by-day", "dayKey", "numberKey")
by_hour = journal.global_index("by-hour", "hourKey", "created")


def day(moment: datetime) -> date:
    """Return the date of a time."""
    return moment.date()


class Note(Entity, table=journal):
    book: Attr[str] = attr()
    created: Attr[datetime] = attr()
    id: Attr[str] = attr()
    number: Attr[int] = attr(default=0)
    weight: Attr[int] = attr(default=0)

    of = Key("BOOK#" + book, created + "#" + id)
    by_day = IndexKey(by_day, "DAY#" + created.transform(day), "N#" + number.zero_pad(6) + "#" + id)
    by_book = IndexKey(by_hour, book, created)


moments = st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))


@given(st.sets(moments, max_size=6), moments, moments)
def test_time_range_is_exact_with_and_without_a_template(
    stores: BlockingStores, times: set[datetime], one: datetime, two: datetime
) -> None:
    book, (low, high) = next(_OWNERS), sorted((one, two))
    for created in times | {low, high}:
        stores.run(Note.put(Note(book=book, created=created, id="x")))
    held = times | {low, high}

    for partition in (Note.of(book), Note.by_book(book)):
        assert [n.created for n in stores.all(partition.query())] == sorted(held)
        assert _creation_times(stores, partition.between(low, high)) == {t for t in held if low <= t <= high}
        assert _creation_times(stores, partition.since(low)) == {t for t in held if t >= low}
        assert _creation_times(stores, partition.until(high)) == {t for t in held if t <= high}
        assert _creation_times(stores, partition.before(high)) == {t for t in held if t < high}
        assert _creation_times(stores, partition.at(low)) == {low}


@given(st.sets(st.integers(0, 999_999), min_size=1, max_size=6), st.integers(0, 999_999))
def test_padded_numbers_sort_as_numbers(stores: BlockingStores, numbers: set[int], low: int) -> None:
    moment = datetime(3000, 1, 1, tzinfo=UTC) + timedelta(days=next(_DAYS))
    for number in numbers:
        stores.run(Note.put(Note(book="b", created=moment, id=str(number), number=number)))
    partition = Note.by_day(moment.date())

    assert [note.number for note in stores.all(partition.query())] == sorted(numbers)
    assert {note.number for note in stores.all(partition.since(low))} == {n for n in numbers if n >= low}
    assert {note.number for note in stores.all(partition.at(low))} == numbers & {low}


_DAYS = itertools.count()
counters = Table("Counters", partition="id", sort="count", sort_type="N")


class Counter(Entity, table=counters):
    id: Attr[str] = attr()
    count: Attr[int] = attr()

    of = Key(id, count)


@given(st.sets(st.integers(-1000, 1000), max_size=6), st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_a_range_of_plain_numbers_is_exact(
    stores: BlockingStores, numbers: set[int], one: int, two: int
) -> None:
    owner, (low, high) = next(_OWNERS), sorted((one, two))
    for number in numbers:
        stores.run(Counter.put(Counter(id=owner, count=number)))
    partition = Counter.of(owner)

    def find_counts(query: Query[Counter]) -> set[int]:
        return {counter.count for counter in stores.all(query)}

    assert [counter.count for counter in stores.all(partition.query().descending())] == sorted(numbers)[::-1]
    assert find_counts(partition.between(low, high)) == {n for n in numbers if low <= n <= high}
    assert find_counts(partition.since(low)) == {n for n in numbers if n >= low}
    assert find_counts(partition.before(high)) == {n for n in numbers if n < high}


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_a_number_that_does_not_fit_its_padding_is_refused(number: int) -> None:
    with pytest.raises(
        InvalidRequest, match=f"Invalid key value {number}: expected an integer from 0 of at most 6 digits"
    ):
        Note(book="b", created=datetime(2026, 1, 1, tzinfo=UTC), id="x", number=number).to_item()
    with pytest.raises(
        InvalidRequest, match=f"Invalid key value {number}: expected an integer from 0 of at most 6 digits"
    ):
        Note.by_day(date(2026, 1, 1)).at(number)


plain_numbers = Table("PlainNumbers", partition="PK", sort="SK")


class Unpadded(Entity, table=plain_numbers):
    id: Attr[str] = attr()
    number: Attr[int] = attr()

    of = Key("U#" + id, "N#" + number)


RANGES: list[Callable[[], object]] = [
    lambda: Unpadded.of("u").between(9, 10),
    lambda: Unpadded.of("u").since(9),
    lambda: Unpadded.of("u").until(10),
]


@pytest.mark.parametrize("build", RANGES)
def test_a_range_of_numbers_that_sort_as_texts_is_refused(build: Callable[[], object]) -> None:
    with pytest.raises(InvalidRequest, match=r"Declare the key with number\.zero_pad"):
        build()


def test_number_that_sorts_as_text_can_be_matched_exactly() -> None:
    assert Unpadded.of("u").at(9).key_condition[1].values == ("N#9",)


def test_rejects_before_on_a_sort_key_that_begins_with_a_constant() -> None:
    with pytest.raises(InvalidRequest, match="Use until"):
        Entry.of("o", "g").before("x")


def test_a_key_value_of_none_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(InvalidRequest, match="Invalid owner: None is not allowed in a key"):
        Entry.of(nothing, "g").query()


def test_a_key_with_too_few_or_too_many_values_is_refused() -> None:
    of: Any = Entry.of
    with pytest.raises(InvalidRequest, match="expected owner, group, got 1"):
        of("o")
    with pytest.raises(InvalidRequest, match="expected name, part, got 3"):
        of("o", "g").get("a", "b", "c")


def test_a_key_value_of_another_type_is_refused() -> None:
    wrong: Any = "yesterday"
    with pytest.raises(InvalidRequest, match="Invalid created 'yesterday'"):
        Note.of("b").get(wrong, "x")


def test_time_in_a_key_has_its_stored_form() -> None:
    moment = datetime(2026, 2, 4, 1, tzinfo=UTC)
    item = Note(book="b", created=moment, id="x").to_item()

    assert item["created"] == format_timestamp(moment) == "2026-02-04T01:00:00.000000Z"
    assert item["SK"] == "2026-02-04T01:00:00.000000Z#x"


def _entry(owner: str, group: str, name: str, part: str) -> Entry:
    return Entry(owner=owner, group=group, name=name, part=part)


def _fill(stores: BlockingStores, names: set[str]) -> str:
    """Put an entry per name for a new owner, and items under nearby keys; return the owner."""
    owner = next(_OWNERS)
    for name in names:
        stores.run(Entry.put(_entry(owner, "g", name, "p")))
    for mark in NEIGHBOURS:
        stores.run(Neighbour.put(Neighbour(owner=owner, group="g", mark=mark)))
    stores.run(Entry.put(_entry(owner, "g2", "elsewhere", "p")))
    return owner


def _names(stores: BlockingStores, query: Query[Entry]) -> set[str]:
    """Return the names of the entries that the query finds."""
    return {entry.name for entry in stores.all(query)}


def _creation_times(stores: BlockingStores, query: Query[Note]) -> set[datetime]:
    """Return the creation times of the notes that the query finds."""
    return {note.created for note in stores.all(query)}
