"""What a run of the gateway has left in its four stores and at the outside parties, and whether it is as it must be.

For `test_pagw_killed.py`. Everything is read when nobody works any more. Each judgement says what it is about; none of
them trusts another store's word for its own.
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
from pagw.demo.sample.bundles import PEOPLE, get_person
from pagw.demo.sandbox.client import ReceivedCall
from pagw.demo.sandbox.payer_state import AUTHORIZATION, CALLBACK, DECISION
from pagw.model.entities import IdempotencyRecord, audit_events_bucket, requests_bucket

from .pagw_parties import REPEATED
from .pagw_stage import Stage
from .pagw_traffic import Asked

# The status steps of a request, as its audit has them: each once, in order.
BEGIN: Final = "VALIDATED ENRICHED ATTACHMENTS_PROCESSED CONVERTED"
PAYER: Final = "( SUBMITTED| PENDED( PENDED)? SUBMITTED)"
END: Final = " RESPONSE_BUILT CALLBACK_SENT COMPLETED"
WHOLE: Final = re.compile(f"{BEGIN}{PAYER}{END}")
FAILED: Final = re.compile(f"{BEGIN} FAILED( FAILED)?")
CANCELLED: Final = re.compile(
    f"{BEGIN}({PAYER}| PENDED( PENDED)?)?( RESPONSE_BUILT( CALLBACK_SENT( COMPLETED)?)?)? CANCELLED"
)
PATHS: Final = {"COMPLETED": WHOLE, "FAILED": FAILED, "CANCELLED": CANCELLED}
NOT_CHANGEABLE: Final = "not_changeable"
GIVEN_UP: Final = "given_up"


@dataclass
class Findings:
    requests: dict[str, dict[str, Any]]
    audit: list[dict[str, Any]]
    deliveries: dict[str, dict[str, Any]]
    lookups: int
    records: dict[str, IdempotencyRecord]
    # By bucket: what is under each key.
    request_files: dict[str, bytes] = field(repr=False)
    audit_files: dict[str, bytes] = field(repr=False)
    ledger: list[dict[str, Any]] = field(repr=False)
    received: dict[str, ReceivedCall] = field(repr=False)

    def steps(self, pagw_id: str) -> list[dict[str, Any]]:
        return [each for each in self.audit if each["pagw_id"] == pagw_id and each["event_type"] == "STATUS"]

    def entries(self, what: str) -> dict[str, list[dict[str, Any]]]:
        """The payer's, by reference."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.ledger:
            if each["what"] == what:
                found[each["reference"]].append(each)
        return found


async def found(stage: Stage, stores: Stores) -> Findings:
    records = [
        each async for each in stores.each(IdempotencyRecord.scan(reason="A test looks at all of them"))
    ]
    received = stage.ask("client", "/sandbox/received")["received"]
    return Findings(
        requests={each["pagw_id"]: each for each in stage.rows("SELECT * FROM pagw.request_tracker")},
        audit=stage.rows("SELECT * FROM pagw.audit_log ORDER BY id"),
        deliveries={each["delivery_id"]: each for each in stage.rows("SELECT * FROM pagw.deliveries")},
        lookups=len(stage.rows("SELECT 1 FROM pagw.request_lookup")),
        records={each.idempotency_key: each for each in records},
        request_files=await _files(stores, requests_bucket.physical_name(stores.environment)),
        audit_files=await _files(stores, audit_events_bucket.physical_name(stores.environment)),
        ledger=stage.ask("payer", "/sandbox/ledger")["ledger"],
        received={each["id"]: ReceivedCall(**each) for each in received},
    )


async def _files(stores: Stores, bucket: str) -> dict[str, bytes]:
    engine, files, cursor = stores.engines.get("objects"), dict[str, bytes](), None
    while True:
        page = await engine.run(ListObjects(bucket=bucket, cursor=cursor))
        for each in page.objects:
            files[each.key] = (await engine.run(GetObject(bucket=bucket, key=each.key))).body
        cursor = page.cursor
        if cursor is None:
            return files


# --- the requests -------------------------------------------------------------------------------------------


def judge_requests(findings: Findings, asked: Sequence[Asked]) -> None:
    """Whatever was acknowledged has come to its end, and each key has one request."""
    rows = findings.requests
    for each in asked:
        if each.pagw_id:
            assert rows[each.pagw_id]["status"] in PATHS, (each, rows[each.pagw_id]["status"])
    assert [row["pagw_id"] for row in rows.values() if row["completed_at"] is None] == []
    keys = Counter(row["metadata"]["idempotencyKey"] for row in rows.values())
    assert [key for key, count in keys.items() if count > 1] == []
    for row in rows.values():
        record = findings.records[row["metadata"]["idempotencyKey"]]
        assert record.pagw_id == row["pagw_id"]
        if row["pagw_id"] in {each.pagw_id for each in asked}:
            assert record.status is OnceStatus.PROCESSED
    assert len({each.pagw_id for each in asked if each.pagw_id}) == sum(bool(each.pagw_id) for each in asked)


def judge_outcomes(findings: Findings, asked: Sequence[Asked]) -> None:
    """Each ends as what was asked for must, and only a second cancellation fails."""
    changed = {each.former for each in asked if each.former is not None}
    cancels: dict[Asked, list[Asked]] = defaultdict(list)
    for each in filter(lambda each: each.pagw_id, asked):
        row = findings.requests[each.pagw_id]
        if each.kind == "cancel" and each.former is not None:
            cancels[each.former].append(each)
        elif each not in changed:
            assert row["status"] == "COMPLETED", (each, row["status"], row["error_code"])
            assert each.wanted in (None, row["decision"]), (each, row["decision"])
    for former, several in cancels.items():
        ends = Counter(findings.requests[each.pagw_id]["status"] for each in several)
        assert ends == Counter(COMPLETED=1, FAILED=len(several) - 1), (former, ends)
    for former in changed:
        ended = findings.requests[former.pagw_id]["status"]
        assert ended == ("CANCELLED" if former in cancels else "COMPLETED"), (former, ended)
    codes = {row["error_code"] for row in findings.requests.values() if row["status"] == "FAILED"}
    assert codes <= {NOT_CHANGEABLE}
    assert {row["error_code"] for row in findings.requests.values() if row["status"] != "FAILED"} == {None}


# --- outside ------------------------------------------------------------------------------------------------


def judge_payer(findings: Findings) -> None:
    """Asked once for each request, whoever died over it; and what it decided is what is tracked."""
    authorizations, decisions = findings.entries(AUTHORIZATION), findings.entries(DECISION)
    assert findings.entries(REPEATED) == {}
    for entries in (authorizations, decisions, findings.entries(CALLBACK)):
        assert [reference for reference, several in entries.items() if len(several) > 1] == []
    submitted = {id for id, row in findings.requests.items() if row["status"] != "FAILED"}
    assert authorizations.keys() == submitted
    closed = {each[0]["former"] for each in authorizations.values()} - {""}
    for reference, [entry] in authorizations.items():
        told = decisions.get(reference, [entry])[0]["decision"]["outcome"]
        row = findings.requests[reference]
        if reference not in closed:
            assert row["decision"] == told, reference
        assert row["kind"] == entry["kind"] and (row["replaces"] or "") == entry["former"]


def judge_clients(
    findings: Findings, parties: Mapping[str, str], subscriptions: Mapping[str, tuple[str, str]]
) -> None:
    """Each is told all that it is to be told, at least once, and always the same under the same id."""
    wanted = dict[str, str]()
    for id, row in findings.requests.items():
        told, suffix = ("failed", "#f") if row["status"] == "FAILED" else ("callback", "")
        if target := row["metadata"].get("callbackUrl"):
            wanted[f"{id}#{told}"] = "gone" if target.startswith(parties["gone"]) else "client"
        has_ended = {"COMPLETED", "FAILED"} & {each["event_subtype"] for each in findings.steps(id)}
        for subscription, of in subscriptions.items():
            delivery = f"{id}#{subscription}{suffix}"
            # One that was cancelled between its answer and its end is told of if its subscribers were next.
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


# --- audit --------------------------------------------------------------------------------------------------


def judge_audit(findings: Findings) -> None:
    """Every step of every request once, each from where the one before has led; and every event is a file too."""
    for id, row in findings.requests.items():
        steps = findings.steps(id)
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


# --- objects ------------------------------------------------------------------------------------------------


def judge_objects(findings: Findings) -> None:
    """No file without a row, no row that points at nothing, and whatever was decided has its answer."""
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


# --- nobody's name ------------------------------------------------------------------------------------------


def judge_privacy(stage: Stage, people: int) -> None:
    """No word of a patient in any file but the requests' own, nor in any log; and the scanner can see."""
    sought = needles(people)
    own = stage.data / "objects" / requests_bucket.physical_name("test")
    assert own.is_dir()
    others = [each for each in (stage.data / "objects").iterdir() if each != own]
    databases = [*stage.data.glob("tables.db*"), *stage.data.glob("queues.db*")]
    assert (stage.postgres / "server" / "pg_wal").is_dir() and others and databases
    places = [*databases, *others, stage.postgres, stage.logs]
    assert scan_files(places, needles=sought, kinds=()) == []

    planted: dict[Path, str] = {}
    for number, word in enumerate(sought[:: max(1, len(sought) // 5)]):
        planted[stage.logs / f"planted-{number}.log"] = word
    for file, word in planted.items():
        file.write_text(json.dumps({"said": word}))
    seen = scan_files([stage.logs], needles=sought, kinds=())
    assert {each.file for each in seen} == set(map(str, planted))


def needles(people: int) -> list[str]:
    """Names, member ids, birth dates and addresses; a short postal code alone might be any number."""
    everybody = [*PEOPLE, *(get_person(number) for number in range(people))]
    words = {word for each in everybody for word in (*each.secrets, each.born, each.postal_code)}
    return sorted(word for word in words if not (word.isdigit() and len(word) < 6))
