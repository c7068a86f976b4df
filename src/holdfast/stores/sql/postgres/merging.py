"""Several independent writes as one statement, which PostgreSQL commits by itself: one round trip, no BEGIN.

    WITH merged_0 AS (INSERT … RETURNING 1), merged_1 AS (…) SELECT 1 / (… as many rows as expected …)

Each write becomes a common table expression. All of them see the rows as they were before, so they must not
touch the same rows: their caller says so (`Statement.is_independent`). A write that affects an unexpected
number of rows makes the statement divide by zero, which rolls all of it back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from holdfast.operations.sql import Statement

# The error of a merged statement with an unexpected number of rows.
UNEXPECTED_ROWS_STATE: Final = "22012"
_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_RETURNING: Final = re.compile(r"\bRETURNING\b", re.I)
_WITH: Final = re.compile(r"\s*WITH\s+(\w+)\s+AS\s*(?=\()", re.I)
# Texts in quotes and comments, in which a parenthesis means nothing.
_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|[()]", re.S)


def merge(statements: Sequence[Statement]) -> Statement | None:
    """Return one statement that runs all of them, or None if they cannot be merged."""
    if len(statements) < 2 or not all(each.is_independent and each.writes for each in statements):
        return None
    text = _merge_texts(tuple((each.text, each.expected) for each in statements))
    if text is None:
        return None
    return Statement(
        text=text,
        parameters=_merge_parameters(statements),
        schema=statements[0].schema,
        writes=True,
        repeatable=all(each.repeatable for each in statements),
        pattern="+".join(dict.fromkeys(each.pattern or "a statement" for each in statements)),
        is_merged=True,
    )


def _merge_parameters(statements: Sequence[Statement]) -> dict[str, Any]:
    """Return the parameters of all statements, under names that are unique."""
    return {
        f"{name}_{position}": value
        for position, each in enumerate(statements)
        for name, value in each.parameters.items()
    }


@cache
def _merge_texts(texts: tuple[tuple[str, int | None], ...]) -> str | None:
    """Return the text of the merged statement. Cached: there are as many combinations as callers.

    Return None for a text whose own WITH is recursive, has several parts, or shares a name with another.
    """
    parts: dict[str, str] = {}
    conditions: list[str] = []
    for position, (text, expected) in enumerate(texts):
        text = _PLACEHOLDER.sub(rf"%(\g<1>_{position})s", text)
        name = f"merged_{position}"
        named, main = _split_with(text)
        if main is None or not parts.keys().isdisjoint(named):
            return None
        parts |= named | {name: main if _RETURNING.search(main) else f"{main}\nRETURNING 1"}
        if expected is not None:
            conditions.append(f"(SELECT count(*) FROM {name}) = {expected}")
    listed = ",\n".join(f"{name} AS ({text}\n)" for name, text in parts.items())
    condition = " AND ".join(conditions) or "TRUE"
    return f"WITH {listed}\nSELECT 1 / (CASE WHEN {condition} THEN 1 ELSE 0 END) AS is_done"


def _split_with(text: str) -> tuple[dict[str, str], str | None]:
    """Return the one common table expression of a text by its name, and the text behind it; None for the
    text if it has another form.
    """
    found = _WITH.match(text)
    if found is None:
        is_write = re.match(r"\s*(?:INSERT|UPDATE|DELETE)\b", text, re.I) is not None
        return {}, text if is_write else None
    depth = 0
    for token in _TOKEN.finditer(text, found.end()):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 and token[0] == ")":
            main = text[token.end() :]
            is_write = re.match(r"\s*(?:INSERT|UPDATE|DELETE)\b", main, re.I) is not None
            return {found[1]: text[found.end() + 1 : token.start()]}, main if is_write else None
    return {}, None
