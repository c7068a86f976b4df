"""Parse SQL statements for the tables they use and the privileges they need.

The text comes from a declaration, never from a client, and is read word by word: table names follow FROM,
JOIN, USING, INTO and UPDATE. Names of `WITH` queries are skipped, and so is what only looks like a table (`IS
DISTINCT FROM x`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from holdfast.model.sql import SqlOperation

SELECT: Final = "SELECT"

# String literals and comments can contain any word.
_QUOTED_OR_COMMENT: Final = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.S)
_WORDS: Final = re.compile(r"%\(\w+\)s|[a-z_][\w.]*|\S")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_.]*")
_CTE: Final = re.compile(r"([a-z_]\w*) (?:\([^()]*\) )?as (?:(?:not )?materialized )?\(", re.I)
_LOCKING_CLAUSE: Final = re.compile(r"\bfor (?:no key )?(?:update|share)\b|\bfor key share\b")
# Functions with a FROM between their arguments.
_FUNCTIONS_WITH_FROM: Final = frozenset({"extract", "substring", "trim", "overlay"})
# Words that can follow a table name and are not an alias.
_NOT_AN_ALIAS: Final = frozenset(
    "where set on using join left right full inner cross natural order group having limit offset for union "
    "except "
    "intersect returning values select default window fetch tablesample".split()
)


def get_table_privileges(operation: SqlOperation[Any]) -> dict[str, frozenset[str]]:
    """Return the privileges that the statement needs, by table (`pagw.outbox`), in the order of the text."""
    found: dict[str, frozenset[str]] = {}
    for table, privileges in _iter_table_uses(split_words(operation.text)):
        name = table if "." in table else f"{operation.schema.name}.{table}"
        found[name] = found.get(name, frozenset()) | privileges
    return found


def merge_privileges(mappings: Iterable[Mapping[str, frozenset[str]]]) -> dict[str, frozenset[str]]:
    """Merge the privileges of several statements."""
    found: dict[str, frozenset[str]] = {}
    for each in mappings:
        for table, privileges in each.items():
            found[table] = found.get(table, frozenset()) | privileges
    return found


def split_words(text: str) -> list[str]:
    """Return the words and signs of a statement in lower case, without string literals and comments."""
    return _WORDS.findall(_QUOTED_OR_COMMENT.sub(" ", text).lower())


def _iter_table_uses(words: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each table with the privileges that one clause needs on it."""
    named = {found[1] for found in _CTE.finditer(" ".join(words))}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        needed: Iterable[str] = ()
        if word == "into" and before == "insert":
            needed = tuple(_iter_insert_privileges(_get_rest_of_query(words, place)))
        elif word == "update" and before not in ("do", "for", "key"):
            # Its condition reads the table.
            needed = ("UPDATE", SELECT)
        elif word == "from" and before == "delete":
            needed = ("DELETE", SELECT)
        elif (
            word in ("from", "join", "using")
            and before != "distinct"
            and not _is_function_argument(words, place)
        ):
            is_locked = _LOCKING_CLAUSE.search(" ".join(_get_rest_of_query(words, place)))
            needed = (SELECT, "UPDATE") if is_locked else (SELECT,)
        for table in _iter_table_names(words, place) if needed else ():
            if table not in named:
                yield table, frozenset(needed)


def _iter_insert_privileges(words: Sequence[str]) -> Iterator[str]:
    """Yield the privileges of an INSERT."""
    yield "INSERT"
    # ON CONFLICT and RETURNING read the table.
    if "conflict" in words or "returning" in words:
        yield SELECT
    if ("do", "update") in pairwise(words):
        yield "UPDATE"


def _get_rest_of_query(words: Sequence[str], position: int) -> list[str]:
    """Return the words that follow in the same query, without nested and enclosing queries."""
    found, depth = [], 0
    for word in words[position:]:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0:
            break
        if depth == 0:
            found.append(word)
    return found


def _is_function_argument(words: Sequence[str], position: int) -> bool:
    """Return True if a FROM belongs to a function's arguments, as in `extract(day FROM x)`."""
    depth = 0
    for at in range(position - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(words[at], 0)
        if depth < 0:
            return words[at - 1] in _FUNCTIONS_WITH_FROM
    return False


def _iter_table_names(words: Sequence[str], position: int) -> Iterator[str]:
    """Yield the tables of a list with optional aliases: `FROM a x, b AS y`.

    Functions and subqueries are skipped.
    """
    at = position + 1
    while at < len(words):
        while words[at : at + 1] and words[at] in ("only", "lateral"):
            at += 1
        if at >= len(words) or not _NAME.fullmatch(words[at]):
            return
        follows = words[at + 1] if at + 1 < len(words) else ""
        is_inserted = words[position] == "into"
        if follows != "(" or is_inserted:
            yield words[at]
        at += 1
        if words[at : at + 1] == ["as"]:
            at += 1
        if at < len(words) and _NAME.fullmatch(words[at]) and words[at] not in _NOT_AN_ALIAS:
            at += 1
        if words[position] != "from" or words[at : at + 1] != [","]:
            return
        at += 1
