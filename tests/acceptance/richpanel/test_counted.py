"""What the middleware counts while it works: copies, weak keys, automation, the time to a route, refusals, the backlog."""

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
from tests.acceptance.richpanel.stage import START, STATUS, Stage, run, staged


def counts_of(stage: Stage) -> Counter[tuple[str, ...]]:
    """From now on: by name and labels."""
    counts: Counter[tuple[str, ...]] = Counter()

    def hear(counted: Measurement) -> None:
        counts[(counted.name, *counted.labels.values())] += 1

    stage.stores.measurements.subscribe(hear)
    return counts


def test_copies_automation_and_the_time_to_a_route_are_counted() -> None:
    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            await stage.automate("email")
            payload = stage.write(STATUS)
            for _ in range(3):
                await stage.deliver(payload)
                await stage.work_off()
                stage.clock.advance(600)
            await stage.says("I want to talk to a human")
            assert (await stage.queue()).waiting.backlog == 1
            await stage.work_off()

            assert counts["duplicates_dropped", "copy"] == 2
            assert counts["events_processed", "automation_candidate", "yes"] == 1
            assert counts["events_processed", "route_only", "no"] == 1
            assert counts["seconds_to_route",] == 2

    run(test())


@pytest.mark.proves("RP-40")
def test_refusals_for_too_many_requests_are_counted_whatever_was_asked() -> None:
    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            await stage.says(STATUS)
            stage.fail(too_many=1.0, retry_after_s=0)
            pacing = build_pacer(stage.stores.for_component("worker"), stage.settings)
            assert await stage.attempt(stage.worker(HelpDeskClient(stage.desk_http, pacing))) == 0
            assert counts["too_many_requests",] == MAX_ATTEMPTS

    run(test())


@pytest.mark.proves("RP-40")
def test_failures_of_the_help_desk_are_counted_by_whether_they_may_have_had_an_effect() -> None:
    class Down(HelpDeskClient):
        async def assign(self, ticket_id: str, team: str, reference: str) -> dict[str, Any]:
            raise ExternalServiceFailed("It is closed.", may_be_done=False)

    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            await stage.says(STATUS)
            await stage.attempt(stage.worker(Down(stage.desk_http)))
            assert counts["party_failures", "false"] == 1
            stage.fail(failed_after=1.0)
            stage.clock.advance(60)
            await stage.attempt()
            assert counts["party_failures", "true"] == 1

    run(test())


@pytest.mark.proves("RP-11")
@pytest.mark.proves("RP-X7")
def test_a_copy_without_an_id_that_is_stamped_in_the_next_bucket_is_known_again() -> None:
    async def test() -> None:
        async with staged() as stage:
            counts = counts_of(stage)
            payload = stage.write("I can't log in") | {"text": "I can't log in"}
            del payload["message_id"]
            for minutes in (4, 6):
                created_at = (START + timedelta(minutes=minutes)).isoformat()
                assert (await stage.deliver(payload | {"created_at": created_at})).status_code == 200
                await stage.work_off()

            assert stage.effects == [("assign", "accounts"), ("tag", "mw-routed")]
            assert counts["fallback_keys_used", "text"] == 2
            assert counts["duplicates_dropped", "copy"] == 1

    run(test())


@pytest.mark.proves("RP-X7")
def test_the_same_words_an_hour_later_are_another_event() -> None:
    async def test() -> None:
        async with staged() as stage:
            for _ in range(2):
                payload = stage.write("I can't log in") | {"text": "I can't log in"}
                del payload["message_id"]
                await stage.deliver(payload)
                await stage.work_off()
                stage.clock.advance(3600)

            assert len(stage.effects) == 4

    run(test())
