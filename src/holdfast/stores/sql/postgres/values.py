"""How parameters are sent and what comes back: the types of Python beside those of PostgreSQL.

    dict, list          jsonb
    tuple               an array, so that `= ANY(%(ids)s)` takes one; its elements are of one type
    datetime            timestamptz; must say its zone, and comes back in UTC
    StrEnum             its text
    Decimal, UUID, bytes, date, int, float, bool, str, None   what they are

A value that cannot be sent is refused before anything is: `InvalidRequest`, by its parameter's name and type
alone.
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
    """A tuple is an array."""


def teach(connection: Connection[Any]) -> None:
    """Our types for this connection's parameters; no other user of psycopg in the process notices."""
    adapters = connection.adapters
    adapters.register_dumper(dict, JsonbDumper)
    adapters.register_dumper(list, JsonbDumper)
    adapters.register_dumper(tuple, ArrayDumper)
    # NaN is no JSON, and PostgreSQL would refuse it later and less clearly.
    set_json_dumps(partial(json.dumps, allow_nan=False, ensure_ascii=False), connection)


def check(statement: Statement) -> None:
    """Refuses what would be sent wrongly without a word."""
    _check_values(statement.parameters, statement.pattern)


def _check_values(parameters: Mapping[str, Any], pattern: str | None) -> None:
    for name, value in parameters.items():
        each = value if type(value) is tuple else (value,)
        if any(isinstance(one, datetime | time) and one.tzinfo is None for one in each):
            raise InvalidRequest(
                f"{pattern or 'A statement'} is given a time without a zone as {name}: use one of the "
                "stores' clock, in UTC."
            )
