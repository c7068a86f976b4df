"""Reference data that ships with the package: rule tables and working values, each with its source and date.

Every module of domain knowledge reads its own file here once; nothing else in them touches a disk.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict

COMMENT = "#"


class Record(BaseModel):
    """A value read from a data file: fixed once read, and refused when it has a field nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(Record):
    """Where a table comes from, when it was read, and what it leaves out."""

    title: str
    reference: str
    as_of: date
    note: str


R = TypeVar("R", bound=Record)


def document(name: str, kind: type[R]) -> R:
    """The JSON file of that name, checked against its shape."""
    return cast(R, _document(name, kind))


@cache
def rows(name: str) -> Sequence[Mapping[str, str]]:
    """The rows of a CSV file by column name; lines that open with # carry its source."""
    lines = [line for line in _text(name).splitlines() if not line.startswith(COMMENT)]
    return tuple(csv.DictReader(lines))


@cache
def _document(name: str, kind: type[Record]) -> Record:
    return kind.model_validate_json(_text(name))


def _text(name: str) -> str:
    return (files("skymarshal") / "data" / name).read_text(encoding="utf-8")
