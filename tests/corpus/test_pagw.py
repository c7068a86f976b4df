"""PAGW on the data of each released version: its clients and its workers continue where they were.

The database is a PostgreSQL of the tests; the sandboxes are fresh.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast import Stores, open_stores, provision
from holdfast.core.errors import ObjectHeld
from holdfast.guarantees import OnceStatus
from holdfast.operations.queues import Redrive
from holdfast_demo.pagw import sandbox
from holdfast_demo.pagw.demo_processes import DemoProcesses, open_demo
from holdfast_demo.pagw.sample.bundles import build_inquiry_bundle
from holdfast_demo.pagw.sandbox.payer_state import AUTHORIZATION
from pagw.api import explain
from pagw.domain.statuses import Stage as PipelineStage
from pagw.model import delivery_patterns, patterns
from pagw.model.audit import Actor
from pagw.model.entities import QUEUES, IdempotencyRecord, RequestRow, original_bundle, pagw
from pagw.model.patterns import CALL_LEASE_S, SUBMISSION_LEASE_S
from pagw.ops import legal_holds, request_replay
from pagw.system import SYSTEM
from tests.corpus import database
from tests.corpus.archive import SUFFIX, list_releases_with, load_notes, unpack
from tests.corpus.idle_workers import settle
from tests.corpus.snapshot import ENVIRONMENT, SERVICES, SQL, build_settings, open_clock, use_secrets
from tests.corpus.write_pagw import NAME, count_queue_messages, list_unsent, scan_processed_keys
from tests.postgres import connect
from tests.systems.pagw.faults.pagw_processes import REPEATED, RecordingPayerState

OPERATOR: Final = Actor("user", "operator")
# The sandbox of the client's server has a new address.
MOVES: Final = (
    "UPDATE pagw.subscriptions SET endpoint = replace(endpoint, %(was)s, %(now)s)",
    "UPDATE pagw.deliveries SET target = replace(target, %(was)s, %(now)s)",
    """UPDATE pagw.request_tracker
       SET metadata = metadata || jsonb_build_object('callbackUrl', replace(metadata ->> 'callbackUrl', %(was)s, %(now)s))
       WHERE metadata ? 'callbackUrl'""",  # noqa: E501,
)
OPEN: Final = """
    SELECT (SELECT count(*) FROM pagw.outbox WHERE NOT processed),
           (SELECT count(*) FROM pagw.deliveries WHERE status = 'waiting'),
           (SELECT count(*) FROM pagw.request_tracker WHERE completed_at IS NULL)
"""
# The final status of each request; the others complete.
ENDS: Final = {"cancelled": "CANCELLED", "refused": "FAILED"}
# Statuses that a request may reach twice: while its payer decides, and after a replay.
REACHED_AGAIN: Final = {"PENDED", "FAILED"}
DECISIONS: Final = {"called-back": "denied", "cancellation": "cancelled", "refused": None}


@dataclass
class Gateway:
    """Gateway on the unpacked data, with fresh sandboxes. The payer remembers its earlier decisions."""

    stage: DemoProcesses
    url: str
    notes: dict[str, Any]

    @property
    def stores(self) -> Stores:
        return self.stage.stores

    @property
    def tenant(self) -> str:
        return str(self.notes["tenant"])

    def id(self, name: str) -> str:
        """Return the id of the request with this name in the notes."""
        return str(self.notes["ids"][name])

    async def get_request(self, name: str) -> RequestRow:
        """Return the row of the request with this name in the notes."""
        found = await self.stores.run(patterns.request(self.tenant, self.id(name)))
        assert found is not None, name
        return found

    async def get_record(self, key: str) -> IdempotencyRecord:
        """Return the idempotency record of the tenant's key."""
        found = await self.stores.run(patterns.submission(f"{self.tenant}:{key}"))
        assert found is not None, key
        return found

    async def submit_again(self, name: str) -> tuple[int, str | None]:
        """Repeat a submission under its key; return the status and the id of the request."""
        answer = await self.stage.request(
            self.tenant, "POST", "/pas/requests", self.notes["bundles"][name], x_idempotency_key=name
        )
        return answer.status_code, answer.json().get("pagwId")


@asynccontextmanager
async def open_gateway(folder: Path, url: str, notes: dict[str, Any]) -> AsyncIterator[Gateway]:
    """Open the stores on the data and start the sandboxes; stored addresses of the old ones are replaced."""
    clock = open_clock(folder)
    assert clock.now() == notes["now"]
    async with open_stores(SYSTEM, build_settings(folder, url)) as stores:
        await provision(stores, SYSTEM)
        async with open_demo(stores, SYSTEM, clock) as stage:
            stage.payer.state = RecordingPayerState(clock, folder / SERVICES)
            stage.payer.callbacks.url = f"{stage.url}/payer-callbacks/{sandbox.PAYER_ID}"
            with connect(url) as connection:
                for was in notes["clients"]:
                    for move in MOVES:
                        connection.execute(move, {"was": was, "now": stage.client_url})
            yield Gateway(stage, url, notes)


@pytest.fixture(params=list_releases_with(NAME), ids=lambda release: release.name)
def data(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, str, dict[str, Any]]:
    """Unpack a data folder, and return it with the URL of its database and its notes."""
    folder, notes = tmp_path / "data", load_notes(request.param, NAME)
    unpack(request.param / f"{NAME}{SUFFIX}", folder)
    use_secrets(monkeypatch, sandbox, notes["secrets"])
    return folder, database.load(folder / SQL, pagw), notes


def test_clients_cursors_inquiries_and_keys_continue(data: tuple[Path, str, dict[str, Any]]) -> None:
    async def play() -> None:
        async with open_gateway(*data) as opened:
            await _check_cursors(opened)
            await _check_completed_key(opened)
            await _check_inquiries(opened)
            await _check_claimed_keys(opened)

    asyncio.run(play())


def test_workers_finish_all_open_work_and_repeat_no_effect(data: tuple[Path, str, dict[str, Any]]) -> None:
    async def play() -> None:
        async with open_gateway(*data) as opened:
            await _check_stored_failures(opened)
            finished_before = await _list_finished_deliveries(opened)
            await _resume_work(opened)
            async with opened.stage.run_workers():
                await settle(opened.stage.clock, lambda: _list_open_work(opened))
            await _check_requests(opened)
            await _check_payer(opened)
            await _check_deliveries(opened, finished_before)
            await _check_hold(opened)

    asyncio.run(play())


# --- clients ------------------------------------------------------------------------------------------------


async def _check_cursors(opened: Gateway) -> None:
    """Check that each cursor leads to what followed it, and that the first page gives the same cursor."""
    for kept in (opened.notes["cursors"][name] for name in ("requests", "completed", "audit")):
        first = (await opened.stage.request(opened.tenant, "GET", kept["path"])).json()
        assert first["cursor"] == kept["cursor"]
        cursor, rest = kept["cursor"], list[str]()
        while cursor is not None:
            answer = await opened.stage.request(opened.tenant, "GET", f"{kept['path']}&cursor={cursor}")
            page = answer.json()
            rest += [each[kept["id"]] for each in page["items"]]
            cursor = page["cursor"]
        assert rest == kept["rest"]
    kept = opened.notes["cursors"]["keys"]
    assert (await opened.stores.run(scan_processed_keys(None))).cursor == kept["cursor"]
    found = [each async for each in opened.stores.each(scan_processed_keys(kept["cursor"]))]
    assert [each.idempotency_key for each in found] == kept["rest"]


async def _check_completed_key(opened: Gateway) -> None:
    """Check that a repeat gets the stored answer unchanged, and another bundle under the key is rejected."""
    again = await opened.stage.submit(opened.tenant, opened.notes["bundles"]["completed"], "completed")
    assert (again.status_code, again.headers.get("x-pagw-id")) == (200, opened.id("completed"))
    assert again.json() == opened.notes["answer"]
    other = await opened.stage.submit(opened.tenant, opened.notes["bundles"]["claimed"], "completed")
    assert other.status_code == 422


async def _check_inquiries(opened: Gateway) -> None:
    """Check that the keyed hashes of its numbers find a request, with the same answer."""
    for kept in opened.notes["inquiries"]:
        bundle = _conform(kept["bundle"])
        found = await opened.stage.request(opened.tenant, "POST", "/fhir/Claim/$inquire", bundle)
        assert found.json() == kept["answer"]


def _conform(inquiry: dict[str, Any]) -> dict[str, Any]:
    """Return an inquiry of a release that did not check the profiles as PAS 2.2.1 demands it."""
    bundle = deepcopy(inquiry)
    claim = bundle["entry"][0]["resource"]
    del claim["careTeam"]
    claim.setdefault("identifier", build_inquiry_bundle()["entry"][0]["resource"]["identifier"])
    coverage = next(
        each["resource"] for each in bundle["entry"] if each["resource"]["resourceType"] == "Coverage"
    )
    kind = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MB"}]}
    coverage["identifier"] = [{"type": kind, "value": coverage["subscriberId"]}]
    coverage["subscriber"] = coverage["beneficiary"]
    coverage["relationship"] = {"text": "self"}
    return bundle


async def _check_claimed_keys(opened: Gateway) -> None:
    """Check that a claimed key is refused until its lease ends, and that the request then keeps its id."""
    for name in ("claimed", "tracked"):
        assert (await opened.get_record(name)).status is OnceStatus.PROCESSING
        assert await opened.submit_again(name) == (409, None)
    opened.stage.clock.advance(SUBMISSION_LEASE_S + 1)
    for name in ("claimed", "tracked"):
        assert await opened.submit_again(name) == (202, opened.id(name))
        record = await opened.get_record(name)
        assert (record.status, record.attempts) == (OnceStatus.PROCESSED, 2)


# --- workers ------------------------------------------------------------------------------------------------


async def _check_stored_failures(opened: Gateway) -> None:
    """Check that stored failures of the earlier version are shown unchanged."""
    assert await list_unsent(opened.stores) == opened.notes["unsent"]
    assert await count_queue_messages(opened.stores) == opened.notes["queues"]
    for name in ("payer-down", "payer-unsure"):
        found = (await opened.stage.request(opened.tenant, "GET", f"/pas/requests/{opened.id(name)}")).json()
        assert (found["errorCode"], found["retryCount"]) == ("PartyFailed", 1)
    refused = await opened.get_record(f"{opened.id('refused')}#payer")
    assert (refused.refused, refused.error) == ("not_changeable", "PartyRefused (not_changeable)")
    for name in opened.notes["ids"]:
        if name != "claimed":
            await explain.why(opened.stores.for_component("operator"), opened.id(name))


async def _list_finished_deliveries(opened: Gateway) -> set[str]:
    """Return the ids of the finished deliveries."""
    with connect(opened.url) as connection:
        over = connection.execute("SELECT delivery_id FROM pagw.deliveries WHERE status <> 'waiting'")
        return {id for (id,) in over.fetchall()}


async def _resume_work(opened: Gateway) -> None:
    """Let every lease expire, then do what clients, operators and the payer do: repeat, redrive, replay,
    decide.
    """
    opened.stage.clock.advance(CALL_LEASE_S + 1)
    for name in ("claimed", "tracked"):
        assert await opened.submit_again(name) == (202, opened.id(name))
    assert await patterns.OUTBOX.redrive(opened.stores) == 1
    queue = QUEUES[PipelineStage.request_enricher]
    back = Redrive(
        source=queue.physical_name(ENVIRONMENT, dead_letter=True), target=queue.physical_name(ENVIRONMENT)
    )
    assert await opened.stores.engines.get("queues").run(back) == 1
    assert (
        await request_replay.replay(opened.stores, opened.id("refused"), OPERATOR)
        is PipelineStage.api_connector
    )
    assert opened.stage.payer.state.decide(opened.id("pended")) is not None


async def _list_open_work(opened: Gateway) -> Any:
    """Return the work that is still open; nothing when all is done."""
    queues = {
        name: counts for name, counts in (await count_queue_messages(opened.stores)).items() if any(counts)
    }
    with connect(opened.url) as connection:
        [rows] = connection.execute(OPEN).fetchall()
    return (queues, rows) if queues or any(rows) else None


async def _check_requests(opened: Gateway) -> None:
    """Check the end of every request: status, decision, archived audit, and each status reached once."""
    for name in opened.notes["ids"]:
        trail = await opened.stage.load_trail(opened.tenant, opened.id(name))
        wanted = (ENDS.get(name, "COMPLETED"), DECISIONS.get(name, "approved"))
        assert (trail.request.status, trail.request.decision) == wanted, name
        assert trail.archived == len(trail.audit), name
        steps = Counter(each.event_subtype for each in trail.audit if each.event_type == "STATUS")
        assert all(steps[each] == 1 for each in steps.keys() - REACHED_AGAIN), (name, steps)
        assert {each.status for each in trail.keys} <= {OnceStatus.PROCESSED, OnceStatus.FAILED}, name
        assert (await opened.get_record(name)).status is OnceStatus.PROCESSED


async def _check_payer(opened: Gateway) -> None:
    """Check that the payer acted once for each request, and was not asked again for finished ones."""
    ledger = opened.stage.payer.ledger
    acted = Counter(each["reference"] for each in ledger if each["what"] == AUTHORIZATION)
    assert acted == Counter(opened.id(name) for name in opened.notes["ids"] if name != "refused")
    assert [each for each in ledger if each["what"] == REPEATED] == []
    for name in ("broken-off", "payer-unsure", "payer-down"):
        assert (await opened.get_record(f"{opened.id(name)}#payer")).attempts > 1


async def _check_deliveries(opened: Gateway, finished_before: set[str]) -> None:
    """Check that each client received every open delivery once, and no finished one again."""
    found = [
        each
        for name in opened.notes["ids"]
        for each in await opened.stores.run(delivery_patterns.deliveries_of(opened.tenant, opened.id(name)))
    ]
    received = opened.stage.client.received
    assert {each.delivery_id for each in found} == finished_before | received.keys()
    assert not finished_before & received.keys()
    assert {each.bodies for each in received.values()} == {1}
    for wanted, id in opened.notes["subscriptions"].items():
        subscription = await opened.stores.run(delivery_patterns.subscription(opened.tenant, id))
        assert subscription is not None and subscription.status == wanted
    ended = Counter(each.status for each in found)
    assert ended == Counter(given_up=1, delivered=len(found) - 1)


async def _check_hold(opened: Gateway) -> None:
    """Check that the legal hold keeps the files until it is lifted."""
    [hold] = await opened.stores.run(legal_holds.holds())
    assert (hold.pagw_id, hold.reason) == (opened.id("completed"), "case 12")
    request = await opened.get_request("completed")
    delete = original_bundle.delete(created_at=request.created_at, pagw_id=request.pagw_id)
    with pytest.raises(ObjectHeld):
        await opened.stores.run(delete)
    assert await legal_holds.lift_hold(opened.stores, hold.pagw_id, OPERATOR) >= opened.notes["held_files"]
    await opened.stores.run(delete)
