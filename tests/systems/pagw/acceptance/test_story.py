"""Story of `holdfast demo pagw`, run twice on one sample and checked in the stores, not in its text."""

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
from holdfast_demo.pagw import story
from holdfast_demo.pagw.demo import DEMO
from holdfast_demo.pagw.demo_processes import DemoProcesses, open_demo
from holdfast_demo.pagw.request_trail import RequestTrail, load_trail
from holdfast_demo.pagw.sandbox import build_variables
from pagw.domain.fhir.claims import parse_claim
from pagw.model import files, patterns
from pagw.model.entities import RequestRow, pagw
from pagw.system import SYSTEM
from tests.postgres import create_database
from tests.systems.pagw.documented_order import STAGES, STATUSES_AFTER_THE_PAYER, STATUSES_BEFORE_THE_PAYER
from tests.systems.pagw.idempotency_keys import build_idempotency_key

TENANT = story.TENANT


@dataclass
class StoryRun:
    """One finished run: what the external services saw, and the trails of its requests by their keys."""

    text: str
    payer: Counter[str]
    client: dict[str, Any]
    trails: dict[str, RequestTrail]

    def get_trail(self, name: str) -> RequestTrail:
        """Return the trail of the story's request with this name."""
        return next(trail for key, trail in self.trails.items() if key.endswith(f"-{name}"))


class StoryRuns:
    """Runs of the story on stores with the sample. Everything is read before the stores close."""

    def __init__(self) -> None:
        self.runs: list[StoryRun] = []
        self.denial: dict[str, Any] = {}
        self.refusals: list[dict[str, Any]] = []
        self.invalid: object = "not looked for"
        self.sampled = 0

    async def run_all(self, folder: Path, sql: str, watch: Any) -> None:
        """Load the sample, run the story twice, and read what the tests check."""
        settings = replace(build_story_settings(SYSTEM, folder), sql=sql)
        async with open_stores(SYSTEM, settings) as stores:
            assert DEMO.sample is not None
            self.sampled = await DEMO.sample(stores, scale=0.5)
            for _ in range(2):
                self.runs.append(await _run_once(stores, folder, watch, self._list_known_ids()))
            denied = self.runs[1].get_trail("denied").request
            kept = await stores.run(files.response(denied.created_at, denied.pagw_id))
            self.denial = json.loads(kept.body)["entry"][0]["resource"]
            self.refusals = await _list_refusals(stores)
            [denied_key] = [each for each in self.runs[1].trails if each.endswith("-denied")]
            secrets = build_variables({"payer": ""}, "http://127.0.0.1:9")
            for name, is_known in (("-denied", True), ("-invalid", False)):
                key = build_idempotency_key(TENANT, denied_key.replace("-denied", name), secrets)
                self.invalid = await stores.run(patterns.submission(key))
                assert (self.invalid is not None) == is_known

    def _list_known_ids(self) -> set[str]:
        return {each.request.pagw_id for run in self.runs for each in run.trails.values()}


async def _run_once(stores: Stores, folder: Path, watch: Any, known: set[str]) -> StoryRun:
    """Run the story and return it with the trails of its requests, without those in `known`."""
    said = StringIO()
    assert isinstance(stores.clock, RunClock)
    await story.run_story(stores, Console(file=said, width=100), stores.clock, folder)
    (stage,) = watch.demos[-1:]
    assert isinstance(stage, DemoProcesses)
    requests: tuple[RequestRow, ...] = await stores.run(patterns.requests_of(TENANT, limit=1000))
    named = {await _read_name(stores, each): each for each in requests if each.pagw_id not in known}
    own = {name: each for name, each in named.items() if name.startswith("story-")}
    trails = {name: await load_trail(stores, TENANT, each.pagw_id) for name, each in own.items()}
    return StoryRun(said.getvalue(), stage.count_authorizations(), stage.client.received, trails)


async def _read_name(stores: Stores, request: RequestRow) -> str:
    """Return the identifier of a request's claim, which is the story's key in capitals."""
    stored = await stores.run(files.bundle(request.created_at, request.pagw_id))
    identifier = parse_claim(json.loads(stored.body)).claim_identifier
    return "" if identifier is None else identifier.value.lower()


async def _list_refusals(stores: Stores) -> list[dict[str, Any]]:
    """Return the details of the tenant's refused calls."""
    until = datetime.fromtimestamp(stores.clock.now() + 1, UTC)
    rows = await stores.run(
        patterns.audit_between(TENANT, datetime.fromtimestamp(0, UTC), until, limit=10_000)
    )
    return [each.details or {} for each in rows if each.event_type == "REFUSED"]


class DemoRecorder:
    """Recorder of the demos that the story opens."""

    def __init__(self) -> None:
        self.demos: list[DemoProcesses] = []

    @asynccontextmanager
    async def open(self, *given: Any) -> AsyncIterator[DemoProcesses]:
        """Open the demo as `open_demo` does, and record it."""
        async with open_demo(*given) as stage:
            self.demos.append(stage)
            yield stage


@pytest.fixture(scope="module")
def story_runs(tmp_path_factory: pytest.TempPathFactory) -> StoryRuns:
    watch, played = DemoRecorder(), StoryRuns()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story, "open_demo", watch.open)
        asyncio.run(played.run_all(tmp_path_factory.mktemp("story"), create_database(pagw), watch))
    return played


def test_story_runs_on_the_sample_and_again_on_the_same_data(story_runs: StoryRuns) -> None:
    assert story_runs.sampled > 6
    assert [len(run.trails) for run in story_runs.runs] == [7, 7]
    assert all("nothing found" in run.text for run in story_runs.runs)


@pytest.mark.proves("PG-43", "PG-44")
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
def test_each_request_ends_as_the_story_says(
    story_runs: StoryRuns, name: str, kind: str, status: str, decision: str
) -> None:
    for run in story_runs.runs:
        found = run.get_trail(name)
        assert (found.request.kind, found.request.status, found.request.decision) == (kind, status, decision)
        waits = ("PENDED",) if name == "pended" else ()
        ends = ("CANCELLED",) if status == "CANCELLED" else ()
        assert found.statuses == (*STATUSES_BEFORE_THE_PAYER, *waits, *STATUSES_AFTER_THE_PAYER, *ends)


@pytest.mark.proves("PG-1", "PG-57")
def test_each_request_has_its_trail_in_all_stores(story_runs: StoryRuns) -> None:
    for found in [trail for run in story_runs.runs for trail in run.trails.values()]:
        client, call = found.keys
        assert (client.pagw_id, call.pagw_id) == (found.request.pagw_id, found.request.pagw_id)
        assert client.response_key == found.request.s3_response_key
        assert {"request/original_bundle.json", "response/fhir_claim_response.json"} <= set(found.files)
        assert (found.unsent, found.archived) == (0, len(found.audit))
        assert len({(each.consumer, each.message_id) for each in found.inbox}) >= len(STAGES) + 1
        assert any(each.startswith("payer:") for each in found.cached)


def test_payer_acts_once_per_request_even_after_an_interruption(story_runs: StoryRuns) -> None:
    for run in story_runs.runs:
        assert {run.payer[each.request.pagw_id] for each in run.trails.values()} == {1}
        assert set(run.payer.values()) == {1}
        *_, call = run.get_trail("broken-off").keys
        assert call.attempts == 2


@pytest.mark.proves("PG-X2")
def test_stored_denial_carries_its_reason(story_runs: StoryRuns) -> None:
    assert story_runs.denial["disposition"] == "The service is cosmetic, and the plan does not cover it."


def test_later_callback_decides_the_pended_request(story_runs: StoryRuns) -> None:
    for run in story_runs.runs:
        found = run.get_trail("pended")
        assert {"callbacks/callback_001.json", "response/fhir_claim_response_pended.json"} <= set(found.files)
        assert found.request.decided_at is not None
        assert (found.request.decided_at - found.request.created_at).total_seconds() > 60


def test_invalid_request_leaves_only_its_audit(story_runs: StoryRuns) -> None:
    assert story_runs.invalid is None
    codes = [code for each in story_runs.refusals for code in each["codes"]]
    assert codes.count("invariant") == 2


def test_client_is_notified_of_every_decision_under_one_id(story_runs: StoryRuns) -> None:
    for run in story_runs.runs:
        for found in run.trails.values():
            for each in found.deliveries:
                received = run.client[each.delivery_id]
                assert (each.status, received.pagw_id, received.bodies) == (
                    "delivered",
                    found.request.pagw_id,
                    1,
                )
        own = {found.request.pagw_id for found in run.trails.values()}
        kinds = Counter(each.kind for each in run.client.values() if each.pagw_id in own)
        assert kinds == {"notification": 7, "callback": 2}
