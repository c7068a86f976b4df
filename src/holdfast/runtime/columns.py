"""The columns of a CSV file against the attributes of an entity, and a row's cells as an entity.

A cell is text: what it must be, the attribute's own type says. A refusal is a sentence that names the column,
because it ends in a file that a person reads.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError

from holdfast.errors import HoldfastError, InvalidRequest
from holdfast.model.declaration import Attribute
from holdfast.model.entity import Entity, declaration_of
from holdfast.operations.values import Item
from holdfast.runtime.csv_rows import Record

LIST_SEPARATOR: Final = ";"
# What is written where there is nothing; the second by databases.
NOTHING: Final = frozenset({"", "\\N"})
# Line breaks stay: a message may end with one.
BLANKS: Final = " \t\u00a0\ufeff"


class RowRefused(Exception):
    """Why a row cannot be imported."""


class Columns:
    """Which column is which attribute."""

    def __init__(
        self,
        entity: type[Entity],
        aliases: Mapping[str, str],
        derived: frozenset[str],
        normalise: Callable[[dict[str, Any]], dict[str, Any]] | None,
    ) -> None:
        self.entity, self._normalise = entity, normalise
        self._declaration = declaration_of(entity)
        by_stored = self._declaration.by_stored_name
        self._names = {_folded(name): each for name, each in by_stored.items()}
        self._names |= {_folded(each.name): each for each in by_stored.values()}
        self._names |= {_folded(other): by_stored[name] for other, name in aliases.items()}
        self._derived = derived
        self._readers: list[tuple[str, Callable[[str], Any]] | None] = []
        self.ignored: list[str] = []

    def is_known(self, column: str) -> bool:
        return _folded(column) in self._names

    def match(self, header: Sequence[str], path: Path) -> None:
        """Finds each column's attribute. A header that lacks one that every row needs is refused at once."""
        found = [self._names.get(_folded(column)) for column in header]
        self.ignored = [column for column, each in zip(header, found, strict=True) if each is None]
        names = [each.stored for each in found if each is not None]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRequest(f"{path} has two columns for {', '.join(twice)}: leave one.")
        required = [
            info.alias or name for name, info in self.entity.model_fields.items() if info.is_required()
        ]
        if missing := [name for name in required if name not in names and name not in self._derived]:
            raise InvalidRequest(
                f"{path} has no column for {', '.join(missing)}: its first line names {', '.join(header)}, and a "
                f"{self.entity.__name__} needs {', '.join(required)}."
            )
        self._readers = [None if each is None else (each.stored, _reader(each)) for each in found]

    def read(self, record: Record) -> tuple[Entity, Item]:
        """The entity of a row, and its item."""
        values = self._values(record)
        try:
            if self._normalise is not None:
                values = self._normalise(values)
            entity = self.entity.model_validate(values)
            return entity, entity.to_item()
        except ValidationError as error:
            raise RowRefused("; ".join(self._sentence(each) for each in error.errors())) from error
        except (ValueError, HoldfastError) as error:
            raise RowRefused(str(error).split("ValueError: ")[-1]) from error

    def _values(self, record: Record) -> dict[str, Any]:
        """The cells by attribute, those with nothing in them left out."""
        if record.fault is not None:
            raise RowRefused(record.fault)
        if len(record.cells) != len(self._readers):
            raise RowRefused(
                f"The row has {len(record.cells)} cells, and the first line {len(self._readers)}"
            )
        values: dict[str, Any] = {}
        for reader, cell in zip(self._readers, record.cells, strict=True):
            text = cell.strip(BLANKS)
            if reader is None or text in NOTHING:
                continue
            try:
                values[reader[0]] = reader[1](text)
            except ValueError as error:
                raise RowRefused(f"{reader[0]} is {text!r}: {error}") from error
        return values

    def _sentence(self, error: Any) -> str:
        column, message = ".".join(map(str, error["loc"])) or "the row", str(error["msg"])
        if error["type"] == "missing":
            return f"{column} is empty, and a {self.entity.__name__} cannot be without it"
        if error["type"] == "value_error":
            return f"{column}: {message.removeprefix('Value error, ')}"
        message = re.sub(r"^Input should be", "it should be", message)
        given = error["input"]
        # Of what was read from a cell, as it is written there.
        told = given.isoformat() if isinstance(given, date) else repr(given)
        return f"{column} is {told}: {message}"


def _reader(attribute: Attribute) -> Callable[[str], Any]:
    kinds = _kinds(attribute.annotation)
    if list in kinds or frozenset in kinds:
        return _several
    if dict in kinds or any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds):
        return _map
    if bytes in kinds:
        return _bytes
    return _moment if datetime in kinds else str


def _kinds(annotation: Any) -> set[Any]:
    """The plain types that an annotation allows, at its top level."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _kinds(get_args(annotation)[0])
    if origin in (list, dict, frozenset, set):
        return {frozenset if origin is set else origin}
    arguments = get_args(annotation)
    return {annotation} if not arguments else {kind for each in arguments for kind in _kinds(each)}


def _several(text: str) -> Any:
    """A list as JSON writes it, or its elements with semicolons between them."""
    if text.startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"it opens like a list in JSON and is none ({error.msg})") from error
    return [part.strip() for part in text.split(LIST_SEPARATOR) if part.strip()]


def _map(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it should be a map in JSON ({error.msg})") from error


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("it should be bytes in base 64") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("it should be a time in ISO 8601, as in 2026-01-31T06:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("it does not say its zone; end it with Z for UTC, or with an offset")
    return moment


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
