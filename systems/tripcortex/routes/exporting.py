"""Rows as CSV (RFC 4180), streamed: a page is read when the one before it has gone out.

A cell that a spreadsheet would take for a formula begins with an apostrophe, so that what somebody asked for is text and
nothing that runs on the desk of who opens the file.
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

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
TEXT: Final = "text/csv; charset=utf-8"

# Reads the page after a cursor; None is before the first.
Read = Callable[[str | None], Any]


async def csv_answer(
    file_name: str, columns: Sequence[str], read: Read, row: Callable[[Any], Mapping[str, Any]]
) -> Response:
    """The first page is read before anything is answered: what is refused there is a problem, and no half file."""
    first: Page[Any] = await read(None)
    return StreamingResponse(
        _lines(columns, first, read, row),
        media_type=TEXT,
        headers={
            "content-disposition": f'attachment; filename="{file_name}"',
            "x-content-type-options": "nosniff",
        },
    )


async def _lines(
    columns: Sequence[str], page: Page[Any], read: Read, row: Callable[[Any], Mapping[str, Any]]
) -> AsyncIterator[bytes]:
    yield _text([columns])
    while True:
        if page.items:
            shown = [row(each) for each in page.items]
            yield _text([[cell(each.get(name)) for name in columns] for each in shown])
        if page.cursor is None:
            return
        page = await read(page.cursor)


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, dict | list):
        return _harmless(json.dumps(value, ensure_ascii=False, default=str))
    # A number of ours may be negative, and is no formula.
    return str(value) if not isinstance(value, str) else _harmless(value)


def _harmless(text: str) -> str:
    return f"'{text}" if text.lstrip(" ").startswith(FORMULAS) else text


def _text(rows: Sequence[Sequence[str]]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue().encode()
