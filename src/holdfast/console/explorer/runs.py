"""Running a pattern from a form: what it returned and what it consumed; errors in words."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from holdfast.console.explorer.arguments import PatternForm
from holdfast.console.masking import Masker
from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import HoldfastError, OutcomeUnknown, error_label, format_message
from holdfast.model.entities.writes import ConditionCheck, transact
from holdfast.model.operations import Operation
from holdfast.model.tables import Table
from holdfast.operations.tables import Units
from holdfast.reports.examples import iter_parts
from holdfast.runtime.json_calls.arguments import CURSOR
from holdfast.runtime.json_calls.results import ShowBytes, is_paged, run_paged, run_unpaged
from holdfast.runtime.json_calls.truncation import hash_call
from holdfast.runtime.stores import Stores
from holdfast.runtime.telemetry.usage import Meter, Usage
from holdfast.security.ciphers import is_encrypted

log = logging.getLogger(__name__)

MAX_RUN_S: Final = 30.0
# Further attributes of an item are in its JSON.
MAX_COLUMNS: Final = 6


@dataclass(frozen=True)
class Run:
    """One run of a pattern: its result as JSON, or why it failed."""

    arguments: Mapping[str, Any]
    operation: str = ""
    items: Sequence[Any] = ()
    count: int = 0
    cursor: str | None = None
    # Lists that were too large, by their place: how many elements are shown of how many.
    truncated: Mapping[str, Mapping[str, int]] | None = None
    items_read: int = 0
    items_returned: int = 0
    units: Units = field(default_factory=Units)
    ms: float = 0.0
    requests: Sequence[Usage] = ()
    kept_attributes: frozenset[str] = frozenset()
    is_masked: bool = True
    error: str = ""

    @property
    def columns(self) -> list[str]:
        """The attributes to show in a table of the items, keys first; empty if they are not documents."""
        if not self.items or not all(isinstance(each, dict) for each in self.items):
            return []
        names = list(dict.fromkeys(name for each in self.items for name in each))
        keys = [name for name in names if name in self.kept_attributes]
        simple = [name for name in names if name not in keys and self._is_simple(name)]
        return [*keys, *simple][:MAX_COLUMNS]

    def show(self, masker: Masker) -> Run:
        """Return the run as the masker lets it be shown. Key attributes stay: they are an item's address."""
        return replace(
            self,
            items=[
                masker.mask_attributes(each, self.kept_attributes)
                if isinstance(each, dict)
                else masker.mask("", each)
                for each in self.items
            ],
            error=str(masker.mask("", self.error)),
            is_masked=not masker.is_revealed,
        )

    def _is_simple(self, name: str) -> bool:
        return not any(isinstance(each.get(name), dict | list) for each in self.items)


async def run_pattern(
    stores: Stores,
    form: PatternForm,
    given: Mapping[str, Any],
    added: Mapping[str, Any],
    *,
    with_bytes: bool = False,
) -> Run:
    """Run the pattern of a form. `added` are the limit and the cursor. An error is in the result, not
    raised. The result is not masked, but has binary values only `with_bytes`, else their sizes.
    """
    show_bytes = decode_bytes if with_bytes else format_size
    began = time.perf_counter()
    with stores.meter_usage() as meter:
        try:
            operation = _build_operation(form, given, added)
            async with asyncio.timeout(MAX_RUN_S):
                run = await _execute(stores, form, operation, given, added, show_bytes)
        except Exception as error:  # every error is shown in words
            run = Run(given, error=_explain(form, error))
    return _add_usage(run, meter, (time.perf_counter() - began) * 1000)


def _build_operation(form: PatternForm, given: Mapping[str, Any], added: Mapping[str, Any]) -> Operation[Any]:
    """Return the operation that the arguments build. A condition check runs only in a transaction."""
    own, _ = form.reader.read({**given, **added})
    operation: Operation[Any] = form.pattern.call_with(own)
    if isinstance(operation, ConditionCheck):
        return transact(operation).with_pattern(form.pattern.id)
    return operation


async def _execute(
    stores: Stores,
    form: PatternForm,
    operation: Operation[Any],
    given: Mapping[str, Any],
    added: Mapping[str, Any],
    show_bytes: ShowBytes,
) -> Run:
    if is_paged(operation):
        _, paging = form.reader.read({**given, **added})
        found = await run_paged(stores, operation, **paging, show_bytes=show_bytes)
    else:
        call = hash_call(form.pattern.name, given)
        found = await run_unpaged(stores, operation, call, added.get(CURSOR), show_bytes=show_bytes)
    return Run(
        given,
        operation.kind,
        found["items"],
        found["count"],
        found["cursor"],
        found.get("truncated"),
        kept_attributes=list_key_attributes(operation),
    )


def format_size(value: bytes) -> str:
    """Return the size of a binary value, in place of it."""
    kind = ", encrypted" if is_encrypted(value) else ""
    return f"({len(value):,} bytes{kind})"


def decode_bytes(value: bytes) -> Any:
    """Return a binary value as a person reads it: JSON or text if it is that, else its size."""
    if is_encrypted(value):
        return format_size(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return format_size(value)
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text if text.isprintable() or "\n" in text else format_size(value)


def list_key_attributes(operation: Operation[Any]) -> frozenset[str]:
    """Return the stored names of the key attributes of the tables that an operation uses."""
    tables: list[Table] = [part.table for part in iter_parts(operation) if part.table is not None]
    return frozenset(name for table in tables for name in (table.partition, table.sort) if name is not None)


def _add_usage(run: Run, meter: Meter, ms: float) -> Run:
    return replace(
        run,
        items_read=meter.items_read,
        items_returned=max(meter.items_returned, run.count),
        units=meter.units,
        ms=ms,
        requests=tuple(meter.usages),
    )


def _explain(form: PatternForm, error: Exception) -> str:
    """Return why a run failed, and log what the user does not see."""
    found = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    if isinstance(found, TimeoutError):
        return (
            f"It took longer than {MAX_RUN_S:g} seconds and was stopped. Ask for less: a smaller page, or a "
            f"narrower key.{' It may have been done: read the data before you run it again.' * form.writes}"
        )
    if isinstance(found, OutcomeUnknown):
        return f"{format_message(found)} It may have been done: read the data before you run it again."
    if isinstance(found, HoldfastError):
        return format_message(found)
    log.error("The pattern %s failed.", form.pattern.id, exc_info=found)
    return (
        f"It failed unexpectedly with {error_label(found)}. The log of the console has the reason under the "
        f"correlation id {get_correlation_id()}."
    )
