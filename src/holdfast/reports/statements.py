"""What a SQL statement touches, read from its text: its tables, and what must be allowed on each.

The text is a declaration's own, never a caller's, and is read word by word: what stands after FROM, JOIN, USING, INTO
and UPDATE. Names of `WITH` queries are left out, and so is what only looks like a table (`IS DISTINCT FROM x`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from holdfast.model.sql import SqlOperation

READ: Final = "SELECT"

# Texts and comments may say anything.
_SAID: Final = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.S)
_WORDS: Final = re.compile(r"%\(\w+\)s|[a-z_][\w.]*|\S")
_NAME: Final = re.compile(r"[a-z_][a-z0-9_.]*")
_NAMED_QUERY: Final = re.compile(r"([a-z_]\w*) (?:\([^()]*\) )?as (?:(?:not )?materialized )?\(", re.I)
_LOCK: Final = re.compile(r"\bfor (?:no key )?(?:update|share)\b|\bfor key share\b")
# Functions that have a FROM between their arguments.
_FROM_INSIDE: Final = frozenset({"extract", "substring", "trim", "overlay"})
# What can follow a table where no other name for it stands.
_NO_ALIAS: Final = frozenset(
    "where set on using join left right full inner cross natural order group having limit offset for union except "
    "intersect returning values select default window fetch tablesample".split()
)


def tables_of(operation: SqlOperation[Any]) -> dict[str, frozenset[str]]:
    """By table (`pagw.outbox`), in the order they are named, the privileges that the statement needs on it."""
    found: dict[str, frozenset[str]] = {}
    for table, privileges in _uses(words_of(operation.text)):
        name = table if "." in table else f"{operation.schema.name}.{table}"
        found[name] = found.get(name, frozenset()) | privileges
    return found


def united(several: Iterable[Mapping[str, frozenset[str]]]) -> dict[str, frozenset[str]]:
    """What several statements need together."""
    found: dict[str, frozenset[str]] = {}
    for each in several:
        for table, privileges in each.items():
            found[table] = found.get(table, frozenset()) | privileges
    return found


def words_of(text: str) -> list[str]:
    """The words and signs of a statement, in small letters, without its texts and comments."""
    return _WORDS.findall(_SAID.sub(" ", text).lower())


def _uses(words: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    named = {found[1] for found in _NAMED_QUERY.finditer(" ".join(words))}
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        needed: Iterable[str] = ()
        if word == "into" and before == "insert":
            needed = tuple(_inserting(_query_of(words, place)))
        elif word == "update" and before not in ("do", "for", "key"):
            # By a condition, which reads.
            needed = ("UPDATE", READ)
        elif word == "from" and before == "delete":
            needed = ("DELETE", READ)
        elif word in ("from", "join", "using") and before != "distinct" and not _is_inside(words, place):
            is_locked = _LOCK.search(" ".join(_query_of(words, place)))
            needed = (READ, "UPDATE") if is_locked else (READ,)
        for table in _names_after(words, place) if needed else ():
            if table not in named:
                yield table, frozenset(needed)


def _inserting(words: Sequence[str]) -> Iterator[str]:
    yield "INSERT"
    # Who looks for a row that is there, or gives back what it made, reads.
    if "conflict" in words or "returning" in words:
        yield READ
    if ("do", "update") in pairwise(words):
        yield "UPDATE"


def _query_of(words: Sequence[str], place: int) -> list[str]:
    """What follows in the same query: neither what is in its parentheses, nor what is around it."""
    found, depth = [], 0
    for word in words[place:]:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth < 0:
            break
        if depth == 0:
            found.append(word)
    return found


def _is_inside(words: Sequence[str], place: int) -> bool:
    """Whether a FROM is one of a function's arguments."""
    depth = 0
    for at in range(place - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(words[at], 0)
        if depth < 0:
            return words[at - 1] in _FROM_INSIDE
    return False


def _names_after(words: Sequence[str], place: int) -> Iterator[str]:
    """The tables of a list, each perhaps with another name: `FROM a x, b AS y`. A function is none, nor is a query."""
    at = place + 1
    while at < len(words):
        while words[at : at + 1] and words[at] in ("only", "lateral"):
            at += 1
        if at >= len(words) or not _NAME.fullmatch(words[at]):
            return
        follows = words[at + 1] if at + 1 < len(words) else ""
        is_inserted = words[place] == "into"
        if follows != "(" or is_inserted:
            yield words[at]
        at += 1
        if words[at : at + 1] == ["as"]:
            at += 1
        if at < len(words) and _NAME.fullmatch(words[at]) and words[at] not in _NO_ALIAS:
            at += 1
        if words[place] != "from" or words[at : at + 1] != [","]:
            return
        at += 1
