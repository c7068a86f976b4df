"""Findings of a run in the stores and at the sandboxes, and their checks, for `test_pagw_killed.py`.

Everything is read when all processes have stopped. Each check compares sources that do not depend on each
other.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from holdfast import Stores
from holdfast.guarantees import OnceStatus, scan_files
from holdfast.operations.objects import GetObject, ListObjects
from holdfast_demo.pagw.sample.bundles import PEOPLE, get_person
from holdfast_demo.pagw.sandbox import PAS_PAYER_ID
from holdfast_demo.pagw.sandbox.client import ReceivedCall
from holdfast_demo.pagw.sandbox.payer_state import AUTHORIZATION, CALLBACK, DECISION
from pagw.model.entities import IdempotencyRecord, audit_events_bucket, requests_bucket
from tests.systems.pagw.documented_order import AUDITED_BEFORE_THE_PAYER

from .pagw_processes import REPEATED, PagwProcesses
from .pagw_traffic import ClientRequest

# The status events of a request in its audit: each once, in order.
PATH_TO_THE_PAYER: Final = " ".join(AUDITED_BEFORE_THE_PAYER)
PATH_AT_THE_PAYER: Final = "( SUBMITTED| PENDED( PENDED)? SUBMITTED)"
PATH_TO_THE_END: Final = " RESPONSE_BUILT CALLBACK_SENT COMPLETED"
COMPLETED_PATH: Final = re.compile(f"{PATH_TO_THE_PAYER}{PATH_AT_THE_PAYER}{PATH_TO_THE_END}")
FAILED_PATH: Final = re.compile(f"{PATH_TO_THE_PAYER} FAILED( FAILED)?")
CANCELLED_PATH: Final = re.compile(
    f"{PATH_TO_THE_PAYER}({PATH_AT_THE_PAYER}| PENDED( PENDED)?)?( RESPONSE_BUILT( CALLBACK_SENT( "
    "COMPLETED)?)?)? CANCELLED"
)
PATHS: Final = {"COMPLETED": COMPLETED_PATH, "FAILED": FAILED_PATH, "CANCELLED": CANCELLED_PATH}
# The refusals of a second cancellation, by the payer's format.
NOT_CHANGEABLE: Final = "not_changeable"
UNPROCESSABLE: Final = "422"
GIVEN_UP: Final = "given_up"


@dataclass
class Findings:
    """Everything that a run left: rows, records and files of the gateway, and the sandboxes' ledgers."""

    requests: dict[str, dict[str, Any]]
    audit: list[dict[str, Any]]
    deliveries: dict[str, dict[str, Any]]
    lookups: int
    records: dict[str, IdempotencyRecord]
    # Contents by key, per bucket.
    request_files: dict[str, bytes] = field(repr=False)
    audit_files: dict[str, bytes] = field(repr=False)
    ledger: list[dict[str, Any]] = field(repr=False)
    received: dict[str, ReceivedCall] = field(repr=False)

    def list_status_events(self, pagw_id: str) -> list[dict[str, Any]]:
        """Return the audit events of a request's status changes, oldest first."""
        return [each for each in self.audit if each["pagw_id"] == pagw_id and each["event_type"] == "STATUS"]

    def group_ledger(self, entry_type: str) -> dict[str, list[dict[str, Any]]]:
        """Group the payer's ledger entries of one type by reference."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.ledger:
            if each["what"] == entry_type:
                found[each["reference"]].append(each)
        return found


async def collect_findings(processes: PagwProcesses, stores: Stores) -> Findings:
    """Read everything that the run left in the stores and at the sandboxes."""
    records = [
        each async for each in stores.each(IdempotencyRecord.scan(reason="A test looks at all of them"))
    ]
    received = processes.get("client", "/sandbox/received")["received"]
    return Findings(
        requests={each["pagw_id"]: each for each in processes.query("SELECT * FROM pagw.request_tracker")},
        audit=processes.query("SELECT * FROM pagw.audit_log ORDER BY id"),
        deliveries={each["delivery_id"]: each for each in processes.query("SELECT * FROM pagw.deliveries")},
        lookups=len(processes.query("SELECT 1 FROM pagw.request_lookup")),
        records={each.idempotency_key: each for each in records},
        request_files=await _read_files(stores, requests_bucket.physical_name(stores.environment)),
        audit_files=await _read_files(stores, audit_events_bucket.physical_name(stores.environment)),
        ledger=[
            entry
            for payer in ("payer", "pas-payer")
            for entry in processes.get(payer, "/sandbox/ledger")["ledger"]
        ],
        received={each["id"]: ReceivedCall(**each) for each in received},
    )


async def _read_files(stores: Stores, bucket: str) -> dict[str, bytes]:
    """Return the contents of all objects of a bucket, by key."""
    engine, files, cursor = stores.engines.get("objects"), dict[str, bytes](), None
    while True:
        page = await engine.run(ListObjects(bucket=bucket, cursor=cursor))
        for each in page.objects:
            files[each.key] = (await engine.run(GetObject(bucket=bucket, key=each.key))).body
        cursor = page.cursor
        if cursor is None:
            return files


def check_requests(findings: Findings, requests: Sequence[ClientRequest]) -> None:
    """Check that every acknowledged request has ended and that each key has one request."""
    rows = findings.requests
    for each in requests:
        if each.pagw_id:
            assert rows[each.pagw_id]["status"] in PATHS, (each, rows[each.pagw_id]["status"])
    assert [row["pagw_id"] for row in rows.values() if row["completed_at"] is None] == []
    keys = Counter(row["metadata"]["idempotencyKey"] for row in rows.values())
    assert [key for key, count in keys.items() if count > 1] == []
    for row in rows.values():
        record = findings.records[row["metadata"]["idempotencyKey"]]
        assert record.pagw_id == row["pagw_id"]
        if row["pagw_id"] in {each.pagw_id for each in requests}:
            assert record.status is OnceStatus.PROCESSED
    assert len({each.pagw_id for each in requests if each.pagw_id}) == sum(
        bool(each.pagw_id) for each in requests
    )


def check_outcomes(findings: Findings, requests: Sequence[ClientRequest]) -> None:
    """Check that each request ends as it must. Only a second cancellation fails."""
    changed = {each.former for each in requests if each.former is not None}
    cancels: dict[ClientRequest, list[ClientRequest]] = defaultdict(list)
    for each in filter(lambda each: each.pagw_id, requests):
        row = findings.requests[each.pagw_id]
        if each.kind == "cancel" and each.former is not None:
            cancels[each.former].append(each)
        elif each not in changed:
            assert row["status"] == "COMPLETED", (each, row["status"], row["error_message"])
            assert each.expected_decision in (None, row["decision"]), (each, row["decision"])
    for former, several in cancels.items():
        ends = Counter(findings.requests[each.pagw_id]["status"] for each in several)
        assert ends == Counter(COMPLETED=1, FAILED=len(several) - 1), (former, ends)
    for former in changed:
        ended = findings.requests[former.pagw_id]["status"]
        # A payer that speaks PAS decides only the update of a pended request.
        may_be_superseded = former.payer == PAS_PAYER_ID and former not in cancels
        expected = {"CANCELLED"} if former in cancels else {"COMPLETED"}
        assert ended in expected | ({"CANCELLED"} if may_be_superseded else set()), (former, ended)
    codes = {row["error_code"] for row in findings.requests.values() if row["status"] == "FAILED"}
    assert codes <= {NOT_CHANGEABLE, UNPROCESSABLE}
    assert {row["error_code"] for row in findings.requests.values() if row["status"] != "FAILED"} == {None}


def check_payer(findings: Findings) -> None:
    """Check that each payer acted once per request and that their decisions are the tracked ones. The payer
    that speaks PAS would act on every repeat.
    """
    authorizations, decisions = findings.group_ledger(AUTHORIZATION), findings.group_ledger(DECISION)
    assert findings.group_ledger(REPEATED) == {}
    for entries in (authorizations, decisions, findings.group_ledger(CALLBACK)):
        assert [reference for reference, several in entries.items() if len(several) > 1] == []
    submitted = {id for id, row in findings.requests.items() if row["status"] != "FAILED"}
    assert authorizations.keys() == submitted
    closed = {each[0]["former"] for each in authorizations.values()} - {""}
    for reference, [entry] in authorizations.items():
        outcome = decisions.get(reference, [entry])[0]["decision"]["outcome"]
        row = findings.requests[reference]
        if reference not in closed:
            assert row["decision"] == outcome, reference
        assert row["kind"] == entry["kind"] and (row["replaces"] or "") == entry["former"]


def check_clients(
    findings: Findings, service_urls: Mapping[str, str], subscriptions: Mapping[str, tuple[str, str]]
) -> None:
    """Check that each client gets every notification at least once, with one body per id.

    `subscriptions` maps an id to the tenant and the NPI whose requests it announces.
    """
    wanted = dict[str, str]()
    for id, row in findings.requests.items():
        suffixes, suffix = ("failed", "#f") if row["status"] == "FAILED" else ("callback", "")
        if target := row["metadata"].get("callbackUrl"):
            wanted[f"{id}#{suffixes}"] = "gone" if target.startswith(service_urls["gone"]) else "client"
        has_ended = {"COMPLETED", "FAILED"} & {
            each["event_subtype"] for each in findings.list_status_events(id)
        }
        for subscription, of in subscriptions.items():
            delivery = f"{id}#{subscription}{suffix}"
            # A request cancelled after its answer may already have been announced to its subscribers.
            is_told = has_ended or (row["status"] == "CANCELLED" and delivery in findings.deliveries)
            if is_told and of == (row["tenant"], row["provider_npi"]):
                wanted[delivery] = "client"
    assert findings.deliveries.keys() ^ wanted.keys() == set()
    for id, row in findings.deliveries.items():
        assert row["status"] == (GIVEN_UP if wanted[id] == "gone" else "delivered"), row
    calls = {id: each for id, each in findings.received.items() if each.kind != "handshake"}
    assert calls.keys() == {id for id, party in wanted.items() if party == "client"}
    assert {id: each.bodies for id, each in calls.items() if each.bodies > 1} == {}
    for id, each in calls.items():
        assert each.name == findings.requests[id.partition("#")[0]]["tenant"]


def check_audit(findings: Findings) -> None:
    """Check that each request's status events form one chain without repeats and that each event is also a
    file.
    """
    for id, row in findings.requests.items():
        steps = findings.list_status_events(id)
        path = " ".join(each["event_subtype"] for each in steps)
        assert PATHS[row["status"]].fullmatch(path), (id, row["status"], path)
        froms = [each["details"].get("from") for each in steps]
        assert froms == [None, *(each["event_subtype"] for each in steps[:-1])], (id, path)
        assert [each["timestamp"] for each in steps] == sorted(each["timestamp"] for each in steps)
        assert steps[0]["details"]["through"] == ["RECEIVED", "PARSED", "VALIDATED"]
    callbacks = Counter(
        (each["pagw_id"], each["resource_id"])
        for each in findings.audit
        if each["event_type"] == "PAYER_CALLBACK"
    )
    assert [each for each, count in callbacks.items() if count > 1] == []
    delivered = Counter(each["resource_id"] for each in findings.audit if each["event_type"] == "DELIVERY")
    assert delivered.keys() == findings.deliveries.keys()
    rows = {each["event_uuid"]: each for each in findings.audit}
    files = {json.loads(body)["event_uuid"]: json.loads(body) for body in findings.audit_files.values()}
    assert len(findings.audit_files) == len(files)
    assert files.keys() == rows.keys()
    for uuid, event in files.items():
        assert event["event_type"] == rows[uuid]["event_type"] and event["details"] == rows[uuid]["details"]


def check_objects(findings: Findings) -> None:
    """Check that files and rows match and that every decided request has its response."""
    files = findings.request_files
    folders = {key.split("/")[1] for key in files if not key.startswith("subscriptions/")}
    assert folders == findings.requests.keys()
    for id, row in findings.requests.items():
        assert row["s3_request_key"] in files
        assert row["s3_response_key"] is None or row["s3_response_key"] in files
        if row["decision"] is not None:
            answer = files[row["s3_response_key"]]
            assert row["s3_response_key"].endswith("/fhir_claim_response.json")
            assert sha256(answer).hexdigest() == row["metadata"]["responseSha256"]
            assert json.loads(answer)["entry"][0]["resource"]["resourceType"] == "ClaimResponse", id
        if row["status"] == "COMPLETED":
            record = findings.records[row["metadata"]["idempotencyKey"]]
            assert record.response_key == row["s3_response_key"]


def check_privacy(processes: PagwProcesses, people: int) -> None:
    """Check that no data of the first `people` patients is outside the requests' own files or in a log, and
    that the scanner finds planted data.
    """
    sought = list_needles(people)
    own = processes.data / "objects" / requests_bucket.physical_name("test")
    assert own.is_dir()
    others = [each for each in (processes.data / "objects").iterdir() if each != own]
    databases = [*processes.data.glob("tables.db*"), *processes.data.glob("queues.db*")]
    assert (processes.postgres / "server" / "pg_wal").is_dir() and others and databases
    places = [*databases, *others, processes.postgres, processes.logs]
    assert scan_files(places, needles=sought, kinds=()) == []

    planted: dict[Path, str] = {}
    for number, word in enumerate(sought[:: max(1, len(sought) // 5)]):
        planted[processes.logs / f"planted-{number}.log"] = word
    for file, word in planted.items():
        file.write_text(json.dumps({"said": word}))
    seen = scan_files([processes.logs], needles=sought, kinds=())
    assert {each.file for each in seen} == set(map(str, planted))


def list_needles(people: int) -> list[str]:
    """Return names, member ids, birth dates and addresses of the patients, without short numbers such as
    postal codes, which could be any number.
    """
    everybody = [*PEOPLE, *(get_person(number) for number in range(people))]
    words = {word for each in everybody for word in (*each.secrets, each.born, each.postal_code)}
    return sorted(word for word in words if not (word.isdigit() and len(word) < 6))
