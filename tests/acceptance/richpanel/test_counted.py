"""What the middleware counts while it works: copies, weak keys, automation, the time to a route, refusals, the backlog."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from holdfast.runtime.counting import Counted
from tests.acceptance.richpanel.stage import START, STATUS, Stage, run, staged


def counts_of(stage: Stage) -> Counter[tuple[str, ...]]:
    """From now on: by name and labels."""
    counts: Counter[tuple[str, ...]] = Counter()

    def hear(counted: Counted) -> None:
        counts[(counted.name, *counted.labels.values())] += 1

    stage.stores.counting.listen(hear)
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
            stage.fail(too_many=1.0, retry_after_s=1)
            await stage.attempt()
            stage.clock.advance(2)
            await stage.attempt()
            assert counts["too_many_requests",] == 2

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
            assert counts["duplicates_dropped", "fallback"] == 1

    run(test())


@pytest.mark.proves("RP-X7")
def test_the_same_words_an_hour_later_are_another_event() -> None:
    async def test() -> None:
        async with staged() as stage:
            payload = stage.write("I can't log in") | {"text": "I can't log in"}
            del payload["message_id"]
            for minutes in (4, 64):
                created_at = (START + timedelta(minutes=minutes)).isoformat()
                await stage.deliver(payload | {"created_at": created_at})
                await stage.work_off()

            assert len(stage.effects) == 4

    run(test())
