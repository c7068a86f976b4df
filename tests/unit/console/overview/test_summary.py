"""The state of a system in the last minute, in words and figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.console.overview.plots import build_plots
from holdfast.console.overview.samples import (
    SQL_IDLE,
    ActionState,
    FlowState,
    OutboxState,
    ProcessState,
    QueueState,
    Rates,
    Sample,
    SystemSample,
    decode_sample,
    encode_sample,
)
from holdfast.console.overview.spend import compute_spend
from holdfast.console.overview.summary import SystemSummary, summarize
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, load_price_list
from tests.unit.console.overview.depot import DEPOT
from tests.unit.reports.post_room import SYSTEM as POST_ROOM

PRICES = load_price_list()
URL = "http://127.0.0.1:8081"
UP = ProcessState(URL, started_at=1.0)


def judge(*samples: SystemSample) -> SystemSummary:
    found = summarize(DEPOT, [Sample(15.0 * at, {"depot": each}) for at, each in enumerate(samples)], PRICES)
    assert found is not None
    return found


def test_system_without_a_sample_has_no_summary() -> None:
    assert summarize(DEPOT, [], PRICES) is None
    assert summarize(DEPOT, [Sample(1.0, {"other": SystemSample()})], PRICES) is None


@pytest.mark.parametrize(
    ("sample", "health", "word", "problem"),
    [
        (SystemSample(processes=[UP], stores={"tables": ""}), "good", "ready", None),
        (SystemSample(stores={"sql": SQL_IDLE}), "plain", "stores ready", None),
        (
            SystemSample(processes=[ProcessState(URL, failure="no connection")]),
            "bad",
            "not ready",
            f"The process at {URL} does not answer: no connection.",
        ),
        (
            SystemSample(processes=[ProcessState(URL, not_ready={"sql": "no answer within 2 s"})]),
            "bad",
            "not ready",
            f"The process at {URL} finds sql not ready: no answer within 2 s.",
        ),
        (
            SystemSample(stores={"tables": "NotFound"}),
            "bad",
            "not ready",
            "The store tables is not ready: a table, queue or bucket of the system does not exist.",
        ),
        (
            SystemSample(processes=[UP], queues={"q": QueueState(dead=1)}),
            "warn",
            "needs attention",
            "1 dead letter waits to be redriven.",
        ),
        (
            SystemSample(processes=[UP], open_breakers=["carrier"]),
            "warn",
            "needs attention",
            "The breaker of carrier is open.",
        ),
        (
            SystemSample(processes=[UP], flows={"f": FlowState(parked=2)}),
            "warn",
            "needs attention",
            "2 parked executions wait.",
        ),
        (
            SystemSample(processes=[UP], unread=["outbox parcels"]),
            "warn",
            "needs attention",
            "The figures of outbox parcels could not be read.",
        ),
        (
            SystemSample(processes=[UP], rates=Rates(requests=10, failed_requests=10)),
            "warn",
            "needs attention",
            "Many requests or operations fail.",
        ),
    ],
)
def test_health_is_the_worst_that_is_known(
    sample: SystemSample, health: str, word: str, problem: str | None
) -> None:
    found = judge(sample)

    assert (found.health, found.word) == (health, word)
    assert found.problems == ([] if problem is None else [problem])


def test_figures_of_work_are_of_the_last_sample_and_rates_of_all() -> None:
    before = SystemSample(rates=Rates(requests=1.0), queues={"q": QueueState(visible=100)})
    now = SystemSample(
        rates=Rates(requests=3.0, failed_requests=0.5),
        queues={"q": QueueState(visible=2, delayed=1, in_flight=7, dead=1, oldest_s=30.0)},
        outboxes={"o": OutboxState(pending=4, dead=2, oldest_s=90.0), "idle": OutboxState(oldest_s=999.0)},
        actions={"a": ActionState(waiting=5)},
        flows={"f": FlowState(running=9, for_person=3, parked=1)},
        questions=2,
    )

    found = judge(before, now)

    assert found.rates == Rates(requests=2.0, failed_requests=0.25)
    assert found.error_rate == pytest.approx(0.125)
    assert (found.backlog, found.oldest_s, found.dead_letters) == (7, 90.0, 3)
    assert (found.for_person, list(found.waits)) == (
        11,
        ["3 to answer", "2 to decide", "1 parked", "5 delayed"],
    )


def test_spend_follows_from_units_and_requests_at_the_prices() -> None:
    rates = Rates(
        read_units={"Register": 100.0},
        write_units={"Register": 10.0},
        queue_requests={"letters": 2.0, "notices": 2.0},
        object_reads=1.0,
        object_writes=1.0,
    )

    spend = compute_spend(POST_ROOM, rates, PRICES)

    assert spend.tables == pytest.approx(100 * 0.125e-6 + 10 * 0.625e-6)
    assert spend.queues == pytest.approx(2 * 0.5e-6 + 2 * 0.4e-6)
    assert spend.objects == pytest.approx(0.4e-6 + 5e-6)
    assert spend.per_month == pytest.approx(spend.per_hour / 3600 * SECONDS_PER_MONTH)
    unpriced = compute_spend(POST_ROOM, rates, PRICES.model_copy(update={"queues": None, "objects": None}))
    assert (unpriced.queues, unpriced.objects) == (0.0, 0.0)


def test_plot_has_a_point_a_minute_and_gaps_where_nothing_was_sampled() -> None:
    def at(seconds: float, requests: float | None) -> Sample:
        rates = None if requests is None else Rates(requests=requests)
        return Sample(seconds, {"depot": SystemSample(rates=rates)})

    other = replace(DEPOT, name="other")
    plots = build_plots([at(60, 2.0), at(75, 4.0), at(200, 7.0), at(250, None)], [DEPOT, other], PRICES)

    requests = plots[0]
    assert list(requests.times)[-4:] == [60, 120, 180, 240]
    # The other system was not sampled, so it has no line.
    (series,) = requests.series
    assert (series["label"], series["values"][-4:]) == ("The depot", [3.0, None, 7.0, None])
    assert len(requests.times) == len(series["values"]) == 60
    assert set(series["values"][:-4]) == {None}
    assert build_plots([], [DEPOT], PRICES) == []


def test_sample_is_stored_and_read_as_it_was() -> None:
    sample = Sample(
        1.5,
        {
            "depot": SystemSample(
                processes=[ProcessState(URL, "no", {"sql": "slow"}, 3.0)],
                stores={"tables": ""},
                rates=Rates(requests=1.0, read_units={"Orders": 2.0}),
                queues={"parcels": QueueState(visible=1, dead=0)},
                flows={"f": FlowState(running=1)},
            )
        },
    )

    assert decode_sample(encode_sample(sample)) == sample
    assert decode_sample('{"at": "never"}') is None
    assert decode_sample("not JSON") is None
