"""Structured logs: one JSON object per line for a program, or a readable line for a person at a terminal.

    setup_logs(sys.stderr, system="richpanel", component="worker", redact=redact)

Each line has the correlation id that is bound where it is written, so that one text finds an event from the
first request to the audit, and the component that `bind_component` names, where several run in one process.
`redact` is applied to every text of a record, including errors and tracebacks. Values that are not JSON are
written as text; a log call never fails because of its arguments.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import error_label
from holdfast.core.terminal import escape_control_chars

__all__ = [
    "LogFormat",
    "Redact",
    "bind_component",
    "set_component",
    "setup_logs",
]

Redact: TypeAlias = Callable[[str], str]
"""Returns a text without personal data."""
LogFormat: TypeAlias = Literal["json", "text"]
"""How log lines are written."""

ROOT_LOGGER: Final = "holdfast"
UNREADABLE: Final = "(could not be written)"
MAX_DEPTH: Final = 6
# Fields of every record; anything else was passed as `extra`.
_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COMPONENT: ContextVar[str | None] = ContextVar("component", default=None)


def setup_logs(
    stream: TextIO,
    *,
    level: int = logging.INFO,
    log_format: LogFormat | None = None,
    redact: Redact | None = None,
    system: str | None = None,
    component: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> logging.Handler:
    """Send all logs to `stream`, replacing an earlier setup, and return the handler.

    Without a format, a terminal gets text and any other stream JSON. `level` applies to the loggers
    `holdfast` and `system`; other libraries are logged from WARNING on.
    """
    log_format = log_format or ("text" if stream.isatty() else "json")
    names = {name: value for name, value in (("system", system), ("component", component)) if value}
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FORMATTERS[log_format](clock, redact or str, names))
    root = logging.getLogger()
    for other in [each for each in root.handlers if isinstance(each.formatter, _LineFormatter)]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in (ROOT_LOGGER, *([system] if system else [])):
        logging.getLogger(name).setLevel(level)
    return handler


@contextmanager
def bind_component(component: str) -> Iterator[None]:
    """Name the component in everything logged inside the block, and in tasks that are started inside."""
    token = set_component(component)
    try:
        yield
    finally:
        _COMPONENT.reset(token)


def set_component(component: str) -> Token[str | None]:
    """Name the component until the current task ends: for a request, which is one task. Return the token to
    undo it.
    """
    return _COMPONENT.set(component)


class _LineFormatter(logging.Formatter, ABC):
    """Base of both formats: time, level, message, names and error of a record."""

    def __init__(self, clock: Clock, redact: Redact, names: Mapping[str, str]) -> None:
        super().__init__()
        self._clock, self._redact, self._names = clock, redact, names

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line. A record that cannot be formatted becomes a line that says so."""
        try:
            return self._format_line(self._collect_fields(record))
        except Exception as error:
            return self._format_line(
                {"time": self._format_time(), "level": "ERROR", "logger": record.name}
                | {"message": f"{UNREADABLE}: {type(error).__name__}"}
            )

    def _collect_fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields of a record, redacted: time, level, logger, message, ids, `extra` and the
        error.
        """
        fields: dict[str, Any] = {
            "time": self._format_time(),
            "level": record.levelname,
            "logger": record.name,
        }
        fields["message"] = self._redact_text(_get_message(record))
        if (id := get_correlation_id()) is not None:
            fields["correlation"] = self._redact_text(id)
        fields |= self._names
        if (component := _COMPONENT.get()) is not None:
            fields["component"] = component
        for name, value in vars(record).items():
            if name not in _STANDARD_FIELDS and name not in fields:
                fields[name] = self._to_json_value(value)
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = error_label(record.exc_info[0])
            fields["traceback"] = self._redact_text(
                "".join(traceback.format_exception(*record.exc_info)).rstrip()
            )
        return fields

    @abstractmethod
    def _format_line(self, fields: Mapping[str, Any]) -> str:
        """Return one record in the subclass's format."""

    def _format_time(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds")

    def _redact_text(self, text: str) -> str:
        """Return the text redacted, with lone surrogates escaped."""
        return self._redact(text).encode("utf-8", "backslashreplace").decode()

    def _to_json_value(self, value: Any, depth: int = 0) -> Any:
        """Return the value as JSON, or as text where JSON has no form for it or it nests too deeply."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return self._redact_text(value)
        if depth < MAX_DEPTH and isinstance(value, Mapping):
            return {self._to_text(name): self._to_json_value(each, depth + 1) for name, each in value.items()}
        if depth < MAX_DEPTH and isinstance(value, list | tuple | set | frozenset):
            return [self._to_json_value(each, depth + 1) for each in value]
        return self._to_text(value)

    def _to_text(self, value: Any) -> str:
        """Return the value as redacted text, or a placeholder if its `str` fails."""
        try:
            return self._redact_text(str(value))
        except Exception:
            return UNREADABLE


class _JsonFormatter(_LineFormatter):
    def _format_line(self, fields: Mapping[str, Any]) -> str:
        return json.dumps(fields, ensure_ascii=False)


class _TextFormatter(_LineFormatter):
    """`12:00:01 WARNING holdfast.runtime: message  correlation=…`, with a traceback below."""

    def _format_line(self, fields: Mapping[str, Any]) -> str:
        shown = dict(fields)
        moment, level = str(shown.pop("time"))[11:19], shown.pop("level")
        said = f"{moment} {level:<7} {shown.pop('logger')}: {shown.pop('message')}"
        below = shown.pop("traceback", None)
        more = "".join(f"  {name}={value}" for name, value in shown.items())
        return escape_control_chars(said + more + (f"\n{below}" if below else ""))


_FORMATTERS: Final[Mapping[LogFormat, type[_LineFormatter]]] = {
    "json": _JsonFormatter,
    "text": _TextFormatter,
}


def _get_message(record: logging.LogRecord) -> str:
    """Return the formatted message, or the unformatted text if its arguments do not fit."""
    try:
        return record.getMessage()
    except Exception:
        # The arguments do not fit the text, or fail to format: the text alone is better than nothing.
        return f"{record.msg!s} {UNREADABLE}"
