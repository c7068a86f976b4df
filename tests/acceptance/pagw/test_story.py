"""The story of `holdfast demo pagw`: told to its end, on the sample, and once more on the same data. What it claims is looked
for in the stores and with the parties, and not in its words.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast import Stores, open_stores
from holdfast.cli.stories.system_stories import build_story_settings
from holdfast.core.clock import RunClock
from pagw.demo import story
from pagw.demo.demo_processes import DemoProcesses, open_demo
from pagw.demo.request_trail import RequestTrail, load_trail
from pagw.model import files, patterns
from pagw.model.entities import RequestRow, pagw
from pagw.system import SYSTEM
from tests.postgres import fresh_database

TENANT = story.TENANT
ON_ITS_WAY = ("RECEIVED", "PARSED", "VALIDATED", "ENRICHED", "ATTACHMENTS_PROCESSED", "CONVERTED")
TO_THE_END = ("SUBMITTED", "RESPONSE_BUILT", "CALLBACK_SENT", "COMPLETED")
STAGES = ("enricher", "attachment-handler", "converter", "connector", "builder", "callback", "subscription")


@dataclass
class Telling:
    """One telling, after it: what the parties had seen when it ended, and the trails of its requests by their claims."""

    text: str
    payer: Counter[str]
    client: dict[str, Any]
    trails: dict[str, RequestTrail]

    def of(self, name: str) -> RequestTrail:
        return next(trail for key, trail in self.trails.items() if key.endswith(f"-{name}"))


class World:
    """The stores on which it is told, with the sample, and each telling. Everything is read before the stores close."""

    def __init__(self) -> None:
        self.tellings: list[Telling] = []
        self.denial: dict[str, Any] = {}
        self.refusals: list[dict[str, Any]] = []
        self.invalid: object = "not looked for"
        self.sampled = 0

    async def play(self, folder: Path, sql: str, watch: Any) -> None:
        settings = replace(build_story_settings(SYSTEM, folder), sql=sql)
        async with open_stores(SYSTEM, settings) as stores:
            assert SYSTEM.sample is not None
            self.sampled = await SYSTEM.sample(stores, scale=0.5)
            for _ in range(2):
                self.tellings.append(await _told(stores, folder, watch, self._known()))
            denied = self.tellings[1].of("denied").request
            kept = await stores.run(files.response(denied.created_at, denied.pagw_id))
            self.denial = json.loads(kept.body)["entry"][0]["resource"]
            self.refusals = await _refusals(stores)
            key = self.tellings[1].of("denied").keys[0].idempotency_key.replace("-denied", "-invalid")
            self.invalid = await stores.run(patterns.submission(key))

    def _known(self) -> set[str]:
        return {each.request.pagw_id for told in self.tellings for each in told.trails.values()}


async def _told(stores: Stores, folder: Path, watch: Any, known: set[str]) -> Telling:
    said = StringIO()
    assert isinstance(stores.clock, RunClock)
    await story.run_story(stores, Console(file=said, width=100), stores.clock, folder)
    (stage,) = watch.stages[-1:]
    assert isinstance(stage, DemoProcesses)
    requests: tuple[RequestRow, ...] = await stores.run(patterns.requests_of(TENANT, limit=1000))
    own = [
        each
        for each in requests
        if ":story-" in each.metadata.get("idempotencyKey", "") and each.pagw_id not in known
    ]
    trails = {each.metadata["idempotencyKey"]: await load_trail(stores, TENANT, each.pagw_id) for each in own}
    return Telling(said.getvalue(), stage.count_authorizations(), stage.client.received, trails)


async def _refusals(stores: Stores) -> list[dict[str, Any]]:
    until = datetime.fromtimestamp(stores.clock.now() + 1, UTC)
    rows = await stores.run(
        patterns.audit_between(TENANT, datetime.fromtimestamp(0, UTC), until, limit=10_000)
    )
    return [each.details or {} for each in rows if each.event_type == "REFUSED"]


class Watch:
    """Keeps the stages that the story plays on."""

    def __init__(self) -> None:
        self.stages: list[DemoProcesses] = []

    @asynccontextmanager
    async def staged(self, *given: Any) -> AsyncIterator[DemoProcesses]:
        async with open_demo(*given) as stage:
            self.stages.append(stage)
            yield stage


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    watch, played = Watch(), World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story, "open_demo", watch.staged)
        asyncio.run(played.play(tmp_path_factory.mktemp("story"), fresh_database(pagw), watch))
    return played


def test_it_is_told_to_its_end_on_the_sample_and_again_on_the_same_data(world: World) -> None:
    assert world.sampled > 6
    assert [len(told.trails) for told in world.tellings] == [7, 7]
    assert all("nothing found" in told.text for told in world.tellings)


@pytest.mark.proves("PG-43")
@pytest.mark.proves("PG-44")
@pytest.mark.parametrize(
    ("name", "kind", "status", "decision"),
    [
        ("approved", "submit", "CANCELLED", "approved"),
        ("denied", "submit", "COMPLETED", "denied"),
        ("modified", "submit", "COMPLETED", "modified"),
        ("pended", "submit", "COMPLETED", "approved"),
        ("cancelled", "cancel", "COMPLETED", "cancelled"),
        ("broken-off", "submit", "COMPLETED", "approved"),
        ("unsent", "submit", "COMPLETED", "approved"),
    ],
)
def test_each_request_ends_as_it_is_told(
    world: World, name: str, kind: str, status: str, decision: str
) -> None:
    for told in world.tellings:
        found = told.of(name)
        assert (found.request.kind, found.request.status, found.request.decision) == (kind, status, decision)
        waits = ("PENDED",) if name == "pended" else ()
        ends = ("CANCELLED",) if status == "CANCELLED" else ()
        assert found.statuses == (*ON_ITS_WAY, *waits, *TO_THE_END, *ends)


@pytest.mark.proves("PG-1")
@pytest.mark.proves("PG-57")
def test_each_has_its_trail_in_all_stores(world: World) -> None:
    for found in [trail for told in world.tellings for trail in told.trails.values()]:
        client, call = found.keys
        assert (client.pagw_id, call.pagw_id) == (found.request.pagw_id, found.request.pagw_id)
        assert client.response_key == found.request.s3_response_key
        assert {"request/original_bundle.json", "response/fhir_claim_response.json"} <= set(found.files)
        assert (found.unsent, found.archived) == (0, len(found.audit))
        assert len({(each.consumer, each.message_id) for each in found.inbox}) >= len(STAGES) + 1
        assert any(each.startswith("payer:") for each in found.cached)


def test_the_payer_acted_once_for_each_also_for_what_was_broken_off(world: World) -> None:
    for told in world.tellings:
        assert {told.payer[each.request.pagw_id] for each in told.trails.values()} == {1}
        assert set(told.payer.values()) == {1}
        *_, call = told.of("broken-off").keys
        assert call.attempts == 2


@pytest.mark.proves("PG-X2")
def test_a_denial_has_its_reason_in_the_answer_that_is_kept(world: World) -> None:
    assert world.denial["disposition"] == "The service is cosmetic, and the plan does not cover it."


def test_the_pended_one_was_decided_by_a_callback_later_than_it_was_answered(world: World) -> None:
    for told in world.tellings:
        found = told.of("pended")
        assert {"callbacks/callback_001.json", "response/fhir_claim_response_pended.json"} <= set(found.files)
        assert found.request.decided_at is not None
        assert (found.request.decided_at - found.request.created_at).total_seconds() > 60


def test_of_the_invalid_one_there_is_nothing_but_its_audit(world: World) -> None:
    assert world.invalid is None
    codes = [code for each in world.refusals for code in each["codes"]]
    assert codes.count("business-rule") == 2


def test_the_client_was_told_of_every_decision_under_one_id_each(world: World) -> None:
    for told in world.tellings:
        for found in told.trails.values():
            for each in found.deliveries:
                received = told.client[each.delivery_id]
                assert (each.status, received.pagw_id, received.bodies) == (
                    "delivered",
                    found.request.pagw_id,
                    1,
                )
        own = {found.request.pagw_id for found in told.trails.values()}
        kinds = Counter(each.kind for each in told.client.values() if each.pagw_id in own)
        assert kinds == {"notification": 7, "callback": 2}
