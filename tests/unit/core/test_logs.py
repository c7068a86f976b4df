"""Structured logs: the fields of a line, redaction, and log calls that never fail."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.core.correlation import bind_correlation_id
from holdfast.core.logs import setup_logs

log = logging.getLogger("holdfast.tests")


class Noon:
    """A clock that always returns the same time."""

    def now(self) -> float:
        return 1_800_000_000.25


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Restore the root handlers and levels after each test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("holdfast", "postoffice"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def parse_log(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return the JSON object of each line."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log_line_is_one_json_object_with_time_source_and_event() -> None:
    stream = io.StringIO()
    setup_logs(stream, system="postoffice", component="carrier", clock=Noon())

    with bind_correlation_id("webhook-7"):
        log.warning("The letter %s\nis wet", "l-1", extra={"receives": 2})

    assert parse_log(stream) == [
        {
            "time": "2027-01-15T08:00:00.250+00:00",
            "level": "WARNING",
            "logger": "holdfast.tests",
            "message": "The letter l-1\nis wet",
            "correlation": "webhook-7",
            "system": "postoffice",
            "component": "carrier",
            "receives": 2,
        }
    ]


def test_an_error_has_its_traceback_on_the_same_line() -> None:
    stream = io.StringIO()
    setup_logs(stream)

    try:
        raise ZeroDivisionError("a mistake")
    except ZeroDivisionError:
        log.exception("It failed")

    [line] = parse_log(stream)
    assert line["error"] == "ZeroDivisionError"
    assert line["traceback"].startswith("Traceback")
    assert line["traceback"].endswith("ZeroDivisionError: a mistake")


def test_terminal_output_escapes_control_characters_and_json_does_not() -> None:
    shown, kept = io.StringIO(), io.StringIO()
    setup_logs(shown, log_format="text")
    log.warning("refused: %s", "\x1b[2J", extra={"title": "\x9b31m"})
    setup_logs(kept, log_format="json")
    log.warning("refused: %s", "\x1b[2J")

    assert r"refused: \x1b[2J" in shown.getvalue()
    assert r"title=\x9b31m" in shown.getvalue()
    assert parse_log(kept)[0]["message"] == "refused: \x1b[2J"


def test_redacts_messages_arguments_extras_and_errors() -> None:
    stream = io.StringIO()
    setup_logs(stream, redact=lambda text: text.replace("jane@example.com", "***@***"))

    with bind_correlation_id("about jane@example.com"):
        try:
            try:
                raise KeyError("jane@example.com")
            except KeyError as error:
                raise ValueError("no jane@example.com") from error
        except ValueError:
            log.exception(
                "To %s", "jane@example.com", extra={"to": ["jane@example.com"], "by": {"jane@example.com": 1}}
            )

    text = stream.getvalue()
    assert "jane@example.com" not in text
    # The message, the correlation id and two extras; for each error, its text and the line that raised it.
    assert text.count("***@***") == 8


class Unprintable:
    """An object whose `str` and `repr` raise."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_logs_values_that_json_cannot_encode(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    # The test run's own handlers cannot format these values.
    logging.getLogger().handlers.clear()
    setup_logs(stream)
    endless: list[Any] = []
    endless.append(endless)

    log.warning(
        "Odd things", extra={"one": object(), "two": Unprintable(), "three": float("nan"), "four": endless}
    )
    log.warning("Half a pair \ud83d")
    log.warning("%s", Unprintable())
    log.warning("%d letters", "many")

    odd, half, unprintable, misfit = parse_log(stream)
    assert odd["one"].startswith("<object object")
    assert (odd["two"], odd["three"]) == ("(could not be written)", "nan")
    assert half["message"] == "Half a pair \\ud83d"
    assert unprintable["message"] == "%s (could not be written)"
    assert misfit["message"] == "%d letters (could not be written)"
    assert capsys.readouterr().err == ""


def test_failed_redaction_suppresses_the_text() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    stream = io.StringIO()
    setup_logs(stream, redact=broken)

    log.warning("jane@example.com")

    assert "jane" not in stream.getvalue()
    assert parse_log(stream)[0]["message"] == "(could not be written): ValueError"


def test_text_format_is_a_line_with_time_level_and_fields() -> None:
    stream = io.StringIO()
    setup_logs(stream, log_format="text", component="carrier", clock=Noon())

    with bind_correlation_id("webhook-7"):
        log.error("The letter is wet")

    assert stream.getvalue() == (
        "08:00:00 ERROR   holdfast.tests: The letter is wet  correlation=webhook-7  component=carrier\n"
    )


def test_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    setup_logs(first)
    setup_logs(second)

    log.warning("once")

    assert (first.getvalue(), len(parse_log(second))) == ("", 1)


def test_logs_only_warnings_of_other_libraries() -> None:
    stream = io.StringIO()
    setup_logs(stream, system="postoffice")

    logging.getLogger("chatty").info("so")
    logging.getLogger("chatty").warning("beware")
    logging.getLogger("postoffice.worker").info("a letter")

    assert [line["message"] for line in parse_log(stream)] == ["beware", "a letter"]
