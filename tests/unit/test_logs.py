"""Structured logs: what a line has, what never gets into one, and that logging never fails."""

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
    def now(self) -> float:
        return 1_800_000_000.25


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("holdfast", "postoffice"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def logged(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_object_that_says_when_who_what_and_about_which_event() -> None:
    stream = io.StringIO()
    setup_logs(stream, system="postoffice", component="carrier", clock=Noon())

    with bind_correlation_id("webhook-7"):
        log.warning("The letter %s\nis wet", "l-1", extra={"receives": 2})

    assert logged(stream) == [
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

    [line] = logged(stream)
    assert line["error"] == "ZeroDivisionError"
    assert line["traceback"].startswith("Traceback")
    assert line["traceback"].endswith("ZeroDivisionError: a mistake")


def test_a_person_at_a_terminal_is_shown_what_would_steer_it_and_json_has_it_as_it_is() -> None:
    shown, kept = io.StringIO(), io.StringIO()
    setup_logs(shown, log_format="text")
    log.warning("refused: %s", "\x1b[2J", extra={"title": "\x9b31m"})
    setup_logs(kept, log_format="json")
    log.warning("refused: %s", "\x1b[2J")

    assert r"refused: \x1b[2J" in shown.getvalue()
    assert r"title=\x9b31m" in shown.getvalue()
    assert logged(kept)[0]["message"] == "refused: \x1b[2J"


def test_every_text_is_redacted_also_in_arguments_extras_and_errors() -> None:
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
    # Message, correlation, two extras; of each error its text and the line that raised it.
    assert text.count("***@***") == 8


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def test_what_is_no_json_does_not_make_a_log_call_fail(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    # Those of the test run cannot bear what ours must.
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

    odd, half, unprintable, misfit = logged(stream)
    assert odd["one"].startswith("<object object")
    assert (odd["two"], odd["three"]) == ("(could not be written)", "nan")
    assert half["message"] == "Half a pair \\ud83d"
    assert unprintable["message"] == "%s (could not be written)"
    assert misfit["message"] == "%d letters (could not be written)"
    assert capsys.readouterr().err == ""


def test_a_redaction_that_fails_lets_nothing_through() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    stream = io.StringIO()
    setup_logs(stream, redact=broken)

    log.warning("jane@example.com")

    assert "jane" not in stream.getvalue()
    assert logged(stream)[0]["message"] == "(could not be written): ValueError"


def test_a_person_gets_lines_that_read_well() -> None:
    stream = io.StringIO()
    setup_logs(stream, log_format="text", component="carrier", clock=Noon())

    with bind_correlation_id("webhook-7"):
        log.error("The letter is wet")

    assert stream.getvalue() == (
        "08:00:00 ERROR   holdfast.tests: The letter is wet  correlation=webhook-7  component=carrier\n"
    )


def test_setting_up_again_takes_the_place_of_what_was() -> None:
    first, second = io.StringIO(), io.StringIO()
    setup_logs(first)
    setup_logs(second)

    log.warning("once")

    assert (first.getvalue(), len(logged(second))) == ("", 1)


def test_of_foreign_libraries_only_warnings_are_heard_and_of_the_system_more() -> None:
    stream = io.StringIO()
    setup_logs(stream, system="postoffice")

    logging.getLogger("chatty").info("so")
    logging.getLogger("chatty").warning("beware")
    logging.getLogger("postoffice.worker").info("a letter")

    assert [line["message"] for line in logged(stream)] == ["beware", "a letter"]
