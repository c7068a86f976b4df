"""Metrics of the middleware, against the sandbox: duplicates, fallback keys, automation, refusals."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed
from holdfast.runtime.telemetry.measurements import Measurement
from richpanel.integrations.clients import HelpDeskClient
from richpanel.integrations.rate_limits import MAX_ATTEMPTS
from richpanel.workers.worker import build_pacer
from tests.systems.richpanel.acceptance.middleware import START, STATUS, Middleware, run, start_middleware


def count_measurements(middleware: Middleware) -> Counter[tuple[str, ...]]:
    """Count measurements from now on, by name and labels."""
    counts: Counter[tuple[str, ...]] = Counter()

    def count(counted: Measurement) -> None:
        counts[(counted.name, *counted.labels.values())] += 1

    middleware.stores.measurements.subscribe(count)
    return counts


def test_counts_duplicates_automation_and_time_to_route() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            await middleware.enable_automation("email")
            payload = middleware.write(STATUS)
            for _ in range(3):
                await middleware.deliver(payload)
                await middleware.drain_queue()
                middleware.clock.advance(600)
            await middleware.send("I want to talk to a human")
            assert (await middleware.get_queue_report()).waiting.backlog == 1
            await middleware.drain_queue()

            assert counts["duplicates_dropped", "copy"] == 2
            assert counts["events_processed", "automation_candidate", "yes"] == 1
            assert counts["events_processed", "route_only", "no"] == 1
            assert counts["time_to_route_seconds",] == 2

    run(test())


@pytest.mark.proves("RP-40")
def test_counts_429s_of_every_call() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            await middleware.send(STATUS)
            middleware.set_faults(too_many=1.0, retry_after_s=0)
            pacing = build_pacer(middleware.stores.for_component("worker"), middleware.settings)
            assert (
                await middleware.attempt(
                    middleware.build_worker(HelpDeskClient(middleware.desk_http, pacing))
                )
                == 0
            )
            assert counts["too_many_requests",] == MAX_ATTEMPTS

    run(test())


@pytest.mark.proves("RP-40")
def test_counts_help_desk_failures_by_possible_effect() -> None:
    class FailingHelpDesk(HelpDeskClient):
        async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
            raise ExternalServiceFailed("It is closed.", may_be_done=False)

    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            await middleware.send(STATUS)
            await middleware.attempt(middleware.build_worker(FailingHelpDesk(middleware.desk_http)))
            assert counts["party_failures", "false"] == 1
            middleware.set_faults(failed_after=1.0)
            middleware.clock.advance(60)
            await middleware.attempt()
            assert counts["party_failures", "true"] == 1

    run(test())


@pytest.mark.proves("RP-11")
@pytest.mark.proves("RP-X7")
def test_copy_without_an_id_in_the_next_bucket_is_dropped_and_counted() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            counts = count_measurements(middleware)
            payload = middleware.write("I can't log in") | {"text": "I can't log in"}
            del payload["message_id"]
            for minutes in (4, 6):
                created_at = (START + timedelta(minutes=minutes)).isoformat()
                assert (await middleware.deliver(payload | {"created_at": created_at})).status_code == 200
                await middleware.drain_queue()

            assert middleware.effects == [("assign", "accounts"), ("tag", "mw-routed")]
            assert counts["fallback_keys_used", "text"] == 2
            assert counts["duplicates_dropped", "copy"] == 1

    run(test())


@pytest.mark.proves("RP-X7")
def test_same_words_an_hour_later_are_another_event() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            for _ in range(2):
                payload = middleware.write("I can't log in") | {"text": "I can't log in"}
                del payload["message_id"]
                await middleware.deliver(payload)
                await middleware.drain_queue()
                middleware.clock.advance(3600)

            assert len(middleware.effects) == 4

    run(test())
