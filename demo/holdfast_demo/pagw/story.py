"""PAGW's story at the terminal: requests of every kind, two of them interrupted, with their trails.

It runs in its own environment (`demo_processes`), prints the results and the number of operations, and raises
`AssertionError` if a result is wrong.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import scan_files
from holdfast.model.sql import SqlOne
from holdfast.model.ulids import UlidGenerator
from holdfast.web.demo_env import wait_until
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.pagw.demo_processes import DemoProcesses, open_demo
from holdfast_demo.pagw.request_trail import RequestTrail
from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    SampleAttachment,
    SampleItem,
    build_cancel_bundle,
    build_request_bundle,
)
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED
from pagw.domain.fhir import urls
from pagw.domain.statuses import Status
from pagw.model import patterns
from pagw.model.entities import RequestRow, Total, audit_events, notifications, pagw
from pagw.model.lookup import RequestLookup
from pagw.model.patterns import CALL_LEASE_S

TENANT: Final = "acme"
OTHER_TENANT: Final = "zenith"
OFFICE_VISIT: Final = "99213"
CONNECTOR: Final = "pasapiconnector"
PUBLISHER: Final = "outboxpublisher"
SILENCE_S: Final = 3.0
MAX_WIDTH: Final = 110
STORE_KINDS: Final = ("tables", "sql", "objects", "cache", "queues")
# Tables with rows per request. None may contain patient data.
TABLES: Final = (
    "request_tracker",
    "request_lookup",
    "audit_log",
    "outbox",
    "inbox",
    "subscriptions",
    "deliveries",
)
PATIENT_DATA: Final = tuple(secret for person in PEOPLE for secret in person.secrets)


@dataclass
class Story:
    """One run of the story. `name` prefixes its keys and claims, so that the story can run again."""

    demo: DemoProcesses
    console: Any
    name: str
    # Request id and bundle of each request, by its name in the story.
    requests: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    def build_key(self, name: str) -> str:
        """Return the idempotency key of a request of the story."""
        return f"{self.name}-{name}"

    def build_bundle(
        self, name: str, *items: str | SampleItem, person: int = 0, **more: Any
    ) -> dict[str, Any]:
        """Return the bundle of the story's request `name`. `person` is an index of `PEOPLE`; `more` goes to
        `build_request_bundle`.
        """
        return build_request_bundle(
            member=PEOPLE[person],
            items=items or (OFFICE_VISIT,),
            reference=self.build_key(name).upper(),
            **more,
        )


async def run_story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Run the story and print it to a Rich console. `folder` holds the stores' files, which are searched for
    patient data at the end. Raise `AssertionError` if a result is wrong.
    """
    if stores.system is None:
        raise AssertionError("The story needs stores that were opened for a system.")
    operations: Counter[str] = Counter()
    stores.observe(lambda usage: operations.update([usage.store]))
    async with open_demo(stores, stores.system, clock) as demo:
        run = Story(demo, console, f"story-{UlidGenerator(clock).new()[-6:].lower()}")
        _print_opening(console)
        async with demo.run_workers():
            subscription = await _subscribe(run)
            await _show_approved(run)
            await _show_denied(run)
            await _show_modified(run)
            await _show_pended(run)
            await _show_cancelled(run)
            await _show_invalid(run)
            await _show_repeated(run)
        await _show_interrupted(run)
        await _show_unsent(run)
        await _show_figures(run, operations)
        await _expect_status(demo.request(TENANT, "DELETE", f"/fhir/Subscription/{subscription}"), 204)
        await _scan_for_patients(run, folder)


def _print_opening(console: Any) -> None:
    console.rule("[bold]PAGW: prior authorisation without lost or repeated requests")
    console.print(
        "A sandbox payer, a token issuer and a client's server answer over HTTP. The gateway connects them; "
        "each of its stages has its own queue. Clinics of the tenant [bold]acme[/] request prior "
        "authorisations."
    )


# --- decisions ----------------------------------------------------------------------------------------------


async def _subscribe(story: Story) -> str:
    """Replace the subscriptions of earlier runs, whose servers are gone, by a new one. Return its id."""
    demo = story.demo
    found = (await _expect_status(demo.request(TENANT, "GET", "/fhir/Subscription"), 200)).json()
    for each in found.get("entry", []):
        await demo.request(TENANT, "DELETE", f"/fhir/Subscription/{each['resource']['id']}")
    endpoint = f"{demo.client_url}/notifications/{TENANT}"
    answer = await _expect_status(
        demo.request(TENANT, "POST", "/fhir/Subscription", _build_subscription(PROVIDER_NPIS[0], endpoint)),
        201,
    )
    created = answer.json()
    _expect(created["status"], "active")
    story.console.print(
        "The clinic's server subscribes to decisions. It answered the handshake and is notified of each from "
        "now on."
    )
    return str(created["id"])


async def _show_approved(story: Story) -> None:
    """Submit a request that the payer approves at once. Check its decision and its webhook."""
    story.console.rule("Approved")
    bundle = story.build_bundle("approved", attachments=(SampleAttachment(),))
    answer, found = await _submit(story, "approved", bundle)
    _expect((found.request.decision, found.request.status), ("approved", "COMPLETED"))
    story.console.print(
        f"The payer approves at once, as [bold]{answer['preAuthRef']}[/]. The same call returned the "
        "decision."
    )
    _show_trail(story, found)
    (delivery,) = found.deliveries
    received = story.demo.client.received[delivery.delivery_id]
    _expect((delivery.status, received.kind, received.bodies), ("delivered", "notification", 1))
    story.console.print(
        "The clinic's server was notified too, by a signed webhook whose id stays the same on every attempt."
    )


async def _show_denied(story: Story) -> None:
    """Submit a request that the payer denies at once, with a reason."""
    story.console.rule("Denied")
    answer, found = await _submit(story, "denied", story.build_bundle("denied", DENIED, person=1))
    _expect(found.request.decision, "denied")
    story.console.print(f"The response has the payer's reason, word for word: “{answer['disposition']}”")
    _show_trail(story, found)


async def _show_modified(story: Story) -> None:
    """Submit a request of which the payer allows half."""
    story.console.rule("Modified")
    asked = SampleItem(MODIFIED, quantity=12)
    answer, found = await _submit(story, "modified", story.build_bundle("modified", asked, person=2))
    _expect(found.request.decision, "modified")
    allowed = answer["addItem"][0]["quantity"]["value"]
    story.console.print(f"The clinic requested twelve visits; the payer allows [bold]{allowed:g}[/].")
    _show_trail(story, found)


async def _show_pended(story: Story) -> None:
    """Submit a request that the payer pends, advance the clock, and check the decision by callback."""
    demo, console = story.demo, story.console
    console.rule("Pended, then decided")
    bundle = story.build_bundle("pended", PENDED_APPROVED, person=3, urgency="expedited")
    answer = await _expect_status(demo.submit(TENANT, bundle, story.build_key("pended")), 200)
    pagw_id = answer.headers["x-pagw-id"]
    story.requests["pended"] = (pagw_id, bundle)
    _expect(_get_claim_response(answer)["outcome"], "queued")
    waiting = await _get_request(story, pagw_id)
    _expect(waiting.status, "PENDED")
    hours = (waiting.due_at - waiting.created_at).total_seconds() / 3600
    console.print(
        f"The payer pends the request. The clinic gets “queued” at once; the payer has [bold]{hours:g} "
        "hours[/], because the request is expedited. A minute passes (the clock is moved), the payer "
        "decides and sends a signed callback."
    )
    demo.clock.advance(demo.payer.decide_after_s + 1)
    found = await demo.wait_until_ended(TENANT, pagw_id)
    _expect((found.request.decision, "callbacks/callback_001.json" in found.files), ("approved", True))
    _show_trail(story, found)


async def _show_cancelled(story: Story) -> None:
    """Cancel the approved request with a new Claim."""
    console = story.console
    console.rule("Cancelled")
    earlier_id, bundle = story.requests["approved"]
    cancellation = build_cancel_bundle(bundle, reference=story.build_key("cancelled").upper())
    _, found = await _submit(story, "cancelled", cancellation)
    _expect(
        (found.request.kind, found.request.decision, found.request.replaces),
        ("cancel", "cancelled", earlier_id),
    )
    before = await story.demo.wait_until_ended(TENANT, earlier_id)
    _expect((before.request.status, before.statuses[-1]), ("CANCELLED", "CANCELLED"))
    console.print(
        "The clinic cancels the approved request with a new Claim that names it. The payer confirms; "
        f"[bold]{earlier_id}[/] becomes CANCELLED in the same transaction that stores this answer."
    )
    _show_trail(story, found)


# --- refusals -----------------------------------------------------------------------------------------------


async def _show_invalid(story: Story) -> None:
    """Submit an invalid NPI. Check that only an audit event is stored."""
    console = story.console
    console.rule("Invalid")
    wrong = PROVIDER_NPIS[0][:-1] + str((int(PROVIDER_NPIS[0][-1]) + 1) % 10)
    before = await _count_requests(story)
    answer = await story.demo.submit(
        TENANT, story.build_bundle("invalid", npi=wrong), story.build_key("invalid")
    )
    outcome = answer.json()
    _expect((answer.status_code in (400, 422), outcome["resourceType"]), (True, "OperationOutcome"))
    issue = outcome["issue"][0]
    console.print(f"An NPI with a wrong check digit: {answer.status_code}, with an OperationOutcome.")
    console.print(f"  {issue['code']}: {issue['diagnostics']}", markup=False)
    record_key = RequestLookup.open().build_idempotency_key(TENANT, story.build_key("invalid"))
    known = await story.demo.stores.run(patterns.submission(record_key))
    _expect((await _count_requests(story), known), (before, None))
    console.print("Only an audit event is stored: no key, no row, no file. The key may be used again.")


async def _show_repeated(story: Story) -> None:
    """Submit a bundle again, another bundle under its key, and read it as another tenant."""
    console, demo = story.console, story.demo
    console.rule("Repeated")
    pagw_id, bundle = story.requests["denied"]
    again = await _expect_status(demo.submit(TENANT, bundle, story.build_key("denied")), 200)
    _expect(again.headers["x-pagw-id"], pagw_id)
    console.print(
        f"The same bundle under the same key gets the same answer, [bold]{pagw_id}[/]; the payer is not "
        "called."
    )
    other = story.build_bundle("other", person=4)
    refused = await demo.submit(TENANT, other, story.build_key("denied"))
    _expect(refused.json()["resourceType"], "OperationOutcome")
    _expect(refused.status_code in (409, 422), True)
    console.print(
        f"Another bundle under that key is refused ({refused.status_code}): "
        f"[dim]{refused.json()['issue'][0]['diagnostics']}[/]"
    )
    foreign = await demo.request(OTHER_TENANT, "GET", f"/pas/requests/{pagw_id}")
    _expect(foreign.status_code, 404)
    console.print(f"For [bold]{OTHER_TENANT}[/], another tenant, this request does not exist (404).")


# --- interruptions ------------------------------------------------------------------------------------------


async def _show_interrupted(story: Story) -> None:
    """Stop the connector after the payer has acted and before it answers. A killed process leaves the same
    state.
    """
    console, demo = story.console, story.demo
    console.rule("Interrupted at the worst moment")
    async with demo.run_workers(without=(CONNECTOR,)):
        demo.payer.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
        async with demo.run_workers(CONNECTOR) as connector:
            pagw_id = await _submit_native(story, "broken-off")
            await wait_until(lambda: demo.count_authorizations()[pagw_id], "the payer")
            connector.stop()
            connector.stop()
        demo.payer.faults = Faults()
        _expect((await _get_request(story, pagw_id)).status, "CONVERTED")
        console.print(
            "The payer has decided, and the connector stops before the answer arrives. The gateway does not "
            "know what the payer did. (The story stops a task in this process. The tests kill real "
            "processes.)"
        )
        # A killed process releases nothing, so its claim must expire.
        demo.clock.advance(CALL_LEASE_S + 1)
        async with demo.run_workers(CONNECTOR):
            found = await demo.wait_until_ended(TENANT, pagw_id)
    call = next(each for each in found.keys if each.idempotency_key.endswith("#payer"))
    _expect((found.request.status, call.attempts, demo.count_authorizations()[pagw_id]), ("COMPLETED", 2, 1))
    console.print(
        "Another connector takes the message, finds the recorded intent of the first, and queries the payer "
        "before it submits: the payer has the request. Two attempts, [bold]one[/] authorisation."
    )
    _show_trail(story, found)


async def _show_unsent(story: Story) -> None:
    """Submit a request while the outbox publisher is stopped. Check that another publisher sends its
    messages.
    """
    console, demo = story.console, story.demo
    console.rule("Outbox not published")
    async with demo.run_workers(without=(PUBLISHER,)):
        pagw_id = await _submit_native(story, "unsent")
        found = await demo.load_trail(TENANT, pagw_id)
        _expect((found.request.status, found.unsent > 0), ("VALIDATED", True))
        console.print(
            f"The publisher is stopped. The native API accepts a request: 202, [bold]{pagw_id}[/]. Its row "
            "and "
            f"{found.unsent} outbox messages were written in one transaction."
        )
        async with demo.run_workers(PUBLISHER):
            found = await demo.wait_until_ended(TENANT, pagw_id)
            await _wait_until_archived(story)
    _expect((found.request.status, found.unsent), ("COMPLETED", 0))
    console.print("Another publisher starts, finds the messages and sends them in order. Nothing was lost.")
    _show_trail(story, found)


# --- results ------------------------------------------------------------------------------------------------


async def _show_figures(story: Story, operations: Counter[str]) -> None:
    """Check that the payer authorized each request once, and print the results and operations."""
    console, demo = story.console, story.demo
    console.rule("Summary")
    authorizations = demo.count_authorizations()
    ids = [pagw_id for pagw_id, _ in story.requests.values()]
    _expect({each: authorizations[each] for each in ids}, dict.fromkeys(ids, 1))
    _expect(set(authorizations.values()), {1})
    others = (
        f", and {len(authorizations) - len(ids)} more of the sample" if len(authorizations) > len(ids) else ""
    )
    console.print(
        f"The payer's ledger has the {len(ids)} requests of this story, [bold]each exactly once[/]{others}."
    )
    console.print(f"  {'request':<31}  {'name':<11} {'status':<10} the payer's decision", style="bold")
    for name, (pagw_id, _) in story.requests.items():
        request = await _get_request(story, pagw_id)
        cancelled = ", then cancelled" if request.status == Status.CANCELLED else ""
        console.print(f"  {pagw_id}  {name:<11} {request.status:<10} {request.decision}{cancelled}")
    calls = [each for each in demo.client.received.values() if each.pagw_id in ids]
    _expect({each.bodies for each in calls}, {1})
    console.print(f"The client's server received {len(calls)} delivery ids, each with one content.")
    counted = ", ".join(f"{operations[kind]:,} on {kind}" for kind in STORE_KINDS)
    console.print(f"The story used {sum(operations.values()):,} operations: {counted}.")


async def _scan_for_patients(story: Story, folder: Path) -> None:
    """Check that no patient data is outside of the objects. A planted value must be found, or the scan proves
    nothing.
    """
    for table in TABLES:
        total = await story.demo.stores.run(_count_rows_with_patients(table))
        _expect((table, 0 if total is None else total.count), (table, 0))
    files = [each for each in folder.iterdir() if each.is_file()]
    _expect([each.file for each in scan_files(files, needles=PATIENT_DATA) if each.kind == "needle"], [])
    planted = folder / "planted"
    planted.write_text(PATIENT_DATA[0])
    found = {each.kind for each in scan_files([planted], needles=PATIENT_DATA)}
    planted.unlink()
    _expect("needle" in found, True)
    story.console.print(
        f"Searched {len(TABLES)} SQL tables, the keys and the queues for all patients' names, member ids and "
        "addresses: [bold]nothing found[/]. A planted value is found."
    )


def _count_rows_with_patients(table: str) -> SqlOne[Total]:
    """Build the query that counts the rows of a table that contain patient data."""
    return pagw.one(
        Total,
        f"SELECT count(*) AS count FROM pagw.{table} AS found WHERE found::text LIKE "
        "ANY(%(needles)s::text[])",
        needles=tuple(f"%{each}%" for each in PATIENT_DATA),
    )


# --- helpers ------------------------------------------------------------------------------------------------


async def _submit(story: Story, name: str, bundle: Mapping[str, Any]) -> tuple[dict[str, Any], RequestTrail]:
    """`$submit` a bundle. Return the ClaimResponse, and the trail when the request has ended."""
    answer = await _expect_status(story.demo.submit(TENANT, bundle, story.build_key(name)), 200)
    pagw_id = answer.headers["x-pagw-id"]
    story.requests[name] = (pagw_id, bundle)
    return _get_claim_response(answer), await story.demo.wait_until_ended(TENANT, pagw_id)


async def _wait_until_archived(story: Story) -> None:
    """Wait until the audit of every request of this run is sent and archived."""
    demo = story.demo

    async def is_archived() -> bool:
        requests = await demo.stores.run(patterns.requests_of(TENANT, limit=1000))
        # Ids are in the order of time.
        first = min(pagw_id for pagw_id, _ in story.requests.values())
        own = [each for each in requests if each.pagw_id >= first]
        trails = [await demo.load_trail(TENANT, each.pagw_id) for each in own]
        return all(not each.unsent and each.archived == len(each.audit) for each in trails)

    await wait_until(is_archived, "the audit archive")


async def _submit_native(story: Story, name: str) -> str:
    """Submit a request by the native API with a callback address. Return its id."""
    bundle = story.build_bundle(name, person=4)
    headers = {
        "x_idempotency_key": story.build_key(name),
        "x_callback_url": f"{story.demo.client_url}/callbacks/{TENANT}",
    }
    answer = await _expect_status(story.demo.request(TENANT, "POST", "/pas/requests", bundle, **headers), 202)
    pagw_id = str(answer.json()["pagwId"])
    story.requests[name] = (pagw_id, bundle)
    return pagw_id


def _show_trail(story: Story, found: RequestTrail) -> None:
    """Print the trail of a request, store by store."""
    lines = {
        "tables": ", ".join(f"{each.idempotency_key} {each.status}" for each in found.keys),
        "SQL": f"{' → '.join(found.statuses)}; {len(found.audit)} audit rows, {len(found.inbox)} inbox rows",
        "outbox": _format_outbox(found),
        "objects": f"{', '.join(found.files)}; {found.archived} audit files",
        "cache": ", ".join(found.cached),
    }
    for store, line in lines.items():
        width = min(story.console.width, MAX_WIDTH)
        filled = textwrap.fill(
            line,
            width,
            initial_indent=f"  {store:<8} ",
            subsequent_indent=" " * 11,
            break_on_hyphens=False,
            break_long_words=False,
        )
        story.console.print(filled, markup=False, style="dim", soft_wrap=True)


def _format_outbox(found: RequestTrail) -> str:
    """Format the numbers of outbox messages by receiver."""
    queues = Counter(each.queue_name for each in found.outbox)
    audit, clients = queues.pop(audit_events.name, 0), queues.pop(notifications.name, 0)
    counts = [f"{queues.total()} messages to stages", f"{audit} to the audit archive"]
    return ", ".join([*counts, f"{clients} to the notifier"] if clients else counts) + ", all sent"


async def _get_request(story: Story, pagw_id: str) -> RequestRow:
    """Return a request of the story's tenant. Raise `AssertionError` if it does not exist."""
    found = await story.demo.stores.run(patterns.request(TENANT, pagw_id))
    if found is None:
        raise AssertionError(f"Request {pagw_id} not found.")
    return found


async def _count_requests(story: Story) -> int:
    """Return the number of the tenant's requests, at most 1000."""
    return len(await story.demo.stores.run(patterns.requests_of(TENANT, limit=1000)))


def _get_claim_response(answer: httpx2.Response) -> dict[str, Any]:
    """Return the first resource of a response Bundle."""
    resource: dict[str, Any] = answer.json()["entry"][0]["resource"]
    return resource


def _build_subscription(npi: str, endpoint: str) -> dict[str, Any]:
    """Build a Subscription to the decisions of the clinic with this NPI."""
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


async def _expect_status(request: Any, status: int) -> httpx2.Response:
    """Await `request` and return its response. Raise `AssertionError` if its status is another."""
    answer: httpx2.Response = await request
    if answer.status_code != status:
        raise AssertionError(f"{answer.request.url} answered {answer.status_code}: {answer.text}")
    return answer


def _expect(found: Any, expected: Any) -> None:
    """Raise `AssertionError` if a result is not the expected one."""
    if found != expected:
        raise AssertionError(f"Unexpected result {found!r}: expected {expected!r}.")
