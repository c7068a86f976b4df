"""Structured logs: one JSON object per line for a program, or a line that reads well for a person at a terminal.

    setup_logs(sys.stderr, system="richpanel", component="worker", redact=redact)

Each line has the correlation id that is bound where it is written, so that one text finds an event from the door to
the audit, and the component that `logging_as` names, where several run in one process. `redact` goes over every text of a record, those of an error and its traceback included: what it does not
let through is not in the logs. Values that are no JSON are written as text; a log call never fails for what it is
given. Stands at the bottom: it knows the clock, the correlation id, the labels of errors and what steers a terminal.
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

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.correlation import correlation_id
from holdfast.errors import error_label
from holdfast.terminal import harmless

Redact: TypeAlias = Callable[[str], str]
Form: TypeAlias = Literal["json", "text"]

ROOT: Final = "holdfast"
UNREADABLE: Final = "(could not be written)"
DEPTH_MAX: Final = 6
# What every record has; anything else was given as `extra`.
_OF_EVERY_RECORD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COMPONENT: ContextVar[str | None] = ContextVar("component", default=None)


def setup_logs(
    stream: TextIO,
    *,
    level: int = logging.INFO,
    form: Form | None = None,
    redact: Redact | None = None,
    system: str | None = None,
    component: str | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> logging.Handler:
    """From now on all logs go to `stream`, in place of an earlier setup. Without `form`, a terminal gets text.

    Foreign libraries are heard from WARNING on.
    """
    form = form or ("text" if stream.isatty() else "json")
    names = {name: value for name, value in (("system", system), ("component", component)) if value}
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_FORMATS[form](clock, redact or str, names))
    root = logging.getLogger()
    for other in [each for each in root.handlers if isinstance(each.formatter, _Lines)]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in (ROOT, *([system] if system else [])):
        logging.getLogger(name).setLevel(level)
    return handler


@contextmanager
def logging_as(component: str) -> Iterator[None]:
    """What is written inside, and in tasks that are started inside, is this component's."""
    token = log_as(component)
    try:
        yield
    finally:
        _COMPONENT.reset(token)


def log_as(component: str) -> Token[str | None]:
    """The same until the task ends: for a request, which is one."""
    return _COMPONENT.set(component)


class _Lines(logging.Formatter, ABC):
    """What both forms share: what is said, by whom, when, and what went wrong."""

    def __init__(self, clock: Clock, redact: Redact, names: Mapping[str, str]) -> None:
        super().__init__()
        self._clock, self._redact, self._names = clock, redact, names

    def format(self, record: logging.LogRecord) -> str:
        try:
            return self._line(self._fields(record))
        except Exception as error:
            return self._line(
                {"time": self._time(), "level": "ERROR", "logger": record.name}
                | {"message": f"{UNREADABLE}: {type(error).__name__}"}
            )

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        fields: dict[str, Any] = {"time": self._time(), "level": record.levelname, "logger": record.name}
        fields["message"] = self._text(_message(record))
        if (id := correlation_id()) is not None:
            fields["correlation"] = self._text(id)
        fields |= self._names
        if (component := _COMPONENT.get()) is not None:
            fields["component"] = component
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD and name not in fields:
                fields[name] = self._plain(value)
        if record.exc_info and record.exc_info[0] is not None:
            fields["error"] = error_label(record.exc_info[0])
            fields["traceback"] = self._text("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return fields

    @abstractmethod
    def _line(self, fields: Mapping[str, Any]) -> str:
        """One record, in the form of the subclass."""

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds")

    def _text(self, text: str) -> str:
        """As it may be written: redacted, and without what no file can hold."""
        return self._redact(text).encode("utf-8", "backslashreplace").decode()

    def _plain(self, value: Any, depth: int = 0) -> Any:
        """As JSON has it; what has no form there, as text."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return self._text(value)
        if depth < DEPTH_MAX and isinstance(value, Mapping):
            return {self._told(name): self._plain(each, depth + 1) for name, each in value.items()}
        if depth < DEPTH_MAX and isinstance(value, list | tuple | set | frozenset):
            return [self._plain(each, depth + 1) for each in value]
        return self._told(value)

    def _told(self, value: Any) -> str:
        try:
            return self._text(str(value))
        except Exception:
            return UNREADABLE


class _JsonLines(_Lines):
    def _line(self, fields: Mapping[str, Any]) -> str:
        return json.dumps(fields, ensure_ascii=False)


class _TextLines(_Lines):
    """`12:00:01 WARNING holdfast.runtime: what is said  correlation=…`, with a traceback below."""

    def _line(self, fields: Mapping[str, Any]) -> str:
        shown = dict(fields)
        moment, level = str(shown.pop("time"))[11:19], shown.pop("level")
        said = f"{moment} {level:<7} {shown.pop('logger')}: {shown.pop('message')}"
        below = shown.pop("traceback", None)
        more = "".join(f"  {name}={value}" for name, value in shown.items())
        return harmless(said + more + (f"\n{below}" if below else ""))


_FORMATS: Final[Mapping[Form, type[_Lines]]] = {"json": _JsonLines, "text": _TextLines}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # The arguments do not fit the text, or cannot be shown: the text alone says more than nothing.
        return f"{record.msg!s} {UNREADABLE}"
