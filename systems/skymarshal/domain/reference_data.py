"""The loader of the reference data files in the package: rule tables and working values with their source.

Each module of `domain` loads its own file with it, once, and does no other I/O.
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
    """Load a JSON file of the package and validate it as `kind`. The result is cached."""
    return cast(R, _load_document(name, kind))


@cache
def load_rows(name: str) -> Sequence[Mapping[str, str]]:
    """Load the rows of a CSV file of the package by column name. The result is cached.

    Lines that start with # are skipped: they state the source.
    """
    lines = [line for line in _read_text(name).splitlines() if not line.startswith(COMMENT_PREFIX)]
    return tuple(csv.DictReader(lines))


@cache
def _load_document(name: str, kind: type[Record]) -> Record:
    """Load and validate a JSON file, cached by name and kind."""
    return kind.model_validate_json(_read_text(name))


def _read_text(name: str) -> str:
    """Read a file of the package's data folder."""
    return (files("skymarshal") / "data" / name).read_text(encoding="utf-8")
