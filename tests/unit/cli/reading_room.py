"""A test system with its own commands: books of a reading room, listed, added, lent and counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, NewType

from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Entity,
    Get,
    IndexKey,
    Key,
    Page,
    Put,
    Query,
    Rate,
    Stores,
    System,
    Table,
    attr,
    pattern,
)
from holdfast.core.errors import NotFound
from holdfast.model.system import Admin, Command

Isbn = NewType("Isbn", str)

books = Table("Books", partition="isbn")
by_shelf = books.global_index("shelf-index", "shelf", "isbn")


class Shelf(StrEnum):
    novels = "novels"
    maps = "maps"


class Book(Entity, table=books):
    isbn: Attr[Isbn] = attr()
    title: Attr[str] = attr()
    shelf: Attr[Shelf] = attr(default=Shelf.novels)
    bought_on: Attr[date | None] = attr(default=None)
    of = Key(isbn)
    by_shelf = IndexKey(by_shelf, shelf, isbn)


class Loan(BaseModel):
    days: int


@pattern("R1", "A book", rate=Rate(per="visit"), example=("i-1",))
def book(isbn: Isbn) -> Get[Book]:
    return Book.of(isbn).get()


@pattern("R2", "The books of a shelf", rate=Rate(per="visit"), example=(Shelf.novels,))
def books_on(shelf: Shelf, limit: int, after: str | None = None) -> Query[Book]:
    return Book.by_shelf(shelf).query().page(limit, after)


@pattern("R3", "A new book", rate=Rate(per="visit"), example=lambda: (Book(isbn=Isbn("i-1"), title="t"),))
def add(new: Book) -> Put[Book]:
    return Book.create(new)


async def list_books(
    stores: Stores,
    shelf: Annotated[Shelf, "Which shelf."] = Shelf.novels,
    limit: int = 50,
    after: str | None = None,
) -> Page[Book]:
    """The books of a shelf.

    This line is not in the list of commands.
    """
    return await stores.run(books_on(shelf, limit, after))


async def show_book(stores: Stores, isbn: Annotated[Isbn, "Its number."]) -> Book:
    """One book."""
    found = await stores.run(book(isbn))
    if found is None:
        raise NotFound(f"There is no book {isbn}.")
    return found


async def add_book(
    stores: Stores, isbn: Isbn, title: str, *, shelf: Shelf, bought_on: date | None = None
) -> str:
    """Add a book."""
    await stores.run(add(Book(isbn=isbn, title=title, shelf=shelf, bought_on=bought_on)))
    return f"{title} is on the shelf {shelf}."


async def add_without_leave(stores: Stores) -> None:
    """Add a book as a component that may not."""
    await stores.run(add(Book(isbn=Isbn("i-9"), title="Stolen")))


async def lend(stores: Stores, isbns: list[str], days: int = 14, renew: bool = False) -> list[dict[str, Any]]:
    """Lend books."""
    loan = Loan.model_validate({"days": days if days else "none"})
    return [{"isbn": isbn, "days": loan.days, "renew": renew, "note": None} for isbn in isbns]


async def count(stores: Stores, progress: Callable[[str, int, int], None]) -> int:
    """Count the books."""
    progress("counting", 0, 1)
    return len(await stores.all(books_on(Shelf.novels, 50)))


async def since(
    stores: Stores, at: datetime, price: Decimal | None = None, config: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What was given, as it was read."""
    return {"at": at.isoformat(), "price": price, "config": config}


SYSTEM = System(
    name="readingroom",
    purpose="Lends books",
    tables=(books,),
    patterns=(book, books_on, add),
    components=(
        Component("api", uses=(book, books_on, add)),
        Component("visitor", uses=(book, books_on)),
    ),
    admin=Admin(
        commands={
            "books list": list_books,
            "books show": show_book,
            "books add": add_book,
            "books steal": Command(add_without_leave, component="visitor"),
            "lend": lend,
            "count": count,
            "since": since,
        }
    ),
)
