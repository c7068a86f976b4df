"""Pagination over HTTP: `limit` and `cursor` in the query, `items` and the next `cursor` in the response.

A cursor is opaque: it comes from the pattern's own page and goes back into the same pattern; the route does
not read it. The last page has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Generic, TypeVar

from pydantic import BaseModel, Field

from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "api"):
    from fastapi import Depends, Query

LIMIT_DEFAULT: Final = 100
MAX_LIMIT: Final = 1000
# A cursor holds the keys of a table and of an index, at most 6 KiB, and grows by a third when encoded.
MAX_CURSOR_CHARACTERS: Final = 10_000

Item = TypeVar("Item")


class PageOf(BaseModel, Generic[Item]):
    """One page of a result."""

    items: list[Item]
    cursor: str | None = Field(
        default=None, description="The cursor of the next page; null on the last page."
    )


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The page that the client asked for."""

    limit: int = LIMIT_DEFAULT
    cursor: str | None = None


def _parse_page_request(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="The maximum number of items in one page.")
    ] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MAX_CURSOR_CHARACTERS,
            description="The `cursor` that the previous page returned; omit it for the first page.",
        ),
    ] = None,
) -> PageRequest:
    """Return the page that the query parameters request."""
    return PageRequest(limit, cursor)


RequestedPage = Annotated[PageRequest, Depends(_parse_page_request)]
"""A route takes both parameters as one: `async def bookings(page: RequestedPage) -> PageOf[Booking]`."""
