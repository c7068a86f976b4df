"""Pagination over HTTP: `limit` and `cursor` in the query, `items` and the next `cursor` in the response.

A cursor is opaque: it comes from the pattern's own page and goes back into the same pattern; the route does
not read it. The last page has none.
"""

# Without deferred annotations: those of the dependency refer to the arguments of its factory.
from collections.abc import Awaitable, Callable
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


def build_page_request(
    default_limit: int = LIMIT_DEFAULT, max_limit: int = MAX_LIMIT
) -> Callable[..., Awaitable[PageRequest]]:
    """Return a dependency that takes `limit` and `cursor` from the query."""

    async def read_page_request(
        limit: Annotated[
            int, Query(ge=1, le=max_limit, description="The maximum number of items in one page.")
        ] = default_limit,
        cursor: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=MAX_CURSOR_CHARACTERS,
                description="The `cursor` that the previous page returned; omit it for the first page.",
            ),
        ] = None,
    ) -> PageRequest:
        return PageRequest(limit, cursor)

    return read_page_request


RequestedPage = Annotated[PageRequest, Depends(build_page_request())]
"""A route takes both parameters as one: `async def bookings(page: RequestedPage) -> PageOf[Booking]`.

An API with other limits has its own: `Annotated[PageRequest, Depends(build_page_request(20, 200))]`.
"""
