"""Reference data that ships with the package: rule tables and working values, each with its source and date.

Each module of `domain` loads its own file here once and does no other I/O.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict

COMMENT_PREFIX = "#"


class Record(BaseModel):
    """A value read from a data file: immutable, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(Record):
    """The origin of a table: title, reference, date and what it omits."""

    title: str
    reference: str
    as_of: date
    note: str


R = TypeVar("R", bound=Record)


def load_document(name: str, kind: type[R]) -> R:
    """Load a JSON file and validate it as `kind`."""
    return cast(R, _load_document(name, kind))


@cache
def load_rows(name: str) -> Sequence[Mapping[str, str]]:
    """Load the rows of a CSV file by column name. Skip lines that start with #: they state its source."""
    lines = [line for line in _read_text(name).splitlines() if not line.startswith(COMMENT_PREFIX)]
    return tuple(csv.DictReader(lines))


@cache
def _load_document(name: str, kind: type[Record]) -> Record:
    return kind.model_validate_json(_read_text(name))


def _read_text(name: str) -> str:
    return (files("skymarshal") / "data" / name).read_text(encoding="utf-8")
