"""Parameter values: which PostgreSQL type each Python type is sent as, and a check before they are sent.

    dict, list          jsonb
    tuple               an array, so that `= ANY(%(ids)s)` takes one; its elements are of one type
    datetime            timestamptz; must have a time zone, and is returned in UTC
    StrEnum             its text
    Decimal, UUID, bytes, date, int, float, bool, str, None   the matching type

A value that cannot be sent is refused before anything is sent: `InvalidRequest`, with only the parameter's
name and type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, time
from functools import partial
from typing import Any

from psycopg import Connection
from psycopg.types.array import ListDumper
from psycopg.types.json import JsonbDumper, set_json_dumps

from holdfast.core.errors import InvalidRequest
from holdfast.operations.sql import Statement


class ArrayDumper(ListDumper):
    """Sends a tuple as an array."""


def register_types(connection: Connection[Any]) -> None:
    """Register Holdfast's types on this connection; other users of psycopg are not affected."""
    adapters = connection.adapters
    adapters.register_dumper(dict, JsonbDumper)
    adapters.register_dumper(list, JsonbDumper)
    adapters.register_dumper(tuple, ArrayDumper)
    # NaN is not valid JSON, and PostgreSQL would refuse it later and less clearly.
    set_json_dumps(partial(json.dumps, allow_nan=False, ensure_ascii=False), connection)


def check(statement: Statement) -> None:
    """Raise `InvalidRequest` for a datetime or time without a time zone, also inside a tuple: it would be
    sent wrongly.
    """
    _check_parameters(statement.parameters, statement.pattern)


def _check_parameters(parameters: Mapping[str, Any], pattern: str | None) -> None:
    """Raise `InvalidRequest` for a datetime or time without a time zone.

    `pattern` names the statement in the error.
    """
    for name, value in parameters.items():
        each = value if type(value) is tuple else (value,)
        if any(isinstance(one, datetime | time) and one.tzinfo is None for one in each):
            raise InvalidRequest(
                f"Invalid {name} for {pattern or 'a statement'}: expected a time with a time zone. Use the "
                "stores' clock, in UTC."
            )
