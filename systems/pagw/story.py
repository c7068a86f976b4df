"""PAGW's story, told at the terminal: requests of every kind, each with its trail across the stores, and two that die on
the way and arrive all the same.

It plays on a stage of its own (`stage.py`), prints what happened and what it cost, and raises where something is not as
it should be.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from holdfast import SqlOne, Stores, Ulids
from holdfast.clock import RunClock
from holdfast.guarantees import scan_files
from holdfast.web.sandboxes import Faults
from holdfast.web.staging import until
from pagw import patterns
from pagw.fhir import urls
from pagw.model import Total, Tracked, audit_events, notifications, pagw
from pagw.patterns import CALL_LEASE_S
from pagw.sample_bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    SampleAttachment,
    SampleItem,
    cancel_bundle,
    request_bundle,
)
from pagw.sandbox.payer_rules import DENIED, MODIFIED, PENDED_APPROVED
from pagw.stage import Stage, staged
from pagw.statuses import Status
from pagw.trail import Trail

TENANT: Final = "acme"
OTHER: Final = "zenith"
OFFICE_VISIT: Final = "99213"
CONNECTOR: Final = "pasapiconnector"
PUBLISHER: Final = "outboxpublisher"
SILENCE_S: Final = 3.0
WIDTH_MAX: Final = 110
ROOMS: Final = ("tables", "sql", "objects", "cache", "queues")
# Where rows stand; none of it may know a patient.
TABLES: Final = (
    "request_tracker",
    "request_lookup",
    "audit_log",
    "outbox",
    "inbox",
    "subscriptions",
    "deliveries",
)
NEEDLES: Final = tuple(secret for person in PEOPLE for secret in person.secrets)


@dataclass
class Story:
    """One telling: its stage, its console, and a name that keys and claims begin with, so that it can be told again."""

    stage: Stage
    console: Any
    name: str
    # By what each is told as: the id of the request and the bundle it came with.
    told: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)

    def key(self, of: str) -> str:
        return f"{self.name}-{of}"

    def bundle(self, of: str, *items: str | SampleItem, person: int = 0, **more: Any) -> dict[str, Any]:
        return request_bundle(
            member=PEOPLE[person], items=items or (OFFICE_VISIT,), reference=self.key(of).upper(), **more
        )


async def story(stores: Stores, console: Any, clock: RunClock, folder: Path) -> None:
    """Tells it to a Rich console."""
    if stores.system is None:
        raise AssertionError("The story is of a system, and these stores have none.")
    operations: Counter[str] = Counter()
    stores.observe(lambda usage: operations.update([usage.store]))
    async with staged(stores, stores.system, clock) as stage:
        told = Story(stage, console, f"story-{Ulids(clock).new()[-6:].lower()}")
        _opening(console)
        async with stage.at_work():
            subscription = await _subscribed(told)
            await _approved(told)
            await _denied(told)
            await _modified(told)
            await _pended(told)
            await _cancelled(told)
            await _invalid(told)
            await _repeated(told)
        await _broken_off(told)
        await _unsent(told)
        await _figures(told, operations)
        await _expected(stage.ask(TENANT, "DELETE", f"/fhir/Subscription/{subscription}"), 204)
        await _scanned(told, folder)


def _opening(console: Any) -> None:
    console.rule("[bold]PAGW: prior authorisation that loses and repeats nothing")
    console.print(
        "A payer, an issuer of tokens and a client's server of our own making answer over HTTP. The gateway stands between "
        "them, each of its stages with its own queue. Clinics of the tenant [bold]acme[/] ask whether a service will be paid "
        "for."
    )


# --- what a payer decides ----------------------------------------------------------------------------------------


async def _subscribed(told: Story) -> str:
    """Those of former tellings have nobody any more who would hear them."""
    stage = told.stage
    found = (await _expected(stage.ask(TENANT, "GET", "/fhir/Subscription"), 200)).json()
    for each in found.get("entry", []):
        await stage.ask(TENANT, "DELETE", f"/fhir/Subscription/{each['resource']['id']}")
    endpoint = f"{stage.client_url}/notifications/{TENANT}"
    answer = await _expected(
        stage.ask(TENANT, "POST", "/fhir/Subscription", _subscription(PROVIDER_NPIS[0], endpoint)), 201
    )
    made = answer.json()
    _expect(made["status"], "active")
    told.console.print(
        "The clinic's own server subscribes to decisions: it answered the handshake, and is told of each from now on."
    )
    return str(made["id"])


async def _approved(told: Story) -> None:
    told.console.rule("Approved")
    bundle = told.bundle("approved", attachments=(SampleAttachment(),))
    answer, found = await _submitted(told, "approved", bundle)
    _expect((found.request.decision, found.request.status), ("approved", "COMPLETED"))
    told.console.print(
        f"The payer approves at once, as [bold]{answer['preAuthRef']}[/]. The answer went back in the same call."
    )
    _show(told, found)
    (delivery,) = found.deliveries
    received = told.stage.client.received[delivery.delivery_id]
    _expect((delivery.status, received.kind, received.bodies), ("delivered", "notification", 1))
    told.console.print(
        "The clinic's server was told too: signed, under an id that stays the same if it is told again."
    )


async def _denied(told: Story) -> None:
    told.console.rule("Denied")
    answer, found = await _submitted(told, "denied", told.bundle("denied", DENIED, person=1))
    _expect(found.request.decision, "denied")
    told.console.print(f"With its reason, word for word from the payer: “{answer['disposition']}”")
    _show(told, found)


async def _modified(told: Story) -> None:
    told.console.rule("Modified")
    asked = SampleItem(MODIFIED, quantity=12)
    answer, found = await _submitted(told, "modified", told.bundle("modified", asked, person=2))
    _expect(found.request.decision, "modified")
    allowed = answer["addItem"][0]["quantity"]["value"]
    told.console.print(f"Twelve visits were asked for, and [bold]{allowed:g}[/] are allowed.")
    _show(told, found)


async def _pended(told: Story) -> None:
    stage, console = told.stage, told.console
    console.rule("Pended, then decided")
    bundle = told.bundle("pended", PENDED_APPROVED, person=3, urgency="expedited")
    answer = await _expected(stage.submit(TENANT, bundle, told.key("pended")), 200)
    pagw_id = answer.headers["x-pagw-id"]
    told.told["pended"] = (pagw_id, bundle)
    _expect(_claim_response(answer)["outcome"], "queued")
    waiting = await _tracked(told, pagw_id)
    _expect(waiting.status, "PENDED")
    hours = (waiting.due_at - waiting.created_at).total_seconds() / 3600
    console.print(
        f"The payer wants to think. The clinic is answered “queued” at once; the payer has [bold]{hours:g} hours[/], because it "
        "is urgent. A minute passes (the clock is moved), the payer decides and calls back, signed."
    )
    stage.clock.advance(stage.payer.decide_after_s + 1)
    found = await stage.until_ended(TENANT, pagw_id)
    _expect((found.request.decision, "callbacks/callback_001.json" in found.files), ("approved", True))
    _show(told, found)


async def _cancelled(told: Story) -> None:
    console = told.console
    console.rule("Cancelled")
    former, bundle = told.told["approved"]
    cancelling = cancel_bundle(bundle, reference=told.key("cancel").upper())
    _, found = await _submitted(told, "cancelled", cancelling)
    _expect(
        (found.request.kind, found.request.decision, found.request.replaces), ("cancel", "cancelled", former)
    )
    before = await told.stage.until_ended(TENANT, former)
    _expect((before.request.status, before.statuses[-1]), ("CANCELLED", "CANCELLED"))
    console.print(
        "The clinic takes the approved one back: a Claim of its own, that names the former. The payer confirms; "
        f"[bold]{former}[/] is CANCELLED in the same transaction in which this one is answered."
    )
    _show(told, found)


# --- what is refused ---------------------------------------------------------------------------------------------


async def _invalid(told: Story) -> None:
    console = told.console
    console.rule("Invalid")
    wrong = PROVIDER_NPIS[0][:-1] + str((int(PROVIDER_NPIS[0][-1]) + 1) % 10)
    before = await _requests(told)
    answer = await told.stage.submit(TENANT, told.bundle("invalid", npi=wrong), told.key("invalid"))
    outcome = answer.json()
    _expect((answer.status_code in (400, 422), outcome["resourceType"]), (True, "OperationOutcome"))
    issue = outcome["issue"][0]
    console.print(
        f"A provider's number with a wrong check digit: {answer.status_code}, and an OperationOutcome."
    )
    console.print(f"  {issue['code']}: {issue['diagnostics']}", markup=False)
    known = await told.stage.stores.run(patterns.submission(f"{TENANT}:{told.key('invalid')}"))
    _expect((await _requests(told), known), (before, None))
    console.print(
        "Nothing is stored of it but a line of audit: no key, no row, no file. The key may be used again."
    )


async def _repeated(told: Story) -> None:
    console, stage = told.console, told.stage
    console.rule("Once more, please")
    pagw_id, bundle = told.told["denied"]
    again = await _expected(stage.submit(TENANT, bundle, told.key("denied")), 200)
    _expect(again.headers["x-pagw-id"], pagw_id)
    console.print(
        f"The same under the same key is answered again, with [bold]{pagw_id}[/]; the payer hears nothing of it."
    )
    other = told.bundle("other", person=4)
    refused = await stage.submit(TENANT, other, told.key("denied"))
    _expect(refused.json()["resourceType"], "OperationOutcome")
    _expect(refused.status_code in (409, 422), True)
    console.print(
        f"Something else under that key is refused ({refused.status_code}): [dim]{refused.json()['issue'][0]['diagnostics']}[/]"
    )
    stranger = await stage.ask(OTHER, "GET", f"/pas/requests/{pagw_id}")
    _expect(stranger.status_code, 404)
    console.print(f"And to [bold]{OTHER}[/], another tenant, there is no such request at all (404).")


# --- what dies on the way ----------------------------------------------------------------------------------------


async def _broken_off(told: Story) -> None:
    """The connector is broken off when the payer has acted and not yet said so. Who is killed leaves the same behind."""
    console, stage = told.console, told.stage
    console.rule("Broken off at the worst moment")
    async with stage.at_work(without=(CONNECTOR,)):
        stage.payer.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
        async with stage.at_work(CONNECTOR) as connector:
            pagw_id = await _accepted(told, "broken-off")
            await until(lambda: stage.authorizations()[pagw_id], "the payer")
            connector.stop()
            connector.stop()
        stage.payer.faults = Faults()
        _expect((await _tracked(told, pagw_id)).status, "CONVERTED")
        console.print(
            "The payer has decided, and before it answers the connector is gone. Nobody here knows what the payer did. (In "
            "this story that is a task in this process. The tests kill real processes.)"
        )
        # Who is killed gives nothing back: its claim ends by its time.
        stage.clock.advance(CALL_LEASE_S + 1)
        async with stage.at_work(CONNECTOR):
            found = await stage.until_ended(TENANT, pagw_id)
    call = next(each for each in found.keys if each.idempotency_key.endswith("#payer"))
    _expect((found.request.status, call.attempts, stage.authorizations()[pagw_id]), ("COMPLETED", 2, 1))
    console.print(
        "Another connector takes it up, finds the intent of the first, and looks at the payer before it asks: the payer has "
        "it. Two attempts, [bold]one[/] authorisation."
    )
    _show(told, found)


async def _unsent(told: Story) -> None:
    console, stage = told.console, told.stage
    console.rule("Nobody sends it")
    async with stage.at_work(without=(PUBLISHER,)):
        pagw_id = await _accepted(told, "unsent")
        found = await stage.trail(TENANT, pagw_id)
        _expect((found.request.status, found.waiting > 0), ("VALIDATED", True))
        console.print(
            f"The publisher is stopped. A request comes in by the native API: 202, [bold]{pagw_id}[/]. It is tracked, and "
            f"{found.waiting} messages stand in the outbox, written in the same transaction."
        )
        async with stage.at_work(PUBLISHER):
            found = await stage.until_ended(TENANT, pagw_id)
    _expect((found.request.status, found.waiting), ("COMPLETED", 0))
    console.print("Another publisher begins, finds them, and sends them in order. Nothing was lost.")
    _show(told, found)


# --- what remains of it ------------------------------------------------------------------------------------------


async def _figures(told: Story, operations: Counter[str]) -> None:
    console, stage = told.console, told.stage
    console.rule("In figures")
    acted = stage.authorizations()
    own = [pagw_id for pagw_id, _ in told.told.values()]
    _expect({each: acted[each] for each in own}, dict.fromkeys(own, 1))
    _expect(set(acted.values()), {1})
    others = f"; and {len(acted) - len(own)} more of the sample" if len(acted) > len(own) else ""
    console.print(
        f"The payer's ledger has the {len(own)} requests of this story, [bold]each exactly once[/]{others}."
    )
    console.print(f"  {'request':<31}  {'above':<11} {'status':<10} the payer's decision", style="bold")
    for name, (pagw_id, _) in told.told.items():
        request = await _tracked(told, pagw_id)
        taken_back = ", then taken back" if request.status == Status.CANCELLED else ""
        console.print(f"  {pagw_id}  {name:<11} {request.status:<10} {request.decision}{taken_back}")
    calls = [each for each in stage.client.received.values() if each.pagw_id in own]
    _expect({each.bodies for each in calls}, {1})
    console.print(f"The client's server was called under {len(calls)} ids, each with one content.")
    counted = ", ".join(f"{operations[room]:,} of {room}" for room in ROOMS)
    console.print(f"All of it took {sum(operations.values()):,} operations: {counted}.")


async def _scanned(told: Story, folder: Path) -> None:
    """No patient outside the objects. Where patients may be, they must be found, or the search is worth nothing."""
    for table in TABLES:
        total = await told.stage.stores.run(_rows_with_patients(table))
        _expect((table, 0 if total is None else total.count), (table, 0))
    files = [each for each in folder.iterdir() if each.is_file()]
    _expect([each.file for each in scan_files(files, needles=NEEDLES) if each.kind == "needle"], [])
    planted = folder / "planted"
    planted.write_text(NEEDLES[0])
    found = {each.kind for each in scan_files([planted], needles=NEEDLES)}
    planted.unlink()
    _expect("needle" in found, True)
    told.console.print(
        f"Names, member numbers and addresses of all patients were searched for in {len(TABLES)} SQL tables, the keys and the "
        "queues: [bold]nothing found[/]. A planted one is."
    )


def _rows_with_patients(table: str) -> SqlOne[Total]:
    return pagw.one(
        Total,
        f"SELECT count(*) AS count FROM pagw.{table} AS found WHERE found::text LIKE ANY(%(needles)s::text[])",
        needles=tuple(f"%{each}%" for each in NEEDLES),
    )


# --- pieces ------------------------------------------------------------------------------------------------------


async def _submitted(told: Story, name: str, bundle: Mapping[str, Any]) -> tuple[dict[str, Any], Trail]:
    """By Da Vinci PAS: the ClaimResponse, and the trail when nothing is left to do."""
    answer = await _expected(told.stage.submit(TENANT, bundle, told.key(name)), 200)
    pagw_id = answer.headers["x-pagw-id"]
    told.told[name] = (pagw_id, bundle)
    return _claim_response(answer), await told.stage.until_ended(TENANT, pagw_id)


async def _accepted(told: Story, name: str) -> str:
    """By the native API, with an address to be called back at."""
    bundle = told.bundle(name, person=4)
    headers = {
        "x_idempotency_key": told.key(name),
        "x_callback_url": f"{told.stage.client_url}/callbacks/{TENANT}",
    }
    answer = await _expected(told.stage.ask(TENANT, "POST", "/pas/requests", bundle, **headers), 202)
    pagw_id = str(answer.json()["pagwId"])
    told.told[name] = (pagw_id, bundle)
    return pagw_id


def _show(told: Story, found: Trail) -> None:
    """The trail of one request, store by store."""
    lines = {
        "tables": ", ".join(f"{each.idempotency_key} {each.status}" for each in found.keys),
        "SQL": f"{' → '.join(found.statuses)}; {len(found.audit)} rows of audit, {len(found.inbox)} in the inbox",
        "outbox": _sent(found),
        "objects": f"{', '.join(found.files)}; {found.archived} files of audit",
        "cache": ", ".join(found.cached),
    }
    for store, line in lines.items():
        width = min(told.console.width, WIDTH_MAX)
        filled = textwrap.fill(
            line,
            width,
            initial_indent=f"  {store:<8} ",
            subsequent_indent=" " * 11,
            break_on_hyphens=False,
            break_long_words=False,
        )
        told.console.print(filled, markup=False, style="dim", soft_wrap=True)


def _sent(found: Trail) -> str:
    queues = Counter(each.queue_name for each in found.outbox)
    audit, clients = queues.pop(audit_events.name, 0), queues.pop(notifications.name, 0)
    told = [f"{queues.total()} messages to stages", f"{audit} to the archive of audit"]
    return ", ".join([*told, f"{clients} to the notifier"] if clients else told) + ", all sent"


async def _tracked(told: Story, pagw_id: str) -> Tracked:
    found = await told.stage.stores.run(patterns.request(TENANT, pagw_id))
    if found is None:
        raise AssertionError(f"{pagw_id} is not tracked.")
    return found


async def _requests(told: Story) -> int:
    return len(await told.stage.stores.run(patterns.requests_of(TENANT, limit=1000)))


def _claim_response(answer: httpx2.Response) -> dict[str, Any]:
    resource: dict[str, Any] = answer.json()["entry"][0]["resource"]
    return resource


def _subscription(npi: str, endpoint: str) -> dict[str, Any]:
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


async def _expected(asking: Any, status: int) -> httpx2.Response:
    answer: httpx2.Response = await asking
    if answer.status_code != status:
        raise AssertionError(f"{answer.request.url} answered {answer.status_code}: {answer.text}")
    return answer


def _expect(found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"Not as it should be: {found!r}, and it should be {wanted!r}.")
