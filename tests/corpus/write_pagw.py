"""Generator of the PAGW archive: requests in every stage, copied while workers and clients wait.

    python -m tests.corpus.write_pagw tests/corpus/v0_2

The gateway runs in this process, with the sandboxes of the payer, the token issuer and the client's server.
Requests stop where no worker takes the next message. Hanging calls produce the state that a killed process
leaves behind: the folder is copied while they hang.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2

from holdfast import Stores, open_stores, provision
from holdfast.guarantees import OnceStatus
from holdfast.model.entities import Scan
from holdfast.operations.queues import DeleteQueue, ReceiveMessages
from holdfast.runtime.system_provisioner import get_queue_reports
from holdfast.web.demo_env import wait_until
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.pagw.demo_processes import DemoProcesses, open_demo
from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    SampleAttachment,
    build_cancel_bundle,
    build_inquiry_bundle,
    build_request_bundle,
)
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED, PENDED_DENIED
from holdfast_demo.pagw.sandbox.payer_state import PayerState
from pagw.domain.fhir import urls
from pagw.domain.statuses import Stage as PipelineStage
from pagw.domain.statuses import Status
from pagw.model import delivery_patterns, patterns
from pagw.model.audit import Actor
from pagw.model.entities import ALL_QUEUES, QUEUES, IdempotencyRecord, pagw
from pagw.model.lookup import KEY_SECRET as LOOKUP_KEY
from pagw.ops import legal_holds
from pagw.system import SYSTEM
from pagw.workers.intake import Intake
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.snapshot import ENVIRONMENT, SERVICES, build_settings, copy_folder, open_clock, read_secrets
from tests.postgres import create_database

NAME: Final = "pagw"
TENANT: Final = "acme"
START: Final = datetime(2026, 11, 10, 10, tzinfo=UTC)
PUBLISHER: Final = "outboxpublisher"
NOTIFIER: Final = "pasnotifier"
ORDER: Final = tuple(QUEUES)
CONNECTOR: Final = PipelineStage.api_connector
# Longer than the time from the call to the copy.
SILENCE_S: Final = 20.0
# A payer that decides only on request.
NEVER_S: Final = 365 * 86_400.0
PAGE: Final = 2
# No server listens here.
CLOSED: Final = "http://127.0.0.1:9"
# Requests that clients repeat under the same keys.
REPEATED: Final = ("completed", "claimed", "tracked")


@dataclass
class Writer:
    """Gateway while it is filled, and the notes for the test."""

    stage: DemoProcesses
    data: Path
    url: str
    # By name: the id of each request, and its bundle under its idempotency key.
    ids: dict[str, str] = field(default_factory=dict)
    bundles: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def stores(self) -> Stores:
        return self.stage.stores

    # --- clients --------------------------------------------------------------------------------------------

    def make_bundle(self, name: str, code: str = "99213", npi: str = PROVIDER_NPIS[0]) -> dict[str, Any]:
        """Return a new request bundle, and remember it under its idempotency key."""
        number = len(self.bundles)
        self.bundles[name] = build_request_bundle(
            member=PEOPLE[number % len(PEOPLE)],
            npi=npi,
            items=(code,),
            attachments=(SampleAttachment(),) if number == 0 else (),
            reference=f"CORPUS-{name.upper()}",
        )
        return self.bundles[name]

    async def submit(self, name: str, bundle: dict[str, Any], callback: str | None = None) -> str:
        """Submit a bundle by the native API and return the id of the request."""
        headers = {"x_callback_url": callback} if callback else {}
        answer = await self.stage.request(
            TENANT, "POST", "/pas/requests", bundle, x_idempotency_key=name, **headers
        )
        assert answer.status_code == 202, answer.text
        self.ids[name] = str(answer.json()["pagwId"])
        return self.ids[name]

    async def get(self, path: str) -> dict[str, Any]:
        answer = await self.stage.request(TENANT, "GET", path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    @property
    def callback(self) -> str:
        return f"{self.stage.client_url}/callbacks/{TENANT}"

    # --- workers --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run_workers(self, *stages: PipelineStage, more: tuple[str, ...] = ()) -> AsyncIterator[Any]:
        """Run the publisher, the workers of these stages and `more` components while the block runs."""
        names = [each.service for each in stages]
        async with self.stage.run_workers(PUBLISHER, *names, *more) as work:
            yield work

    async def wait_until_at(self, name: str, stage: PipelineStage, status: Status | None = None) -> None:
        """Wait until the request is at `stage` and all its outbox rows are sent."""

        async def is_there() -> bool:
            found = await self.stage.load_trail(TENANT, self.ids[name])
            return (
                found.request.stage is stage
                and status in (None, found.request.status)
                and not any(not each.processed for each in found.outbox)
            )

        await wait_until(is_there, f"{name} at {stage}")

    async def run_on_queues(self, operation: Any) -> Any:
        """Run an operation on the queues engine."""
        return await self.stores.engines.get("queues").run(operation)


def main(folder: Path) -> None:
    """Fill a gateway, and pack a copy of its data folder and the notes for the test into `folder`."""
    url = create_database(pagw)
    with tempfile.TemporaryDirectory() as made:
        data, copy = Path(made) / "data", Path(made) / "copy"
        data.mkdir()
        notes = asyncio.run(_write(data, url, copy))
        pack(copy, folder / f"{NAME}{SUFFIX}")
        save_notes(folder, NAME, notes)


async def _write(data: Path, url: str, copy: Path) -> dict[str, Any]:
    """Open a gateway on a new data folder, fill it, copy it to `copy`, and return the notes."""
    clock = open_clock(data, start=START.timestamp())
    async with open_stores(SYSTEM, build_settings(data, url)) as stores:
        await provision(stores, SYSTEM)
        async with open_demo(stores, SYSTEM, clock) as stage:
            stage.payer.state = PayerState(clock, data / SERVICES)
            stage.payer.decide_after_s = NEVER_S
            writer = Writer(stage, data, url)
            await _fill(writer, copy)
            return writer.notes


async def _fill(writer: Writer, copy: Path) -> None:
    """Bring requests into every state, and copy the folder while two submissions and a call hang."""
    await _subscribe(writer)
    async with writer.stage.run_workers():
        await _complete(writer)
    # From here on no worker archives audit events: they wait in their queue.
    async with writer.run_workers(*ORDER, more=(NOTIFIER,)):
        await _cancel_twice(writer)
        await _pend(writer)
    await _bury_announcement(writer)
    await _lose_client(writer)
    await _bury_message(writer)
    for stage in reversed(ORDER[4:]):
        await _stop_before(writer, stage)
    await _call_back(writer)
    await _fail_at_payer(writer)
    async with _silence_payer(writer):
        for stage in reversed(ORDER[:4]):
            await _stop_before(writer, stage)
        with _hang_intake() as hanging:
            claims = await _claim_keys(writer, hanging)
            await _note(writer)
            copy_folder(writer.data, copy, url=writer.url, schema=pagw.name)
        await asyncio.gather(*claims, return_exceptions=True)


# --- finished requests --------------------------------------------------------------------------------------


async def _subscribe(writer: Writer) -> None:
    """Subscribe the clinic's server to the decisions of two organisations."""
    for name, npi in (("active", PROVIDER_NPIS[0]), ("off", PROVIDER_NPIS[1])):
        endpoint = f"{writer.stage.client_url}/notifications/{name}"
        answer = await writer.stage.request(
            TENANT, "POST", "/fhir/Subscription", _build_subscription(npi, endpoint)
        )
        assert answer.status_code == 201, answer.text
        writer.notes.setdefault("subscriptions", {})[name] = answer.json()["id"]


def _build_subscription(npi: str, endpoint: str) -> dict[str, Any]:
    """Return a FHIR subscription to the decisions about an organisation."""
    return {
        "resourceType": "Subscription",
        "meta": {"profile": [urls.BACKPORT_SUBSCRIPTION, urls.SUBSCRIPTION]},
        "status": "requested",
        "reason": "Decisions",
        "criteria": urls.TOPIC,
        "_criteria": {"extension": [{"url": urls.FILTER_CRITERIA, "valueString": f"org-identifier={npi}"}]},
        "channel": {
            "type": "rest-hook",
            "endpoint": endpoint,
            "payload": "application/fhir+json",
            "_payload": {"extension": [{"url": urls.PAYLOAD_CONTENT, "valueCode": "full-resource"}]},
        },
    }


async def _complete(writer: Writer) -> None:
    """Complete a request whose client has its answer and inquires after it. Place a legal hold on it."""
    answer = await writer.stage.submit(TENANT, writer.make_bundle("completed"), "completed")
    assert answer.status_code == 200, answer.text
    writer.ids["completed"] = answer.headers["x-pagw-id"]
    writer.notes["answer"] = answer.json()
    await writer.stage.wait_until_ended(TENANT, writer.ids["completed"])
    number = answer.json()["entry"][0]["resource"]["preAuthRef"]
    for by in ({"authorization_number": number}, {"claim_reference": "CORPUS-COMPLETED"}):
        inquiry = build_inquiry_bundle(**by)
        found = await writer.stage.request(TENANT, "POST", "/fhir/Claim/$inquire", inquiry)
        assert len(found.json()["parameter"]) == 1, found.text
        writer.notes.setdefault("inquiries", []).append({"bundle": inquiry, "answer": found.json()})
    writer.notes["held_files"] = await legal_holds.place_hold(
        writer.stores, writer.ids["completed"], "case 12", Actor("user", "counsel")
    )


async def _cancel_twice(writer: Writer) -> None:
    """Cancel a request. The payer refuses the second cancellation for good."""
    former = writer.make_bundle("cancelled")
    await writer.submit("cancelled", former)
    await writer.wait_until_at("cancelled", PipelineStage.done, Status.COMPLETED)
    for name in ("cancellation", "refused"):
        writer.bundles[name] = build_cancel_bundle(former, reference=f"CORPUS-{name.upper()}")
        await writer.submit(name, writer.bundles[name], writer.callback)
        await writer.wait_until_at(name, PipelineStage.done)


# --- waiting requests ---------------------------------------------------------------------------------------


async def _pend(writer: Writer) -> None:
    """Submit two requests that the payer leaves pending."""
    for name, code in (("pended", PENDED_APPROVED), ("called-back", PENDED_DENIED)):
        await writer.submit(name, writer.make_bundle(name, code), writer.callback)
        await writer.wait_until_at(name, PipelineStage.payer, Status.PENDED)


async def _call_back(writer: Writer) -> None:
    """Take a payer's callback whose message waits in the queue of the callback handler."""
    pagw_id = writer.ids["called-back"]
    assert writer.stage.payer.state.decide(pagw_id) is not None
    await wait_until(lambda: not writer.stage.payer.state.list_due_callbacks(), "the callback to be taken")
    async with writer.run_workers():
        await writer.wait_until_at("called-back", PipelineStage.payer)


async def _lose_client(writer: Writer) -> None:
    """Complete a request whose client is unreachable: a subscription is turned off, a callback is retried."""
    writer.stage.client.behaviour.is_gone = True
    async with writer.run_workers(*ORDER, more=(NOTIFIER,)):
        bundle = writer.make_bundle("untold", npi=PROVIDER_NPIS[1])
        await writer.submit("untold", bundle, f"{CLOSED}/callbacks/{TENANT}")

        async def is_tried() -> bool:
            found = await writer.stores.run(delivery_patterns.deliveries_of(TENANT, writer.ids["untold"]))
            return {(each.status, bool(each.attempts)) for each in found} == {
                ("waiting", True),
                ("given_up", True),
            }

        await wait_until(is_tried, "the first attempts of the deliveries")
        await writer.wait_until_at("untold", PipelineStage.done)
    writer.stage.client.behaviour.is_gone = False


# --- unsent and dead messages -------------------------------------------------------------------------------


async def _bury_announcement(writer: Writer) -> None:
    """Make the publisher give up one outbox row, and fail once on another: their queue is missing."""
    queue = QUEUES[PipelineStage.request_enricher].physical_name(ENVIRONMENT)
    await writer.run_on_queues(DeleteQueue(queue=queue))
    await writer.submit("buried", writer.make_bundle("buried"))
    for _ in range(patterns.OUTBOX.max_attempts):
        await _publish(writer)
        writer.stage.clock.advance(patterns.OUTBOX.max_retry_delay_s)
    await writer.submit("not-sent", writer.make_bundle("not-sent"))
    await _publish(writer)
    await provision(writer.stores, SYSTEM)


async def _publish(writer: Writer) -> None:
    """Publish until nothing is due."""
    publisher = writer.stores.for_component(PUBLISHER)
    while (await patterns.OUTBOX.send_unsent(publisher)).more:
        continue


async def _bury_message(writer: Writer) -> None:
    """Make a message a dead letter: its receivers never answered."""
    queue = QUEUES[PipelineStage.request_enricher]
    await writer.submit("dead", writer.make_bundle("dead"))
    async with writer.run_workers():
        await writer.wait_until_at("dead", PipelineStage.request_enricher)
    name = queue.physical_name(ENVIRONMENT)
    while await writer.run_on_queues(ReceiveMessages(queue=name, visibility_s=0.0)):
        continue
    assert (await count_queue_messages(writer.stores))[queue.name] == [0, 1]


async def _stop_before(writer: Writer, stage: PipelineStage) -> None:
    """Bring a request into the queue of a stage that no worker processes."""
    name = f"at-{stage}"
    async with writer.run_workers(*ORDER[: ORDER.index(stage)]):
        await writer.submit(name, writer.make_bundle(name), writer.callback)
        await writer.wait_until_at(name, stage)


# --- interrupted work ---------------------------------------------------------------------------------------


async def _fail_at_payer(writer: Writer) -> None:
    """Let the payer fail before it acts on one request and after it acts on another: both are retried."""
    faults = {"payer-down": Faults(failed_before=1.0), "payer-unsure": Faults(failed_after=1.0)}
    async with writer.run_workers(*ORDER[:4]):
        for name, fault in faults.items():
            writer.stage.payer.faults = fault
            await writer.submit(name, writer.make_bundle(name), writer.callback)
            await wait_until(partial(_is_counted, writer, name), f"the failed attempt of {name}")
    writer.stage.payer.faults = Faults()


async def _is_counted(writer: Writer, name: str) -> bool:
    """Return True if a failed attempt of the request is recorded."""
    found = await writer.stores.run(patterns.request(TENANT, writer.ids[name]))
    return found is not None and found.retry_count > 0


@asynccontextmanager
async def _silence_payer(writer: Writer) -> AsyncIterator[None]:
    """Keep a connector waiting for a payer that has acted, while the context is open."""
    name = "broken-off"
    writer.stage.payer.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
    async with writer.stage.run_workers(CONNECTOR.service) as connector:
        async with writer.run_workers(*ORDER[:3]):
            await writer.submit(name, writer.make_bundle(name), writer.callback)
            await wait_until(lambda: writer.stage.count_authorizations()[writer.ids[name]], "the payer")
        # It receives no further message, and is still busy with this one.
        connector.stop()
        yield
        connector.stop()


@dataclass
class Hanging:
    """The idempotency keys at which the intake has stopped, and an event that releases it."""

    reached: set[str] = field(default_factory=set)
    released: threading.Event = field(default_factory=threading.Event)

    async def at(self, key: str | None) -> None:
        """Note the key, wait until released, and cancel the caller."""
        self.reached.add(key or "")
        while not self.released.is_set():
            await asyncio.sleep(0.02)
        raise asyncio.CancelledError


@contextmanager
def _hang_intake() -> Iterator[Hanging]:
    """Stop the intake under the key `claimed` before it tracks the request, and under `tracked` after it."""
    hanging, track = Hanging(), Intake._track

    async def hang(self: Intake, asked: Any, *rest: Any) -> None:
        if asked.key == "claimed":
            await hanging.at(asked.key)
        await track(self, asked, *rest)
        if asked.key == "tracked":
            await hanging.at(asked.key)

    setattr(Intake, "_track", hang)  # noqa: B010
    try:
        yield hanging
    finally:
        hanging.released.set()
        setattr(Intake, "_track", track)  # noqa: B010


async def _claim_keys(writer: Writer, hanging: Hanging) -> list[asyncio.Task[httpx2.Response]]:
    """Begin two submissions that stop while their keys are claimed; return their tasks.

    The outbox rows of the second one are not sent.
    """
    tasks = []
    for name in ("claimed", "tracked"):
        asked = writer.stage.request(
            TENANT, "POST", "/pas/requests", writer.make_bundle(name), x_idempotency_key=name
        )
        tasks.append(asyncio.create_task(asked))
        await wait_until(partial(hanging.reached.__contains__, name), f"the claim of {name}")
        record = await writer.stores.run(patterns.submission(f"{TENANT}:{name}"))
        assert record is not None
        writer.ids[name] = record.pagw_id
    return tasks


# --- the notes ----------------------------------------------------------------------------------------------


async def _note(writer: Writer) -> None:
    """Note what clients have now: ids, bundles, cursors with what follows; and the state of everything."""
    stores = writer.stores
    writer.notes |= {
        "now": writer.stage.clock.now(),
        "tenant": TENANT,
        "secrets": read_secrets(LOOKUP_KEY),
        "ids": writer.ids,
        "bundles": {name: writer.bundles[name] for name in REPEATED},
        "clients": [writer.stage.client_url, CLOSED],
        "cursors": await _note_cursors(writer),
        "queues": await count_queue_messages(stores),
        "unsent": await list_unsent(stores),
    }


async def count_queue_messages(stores: Stores) -> dict[str, list[int]]:
    """Return the number of messages and dead letters of each queue."""
    reports = await get_queue_reports(stores, ALL_QUEUES)
    return {each.queue: [each.waiting.backlog, each.dead or 0] for each in reports}


async def list_unsent(stores: Stores) -> list[list[Any]]:
    """Return the outbox rows that are not sent: their request and their last failure."""
    found = await patterns.OUTBOX.list_unsent(stores)
    return [[each.aggregate, str(each.status), each.attempts, each.reason] for each in found]


async def _note_cursors(writer: Writer) -> dict[str, Any]:
    """Return for each list the path, the cursor of its first page, and the ids of all that follows it."""
    audit = f"/pas/requests/{writer.ids['completed']}/audit"
    return {
        "requests": await _note_rest(writer, f"/pas/requests?limit={PAGE}", "pagwId"),
        "completed": await _note_rest(writer, f"/pas/requests?limit={PAGE}&status=COMPLETED", "pagwId"),
        "audit": await _note_rest(writer, f"{audit}?limit={PAGE}", "eventUuid"),
        "keys": await _note_rest_of_keys(writer.stores),
    }


async def _note_rest(writer: Writer, path: str, id: str) -> dict[str, Any]:
    """Return the path, the cursor of its first page, and the ids of the following pages; `id` names the
    member.
    """
    page = await writer.get(path)
    cursor, rest = page["cursor"], list[str]()
    while page["cursor"] is not None:
        page = await writer.get(f"{path}&cursor={page['cursor']}")
        rest += [each[id] for each in page["items"]]
    assert cursor and rest, path
    return {"path": path, "id": id, "cursor": cursor, "rest": rest}


async def _note_rest_of_keys(stores: Stores) -> dict[str, Any]:
    """Return the cursor of the first page of keys, and the keys of the following pages."""
    first = await stores.run(scan_processed_keys(None))
    cursor, rest, page = first.cursor, list[str](), first
    while page.cursor is not None:
        page = await stores.run(scan_processed_keys(page.cursor))
        rest += [each.idempotency_key for each in page.items]
    assert cursor and rest
    return {"cursor": cursor, "rest": rest}


def scan_processed_keys(cursor: str | None) -> Scan[IdempotencyRecord]:
    """Return a filtered scan whose cursor is kept: the processed keys, a page at a time."""
    scan = IdempotencyRecord.scan(reason="The corpus keeps the cursor of a filtered scan.")
    return scan.where(IdempotencyRecord.status == OnceStatus.PROCESSED).page(PAGE, cursor)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
