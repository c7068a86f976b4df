"""Part of the corpus: open cursors of every kind of read, with every kind of condition and value.

A cursor is bound to its query by a hash over the class names and values of the key condition and the filter.
So every class that can be part of a query appears here.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from holdfast import (
    Attr,
    Document,
    Entity,
    IndexKey,
    Key,
    Query,
    Rate,
    Stores,
    Table,
    attr,
    batch_put,
    include,
    pattern,
)
from holdfast.model.entities import Condition, PagedRead
from holdfast.operations.expressions import nodes

PAGE: Final = 4
BRANCH: Final = "north"
BOOKS: Final = 14

shelf = Table("Shelf", "branch", "code", purpose="Books, for cursors over a table of two text keys")
by_subject = shelf.global_index("by-subject", "subject", "title")
by_price = shelf.global_index(
    "by-price", "subject", "price", sort_type="N", projection=include("title", "lent")
)
by_day = shelf.local_index("by-day", "acquired")
gauges = Table(
    "Gauges",
    "gauge",
    "moment",
    partition_type="N",
    sort_type="N",
    purpose="Measurements, for cursors over number keys",
)
scraps = Table(
    "Scraps",
    "digest",
    "part",
    partition_type="B",
    sort_type="B",
    purpose="Bytes, for cursors over binary keys",
)
mixed = Table("Mixed", "PK", "SK", purpose="Two entities in one table, for cursors over composed keys")
by_reader = mixed.global_index("by-reader", "GSI1PK", "GSI1SK")


class Subject(StrEnum):
    art = "art"
    botany = "botany"


class Binding(Document):
    cloth: str
    stitches: int = 0
    colours: list[str] = Field(default_factory=list)


class Book(Entity, table=shelf):
    branch: Attr[str] = attr()
    code: Attr[str] = attr()
    title: Attr[str] = attr()
    subject: Attr[Subject] = attr()
    price: Attr[Decimal] = attr()
    pages: Attr[int] = attr()
    weight: Attr[float] = attr()
    cover: Attr[bytes] = attr()
    lent: Attr[bool] = attr(default=False)
    authors: Attr[list[str]] = attr()
    binding: Attr[Binding] = attr()
    notes: Attr[dict[str, Any]] = attr(default_factory=dict)
    marks: Attr[frozenset[str]] = attr(default=frozenset())
    sizes: Attr[frozenset[Decimal]] = attr(default=frozenset())
    seals: Attr[frozenset[bytes]] = attr(default=frozenset())
    acquired: Attr[date] = attr()
    seen_at: Attr[datetime] = attr()
    loan: Attr[timedelta] = attr()
    isbn: Attr[UUID] = attr()
    reader: Attr[str | None] = attr(default=None)

    of = Key(branch, code)
    of_subject = IndexKey(by_subject, subject, title)
    of_price = IndexKey(by_price, subject, price)
    of_day = IndexKey(by_day, branch, acquired)


class Reading(Entity, table=gauges):
    gauge: Attr[int] = attr()
    moment: Attr[Decimal] = attr()
    value: Attr[Decimal] = attr()

    of = Key(gauge, moment)


class Scrap(Entity, table=scraps):
    digest: Attr[bytes] = attr()
    part: Attr[bytes] = attr()
    text: Attr[str] = attr()

    of = Key(digest, part)


class Loan(Entity, table=mixed):
    branch: Attr[str] = attr()
    day: Attr[date] = attr()
    number: Attr[int] = attr()
    reader: Attr[str] = attr()

    of = Key("BRANCH#" + branch, "LOAN#" + day + "#" + number.zero_pad(6))
    of_reader = IndexKey(by_reader, "READER#" + reader, number.zero_pad(6))


class Remark(Entity, table=mixed):
    branch: Attr[str] = attr()
    number: Attr[int] = attr()
    text: Attr[str] = attr()

    of = Key("BRANCH#" + branch, "REMARK#" + number.zero_pad(6))


TABLES: Final = (shelf, gauges, scraps, mixed)


@pattern("BK1", "Books of a subject, by title", rate=Rate("visit"), example=(Subject.art,))
def books_about(subject: Subject, limit: int = PAGE, after: str | None = None) -> Query[Book]:
    return Book.of_subject(subject).query().where(~(Book.lent == True)).page(limit, after)  # noqa: E712


PATTERNS: Final = (books_about,)


# --- queries ------------------------------------------------------------------------------------------------


def build_queries() -> dict[str, PagedRead[Any, Any]]:
    """Return the first page of every query of which the corpus keeps an open cursor, by name."""
    books = Book.of(BRANCH).query()
    asked: dict[str, PagedRead[Any, Any]] = {
        f"filter: {name}": books.where(condition) for name, condition in conditions().items()
    }
    asked |= {f"key: {name}": query for name, query in _key_conditions().items()}
    asked |= {f"scan: {name}": scan for name, scan in _scans().items()}
    asked["two filters"] = books.where(Book.lent == False).where(Book.pages > 10)  # noqa: E712
    asked["newest first"] = books.descending()
    asked["consistent"] = books.consistent()
    asked["selected"] = books.select(Book.title, Book.price).where(Book.pages > 100)
    asked["selected on an index"] = Book.of_price(Subject.art).query().select(Book.title, Book.price)
    asked["of a pattern"] = books_about(Subject.art)
    return {name: query.page(PAGE) for name, query in asked.items()}


def conditions() -> dict[str, Condition[Any]]:
    """Return a condition for every class of node and every type of value."""
    return _comparisons() | _values() | _functions() | _combinations()


def _comparisons() -> dict[str, Condition[Any]]:
    """Return a condition for each comparison operator."""
    return {
        "equal": Book.pages == 120,
        "unequal": Book.pages != 120,
        "less": Book.pages < 200,
        "at most": Book.pages <= 200,
        "greater": Book.pages > 120,
        "at least": Book.pages >= 120,
        "between": Book.pages.between(100, 260),
        "in": Book.pages.in_([80, 100, 120, 140, 160, 240]),
        "not in": Book.pages.not_in([80, 100]),
    }


def _values() -> dict[str, Condition[Any]]:
    """Return a condition for each type of value."""
    return {
        "text": Book.title < "Volume 10",
        "text beyond ASCII": Book.title != "Über Bäume – 木",
        "enum": Book.subject == Subject.art,
        "decimal": Book.price >= Decimal("3.5"),
        "large number": Book.pages < 10**30,
        "float": Book.weight < 1.25,
        "bytes": Book.cover != b"\x00\xff cover",
        "true": Book.lent == True,  # noqa: E712
        "list": Book.authors != ["Ada", "Bo"],
        "document": Book.binding == Binding(cloth="linen", stitches=3, colours=["red"]),
        "map": Book.notes != {"b": 1, "a": [Decimal("1.5"), None, True]},
        "set of text": Book.marks == frozenset({"x", "y", "z"}),
        "set of numbers": Book.sizes == frozenset({Decimal("1"), Decimal("2.5"), Decimal("30")}),
        "set of bytes": Book.seals == frozenset({b"a", b"b", b"c"}),
        "date": Book.acquired >= date(2025, 3, 2),
        "datetime": Book.seen_at > datetime(2025, 3, 2, 12, tzinfo=UTC),
        "duration": Book.loan <= timedelta(days=21, seconds=1.5),
        "uuid": Book.isbn != UUID(int=3),
        "null": Condition(nodes.Compare("<>", nodes.Path("notes"), nodes.Literal(None))),
    }


def _functions() -> dict[str, Condition[Any]]:
    """Return a condition for each function and kind of path."""
    authors, title = nodes.Path("authors"), nodes.Path("title")
    return {
        "exists": Book.reader.exists(),
        "missing": Book.reader.not_exists(),
        "begins with": Book.title.begins_with("Volume"),
        "contains text": Book.title.contains("1"),
        "contains element": Book.authors.contains("Ada"),
        "contains member": Book.marks.contains("x"),
        "inside a document": Book.binding.at(lambda binding: binding.cloth) == "linen",
        "inside a list": Book.binding.at(lambda binding: binding.colours[0]) != "blue",
        "size": Condition(nodes.Compare(">=", nodes.Size(authors), nodes.Literal(1))),
        "size of a value": Condition(nodes.Compare("<", nodes.Literal(3), nodes.Size(title))),
        "type": Condition(nodes.AttributeType(title, "S")),
        "two paths": Condition(nodes.Compare("<>", title, nodes.Path("reader"))),
    }


def _combinations() -> dict[str, Condition[Any]]:
    """Return conditions joined with and, or and not."""
    is_art, is_long, is_free = Book.subject == Subject.art, Book.pages > 100, Book.reader.not_exists()
    return {
        "and": is_art & is_long & is_free,
        "or": is_art | is_long | is_free,
        "not": ~is_art,
        "nested": ~((is_art & ~is_long) | (Book.pages.between(1, 90) & Book.title.contains("1"))),
    }


def _key_conditions() -> dict[str, PagedRead[Any, Any]]:
    """Return a query for each kind of key condition, on tables and indexes."""
    books = Book.of(BRANCH)
    loans = Loan.of(BRANCH)
    return {
        "partition": books.query(),
        "begins with": books.begins_with("b-"),
        "between": books.between("b-02", "b-12"),
        "since": books.since("b-02"),
        "until": books.until("b-12"),
        "before": books.before("b-12"),
        "global index": Book.of_subject(Subject.art).query(),
        "global index, beginning": Book.of_subject(Subject.art).begins_with("Vol"),
        "global index, number": Book.of_price(Subject.art).since(Decimal("1.5")).select(Book.title),
        "local index": Book.of_day(BRANCH).query(),
        "local index, since": Book.of_day(BRANCH).since(date(2025, 3, 2)).descending(),
        "numbers": Reading.of(7).query(),
        "numbers, between": Reading.of(7).between(Decimal("-1.5"), Decimal("99")),
        "bytes": Scrap.of(b"\x00\x01").query(),
        "bytes, since": Scrap.of(b"\x00\x01").since(b"\x01"),
        "composed": loans.query(),
        "composed, at": loans.at(date(2025, 3, 3)),
        "composed, between": loans.between(date(2025, 3, 2), date(2025, 3, 4)),
        "composed, since": loans.since(date(2025, 3, 2)),
        "composed, until": loans.until(date(2025, 3, 4)),
        "composed index": Loan.of_reader("r-1").query(),
        "composed index, since": Loan.of_reader("r-1").since(2),
    }


def _scans() -> dict[str, PagedRead[Any, Any]]:
    """Return scans of each kind: whole, filtered, in segments, of one entity of two, consistent."""
    reason = "the corpus keeps a cursor of each kind of read"
    return {
        "whole": Book.scan(reason=reason),
        "filtered": Book.scan(reason=reason).where(Book.pages > 90, Book.reader.not_exists()),
        "first of two parts": Reading.scan(reason=reason).with_segment(0, 2),
        "second of two parts": Reading.scan(reason=reason).with_segment(1, 2),
        "one entity of two": Loan.scan(reason=reason),
        "consistent": Reading.scan(reason=reason).consistent(),
    }


def get_key(found: Any) -> str:
    """Return what identifies an entity or a row in the notes."""
    match found:
        case Book():
            return found.code
        case Reading():
            return f"{found.gauge} {found.moment}"
        case Scrap():
            return found.part.hex()
        case Loan():
            return str(found.number)
    return str(found[Book.title])


# --- writing ------------------------------------------------------------------------------------------------


async def write(stores: Stores) -> dict[str, Any]:
    """Write the items of all tables and return a cursor of each query, with the keys before and after it."""
    await stores.run(batch_put([*map(Book.put, books())]))
    await stores.run(batch_put([Reading.put(_reading(number)) for number in range(12)]))
    await stores.run(batch_put([Reading.put(_reading(0, gauge)) for gauge in range(100, 120)]))
    await stores.run(batch_put([Scrap.put(_scrap(number)) for number in range(12)]))
    await stores.run(batch_put([Loan.put(_loan(number)) for number in range(12)]))
    remarks = [Remark(branch=BRANCH, number=number, text="dusty") for number in range(3)]
    await stores.run(batch_put([*map(Remark.put, remarks)]))
    return {name: await _note_cursor(stores, query) for name, query in build_queries().items()}


async def _note_cursor(stores: Stores, query: PagedRead[Any, Any]) -> dict[str, Any]:
    """Return the query's first cursor, the keys of its first page and the keys of the rest."""
    first = await stores.run(query)
    assert first.cursor is not None, "the question has no second page"
    rest = await stores.all(query.after(first.cursor))
    return {
        "cursor": first.cursor,
        "first": [get_key(each) for each in first],
        "rest": [get_key(each) for each in rest],
    }


def books() -> list[Book]:
    return [_book(number) for number in range(BOOKS)]


def _book(number: int) -> Book:
    """Return the book with this number; its values vary so that every condition matches some books."""
    moment = datetime(2025, 3, 1, tzinfo=UTC) + timedelta(hours=9 * number)
    return Book(
        branch=BRANCH,
        code=f"b-{number:02}",
        title=f"Volume {number}" if number % 5 else "Über Bäume – 木",
        subject=Subject.botany if number % 4 == 3 else Subject.art,
        price=Decimal(number) + Decimal("0.5"),
        pages=80 + 20 * number,
        weight=0.5 + number / 16,
        cover=b"\x00\xff cover" if number % 6 == 5 else bytes([number]),
        lent=number % 3 == 0,
        authors=["Ada", "Bo"][: 1 + number % 2],
        binding=Binding(cloth="linen", stitches=3, colours=["red"]) if number % 2 else Binding(cloth="calf"),
        notes={"a": [Decimal("1.5"), None, True], "b": 1} if number % 4 == 2 else {},
        marks=frozenset("xyz") if number % 2 else frozenset("q"),
        sizes=frozenset({Decimal(1), Decimal("2.5"), Decimal(30)}) if number % 3 else frozenset(),
        seals=frozenset({b"a", b"b", b"c"}) if number % 3 == 1 else frozenset(),
        acquired=moment.date(),
        seen_at=moment,
        loan=timedelta(days=7 * (number % 4), seconds=1.5),
        isbn=UUID(int=number),
        reader=f"r-{number}" if number % 2 else None,
    )


def _reading(number: int, gauge: int = 7) -> Reading:
    return Reading(gauge=gauge, moment=Decimal(number * 10) / 4 - 3, value=Decimal(number))


def _scrap(number: int) -> Scrap:
    return Scrap(digest=b"\x00\x01", part=bytes([number, 255 - number]), text=f"scrap {number}")


def _loan(number: int) -> Loan:
    day = date(2025, 3, 1) + timedelta(days=min(number // 2, 2) if number < 11 else 3)
    return Loan(branch=BRANCH, day=day, number=number, reader="r-1")
