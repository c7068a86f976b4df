"""Pages over HTTP: `limit` and `cursor` in the query, `items` and the next `cursor` in the answer.

A cursor is opaque: it comes from the pattern's own page and goes back into the same pattern, unread by the
route. The last page has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, Field

LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1000
# A cursor holds the keys of a table and of an index, at most 6 KiB, and grows by a third when encoded.
CURSOR_CHARACTERS_MAX: Final = 10_000

Item = TypeVar("Item")


class PageOf(BaseModel, Generic[Item]):
    """One page of an answer."""

    items: list[Item]
    cursor: str | None = Field(
        default=None, description="Ask again with it for the next page; null on the last."
    )


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is asked for."""

    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


def _paging(
    limit: Annotated[
        int, Query(ge=1, le=LIMIT_MAX, description="The most items in one page.")
    ] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=CURSOR_CHARACTERS_MAX,
            description="The cursor of the page before; none for the first page.",
        ),
    ] = None,
) -> Paging:
    return Paging(limit, cursor)


# A route takes both parameters by one of its own: `async def bookings(page: PageAsked) -> PageOf[Booking]`.
PageAsked = Annotated[Paging, Depends(_paging)]
