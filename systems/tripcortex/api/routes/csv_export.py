"""CSV responses (RFC 4180) from paged reads, streamed: the next page is read when one has been sent.

A text cell that a spreadsheet would execute as a formula gets a leading apostrophe, so a request's text stays
text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from holdfast import Page

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
CSV_MEDIA_TYPE: Final = "text/csv; charset=utf-8"


class Csv(Response):
    """A response with CSV, for its media type in OpenAPI."""

    media_type = "text/csv"


# Reads the page after a cursor; None reads the first.
ReadPage = Callable[[str | None], Any]


async def build_csv_response(
    file_name: str, columns: Sequence[str], read_page: ReadPage, build_row: Callable[[Any], Mapping[str, Any]]
) -> Response:
    """Return a streamed CSV download with a header row and the rows of all pages; `build_row` maps an item.

    The first page is read before the response starts, so an error there is a problem response.
    """
    first: Page[Any] = await read_page(None)
    return StreamingResponse(
        _generate_lines(columns, first, read_page, build_row),
        media_type=CSV_MEDIA_TYPE,
        headers={
            "content-disposition": f'attachment; filename="{file_name}"',
            "x-content-type-options": "nosniff",
        },
    )


async def _generate_lines(
    columns: Sequence[str],
    page: Page[Any],
    read_page: ReadPage,
    build_row: Callable[[Any], Mapping[str, Any]],
) -> AsyncIterator[bytes]:
    """Yield the header, then the encoded rows of `page` and of each page after it."""
    yield _encode_rows([columns])
    while True:
        if page.items:
            shown = [build_row(each) for each in page.items]
            yield _encode_rows([[format_cell(each.get(name)) for name in columns] for each in shown])
        if page.cursor is None:
            return
        page = await read_page(page.cursor)


def format_cell(value: Any) -> str:
    """Format a value as the text of a CSV cell: None is empty, times are ISO 8601, dicts and lists are JSON.

    Text that a spreadsheet would execute is escaped; numbers are not.
    """
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, dict | list):
        return _escape_formula(json.dumps(value, ensure_ascii=False, default=str))
    # Numbers may be negative, and are not formulas.
    return str(value) if not isinstance(value, str) else _escape_formula(value)


def _escape_formula(text: str) -> str:
    """Put an apostrophe before text that starts, after spaces, with a formula character."""
    return f"'{text}" if text.lstrip(" ").startswith(FORMULA_STARTS) else text


def _encode_rows(rows: Sequence[Sequence[str]]) -> bytes:
    """Return the rows as CSV in UTF-8."""
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()
