"""Mapping of CSV columns to the attributes of an entity, and of a row's cells to an entity.

A cell is text; the attribute's type determines how it is parsed. Error messages name the column, because they
end up in a file that people read.
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

from holdfast.core.errors import HoldfastError, InvalidRequest
from holdfast.model.entities.declaration import Attribute
from holdfast.model.entities.entity import Entity, get_declaration
from holdfast.operations.values import Item
from holdfast.runtime.csv_io.records import Record

LIST_SEPARATOR: Final = ";"
# Text that means no value; databases write the second.
EMPTY_CELLS: Final = frozenset({"", "\\N"})
# Line breaks are kept: a message may end with one.
WHITESPACE: Final = " \t\u00a0\ufeff"


class RowRejected(Exception):
    """A row cannot be imported; the message says why."""


class ColumnMapping:
    """The attribute of each column, and the parser of its cells.

    `aliases` map further column names to stored names. `derived` are attributes that `normalise`, called with
    each row's values, adds.
    """

    def __init__(
        self,
        entity: type[Entity],
        aliases: Mapping[str, str],
        derived: frozenset[str],
        normalise: Callable[[dict[str, Any]], dict[str, Any]] | None,
    ) -> None:
        self.entity, self._normalise = entity, normalise
        self._declaration = get_declaration(entity)
        by_stored = self._declaration.by_stored_name
        self._names = {_fold_name(name): each for name, each in by_stored.items()}
        self._names |= {_fold_name(each.name): each for each in by_stored.values()}
        self._names |= {_fold_name(other): by_stored[name] for other, name in aliases.items()}
        self._derived = derived
        self._parsers: list[tuple[str, Callable[[str], Any]] | None] = []
        self.ignored: list[str] = []

    def is_known(self, column: str) -> bool:
        """Return True if the column name, in any case and without signs, names an attribute."""
        return _fold_name(column) in self._names

    def match(self, header: Sequence[str], path: Path) -> None:
        """Find each column's attribute; unknown columns go to `ignored`.

        Raise `InvalidRequest` if the header lacks a required attribute or has one twice. `path` is for the
        error.
        """
        found = [self._names.get(_fold_name(column)) for column in header]
        self.ignored = [column for column, each in zip(header, found, strict=True) if each is None]
        names = [each.stored_name for each in found if each is not None]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRequest(f"{path} has two columns for {', '.join(twice)}: remove one.")
        required = [
            info.alias or name for name, info in self.entity.model_fields.items() if info.is_required()
        ]
        if missing := [name for name in required if name not in names and name not in self._derived]:
            raise InvalidRequest(
                f"{path} has no column for {', '.join(missing)}: its header has {', '.join(header)}, and "
                f"{self.entity.__name__} requires {', '.join(required)}."
            )
        self._parsers = [None if each is None else (each.stored_name, _choose_parser(each)) for each in found]

    def read(self, record: Record) -> tuple[Entity, Item]:
        """Return the entity of a row, and its item. Raise RowRejected if a cell is invalid."""
        values = self._parse_cells(record)
        try:
            if self._normalise is not None:
                values = self._normalise(values)
            entity = self.entity.model_validate(values)
            return entity, entity.to_item()
        except ValidationError as error:
            raise RowRejected("; ".join(self._format_error(each) for each in error.errors())) from error
        except (ValueError, HoldfastError) as error:
            raise RowRejected(str(error).split("ValueError: ")[-1]) from error

    def _parse_cells(self, record: Record) -> dict[str, Any]:
        """Return the parsed cells by stored name, without empty ones; raise `RowRejected` for an invalid
        one.
        """
        if record.fault is not None:
            raise RowRejected(record.fault)
        if len(record.cells) != len(self._parsers):
            raise RowRejected(
                f"The row has {len(record.cells)} cells, but the header has {len(self._parsers)}"
            )
        values: dict[str, Any] = {}
        for reader, cell in zip(self._parsers, record.cells, strict=True):
            text = cell.strip(WHITESPACE)
            if reader is None or text in EMPTY_CELLS:
                continue
            try:
                values[reader[0]] = reader[1](text)
            except ValueError as error:
                raise RowRejected(f"{reader[0]} is {text!r}: {error}") from error
        return values

    def _format_error(self, error: Any) -> str:
        """Return one of Pydantic's errors with the column and the value, for people."""
        column, message = ".".join(map(str, error["loc"])) or "the row", str(error["msg"])
        if error["type"] == "missing":
            return f"{column} is empty, but {self.entity.__name__} requires it"
        if error["type"] == "value_error":
            return f"{column}: {message.removeprefix('Value error, ')}"
        message = re.sub(r"^Input should be", "it should be", message)
        value = error["input"]
        # Show a date as it is written in the cell.
        shown = value.isoformat() if isinstance(value, date) else repr(value)
        return f"{column} is {shown}: {message}"


def _choose_parser(attribute: Attribute) -> Callable[[str], Any]:
    """Return the function that parses a cell of this attribute; plain text for most types."""
    kinds = _get_types(attribute.annotation)
    if list in kinds or frozenset in kinds:
        return _parse_list
    if dict in kinds or any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in kinds):
        return _parse_map
    if bytes in kinds:
        return _parse_bytes
    return _parse_datetime if datetime in kinds else str


def _get_types(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation allows at its top level."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _get_types(get_args(annotation)[0])
    if origin in (list, dict, frozenset, set):
        return {frozenset if origin is set else origin}
    arguments = get_args(annotation)
    return {annotation} if not arguments else {kind for each in arguments for kind in _get_types(each)}


def _parse_list(text: str) -> Any:
    """Parse a list: JSON, or elements separated by semicolons. Raise `ValueError` for invalid JSON."""
    if text.startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"it begins with '[' but is not a JSON list ({error.msg})") from error
    return [part.strip() for part in text.split(LIST_SEPARATOR) if part.strip()]


def _parse_map(text: str) -> Any:
    """Parse a JSON object; raise `ValueError` if it is invalid."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it should be a JSON object ({error.msg})") from error


def _parse_bytes(text: str) -> bytes:
    """Parse base64; raise `ValueError` if it is invalid."""
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise ValueError("it should be base64") from None


def _parse_datetime(text: str) -> datetime:
    """Parse an ISO 8601 time; raise `ValueError` if it is invalid or has no time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("it should be an ISO 8601 time, such as 2026-01-31T06:30:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("it has no time zone; end it with Z for UTC, or with an offset")
    return moment


def _fold_name(name: str) -> str:
    """Return the name in lower case, with only letters and digits."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
