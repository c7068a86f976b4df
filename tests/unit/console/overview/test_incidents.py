"""Incidents: what samples say was wrong, from when to when."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.console.overview.incidents import Incident, compute_error_rate, list_incidents
from holdfast.console.overview.samples import (
    SQL_IDLE,
    OutboxState,
    ProcessState,
    QueueState,
    Rates,
    Sample,
    SystemSample,
)

URL = "http://127.0.0.1:8081"
UP = ProcessState(URL, started_at=100.0)
DOWN = ProcessState(URL, failure="no connection")
FINE = SystemSample(processes=[UP])


def sample(*systems: SystemSample | None, first: float = 1000.0, step: float = 15.0) -> list[Sample]:
    """Return samples of one system, 15 seconds apart; None is a sample without it."""
    return [
        Sample(first + step * number, {} if each is None else {"depot": each})
        for number, each in enumerate(systems)
    ]


def describe(samples: list[Sample]) -> list[tuple[str, str, float, float | None]]:
    return [(each.kind, each.subject, each.start, each.end) for each in list_incidents(samples, "depot")]


def with_queue(dead: int | None) -> SystemSample:
    return SystemSample(queues={"parcels": QueueState(dead=dead)})


def test_process_that_does_not_answer_is_an_incident_until_it_answers() -> None:
    down = SystemSample(processes=[DOWN])

    assert describe(sample(FINE, down, down, FINE)) == [("process", URL, 1015.0, 1045.0)]
    assert describe(sample(FINE, down)) == [("process", URL, 1015.0, None)]
    assert describe(sample(FINE, FINE)) == []


def test_says_why_a_process_did_not_answer() -> None:
    found = list_incidents(sample(FINE, SystemSample(processes=[DOWN])), "depot")

    assert found[0].text == f"The process at {URL} did not answer: no connection"
    assert not found[0].is_over


def test_condition_of_the_oldest_sample_may_be_older() -> None:
    down = SystemSample(processes=[DOWN])

    assert [each.is_older for each in list_incidents(sample(down, FINE), "depot")] == [True]
    assert [each.is_older for each in list_incidents(sample(FINE, down), "depot")] == [False]


def test_condition_that_comes_back_within_a_minute_is_one_incident() -> None:
    down = SystemSample(processes=[DOWN])

    assert describe(sample(FINE, down, FINE, FINE, down, FINE)) == [("process", URL, 1015.0, 1075.0)]
    apart = sample(FINE, down, *[FINE] * 6, down)
    assert describe(apart) == [("process", URL, 1120.0, None), ("process", URL, 1015.0, 1030.0)]


def test_incident_goes_on_over_samples_that_are_missing() -> None:
    down = SystemSample(processes=[DOWN])

    assert describe(sample(FINE, down, None, None, down, FINE)) == [("process", URL, 1015.0, 1075.0)]


def test_another_start_time_is_a_restart() -> None:
    restarted = SystemSample(processes=[ProcessState(URL, started_at=1020.0)])

    assert describe(sample(FINE, restarted, restarted)) == [("restart", URL, 1020.0, 1020.0)]


@pytest.mark.parametrize("unknown", [ProcessState(URL), DOWN])
def test_unknown_start_time_is_not_a_restart(unknown: ProcessState) -> None:
    kinds = [each[0] for each in describe(sample(FINE, SystemSample(processes=[unknown]), FINE))]

    assert "restart" not in kinds


def test_store_that_the_console_or_a_process_finds_not_ready_is_one_incident() -> None:
    unready = ProcessState(URL, not_ready={"sql": "no answer within 2 s"}, started_at=100.0)
    both = SystemSample(processes=[unready], stores={"sql": "StoreUnreachable", "tables": ""})

    assert describe(sample(FINE, both, FINE)) == [("store", "sql", 1015.0, 1030.0)]


def test_store_that_nobody_uses_is_not_an_incident() -> None:
    assert describe(sample(SystemSample(stores={"sql": SQL_IDLE}))) == []


def test_dead_letters_are_an_incident_when_they_become_more_until_they_are_as_few_as_before() -> None:
    samples = sample(with_queue(2), with_queue(3), with_queue(5), with_queue(4), with_queue(2), with_queue(2))

    assert describe(samples) == [("dead letters", "queue parcels", 1015.0, 1060.0)]
    assert list_incidents(samples[:3], "depot")[0].text == "3 messages of queue parcels became dead letters"
    assert describe(sample(with_queue(7), with_queue(7), with_queue(1))) == []


def test_dead_letters_of_a_queue_that_was_unknown_are_not_new() -> None:
    assert describe(sample(FINE, with_queue(4), with_queue(4))) == []
    assert describe(sample(with_queue(None), with_queue(4))) == []


def test_messages_that_an_outbox_gives_up_are_dead_letters() -> None:
    before, after = (SystemSample(outboxes={"orders": OutboxState(dead=dead)}) for dead in (0, 1))

    found = list_incidents(sample(before, after), "depot")

    assert [(each.text, each.url) for each in found] == [
        ("1 message of outbox orders became dead letters", "/outbox/depot/orders")
    ]


def test_open_breaker_is_an_incident() -> None:
    opened = SystemSample(open_breakers=["carrier"])

    assert describe(sample(FINE, opened, FINE)) == [("breaker", "carrier", 1015.0, 1030.0)]


@pytest.mark.parametrize(
    ("rates", "is_incident"),
    [
        ({"requests": 10.0, "failed_requests": 0.5}, True),
        ({"requests": 10.0, "failed_requests": 0.49}, False),
        ({"operations": 100.0, "failed_operations": 5.0}, True),
        # Two failures in 15 seconds, although they are all that happened.
        ({"requests": 2 / 15, "failed_requests": 2 / 15}, False),
        ({}, False),
    ],
)
def test_errors_are_an_incident_from_the_threshold_on(rates: dict[str, Any], is_incident: bool) -> None:
    failing = SystemSample(rates=Rates(**rates))

    assert bool(describe(sample(FINE, failing))) is is_incident


def test_error_rate_is_the_higher_of_requests_and_operations() -> None:
    rates = Rates(requests=10.0, failed_requests=1.0, operations=10.0, failed_operations=3.0)

    assert compute_error_rate(SystemSample(rates=rates)) == pytest.approx(0.3)
    assert compute_error_rate(SystemSample(rates=Rates())) is None
    assert compute_error_rate(SystemSample()) is None


@pytest.mark.parametrize(
    ("kind", "subject", "url"),
    [
        ("dead letters", "queue a b", "/queues/depot/a%20b/dead"),
        ("breaker", "carrier", "/breakers/depot"),
        ("process", URL, "#system-depot"),
    ],
)
def test_incident_links_to_the_page_of_what_it_concerns(kind: Any, subject: str, url: str) -> None:
    assert Incident("depot", kind, subject, "", 0.0).url == url


def test_newest_incident_is_first() -> None:
    samples = sample(FINE, SystemSample(open_breakers=["a"]), FINE, SystemSample(open_breakers=["b"]))

    assert [each.subject for each in list_incidents(samples, "depot")] == ["b", "a"]
