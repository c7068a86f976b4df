"""HTTP route tests over real HTTP with PostgreSQL: bookings, audit, exports, policies, and who sees what."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import pytest

from holdfast.model.ulids import UlidGenerator
from holdfast.web import PROBLEM_JSON
from holdfast_demo.tripcortex.sample.policy_document import build_policy_rules
from tests.systems.tripcortex.acceptance.live_service import APPROVER, Service, start_service
from tripcortex.api.routes.connections import MAX_FRAME_BYTES
from tripcortex.model import patterns
from tripcortex.model.entities import AuditEvent, AuditRecord, Booking, EmployeeId, compute_audit_expiry
from tripcortex.model.policies import patterns as knowledge
from tripcortex.policies.embedding import build_local_embedding
from tripcortex.policies.ingestion import ingest_pending
from tripcortex.workers.audit_entries import build_audit_entry

ADMIN = {"is_admin": True}
FORM = {"content-type": "multipart/form-data; boundary=part"}
POLICY = b"""# Air travel

## Cabin

Economy is for flights of less than six hours. Business class is allowed for flights of more than eight hours.

## Hotels

A hotel costs at most 250 dollars a night.
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with start_service(tmp_path_factory.mktemp("routes"), with_policies=True) as made:
        yield made


# --- bookings -----------------------------------------------------------------------------------------------


def test_employee_requests_chooses_and_confirms_a_trip(web: Service) -> None:
    booking_id = web.request_trip("emp-1")
    shown = web.booking("emp-1", booking_id)
    assert [each["option_id"] for each in shown["flightOptions"]] == ["opt-1", "opt-2"]
    assert datetime.fromisoformat(shown["dueAt"]).timestamp() == web.clock.now() + 1800
    assert (shown["waitsFor"], shown["notes"]) == ("choice", ["Chicago was read as ORD."])

    path = f"/bookings/{booking_id}/choice"
    for body, status in [
        ({"optionId": "opt-9", "token": shown["token"]}, 400),
        ({"optionId": "opt-1", "token": "not the token"}, 403),
        ({"optionId": "opt-1", "employeeId": "emp-2"}, 400),
        ({}, 400),
    ]:
        check_problem(web.call("POST", path, json=body), status)
    assert web.booking("emp-1", booking_id) == shown

    chosen = web.call("POST", path, json={"optionId": "opt-1", "token": shown["token"]})
    assert chosen.status_code == 200 and chosen.json()["confirmationNumber"] == "QX7T2M"
    check_problem(web.call("POST", path, json={"optionId": "opt-1", "token": shown["token"]}), 409)


def test_employee_answers_the_planners_question(web: Service) -> None:
    booking_id = web.request_trip("emp-asked", "Fly from Boston to somewhere")
    shown = web.booking("emp-asked", booking_id)
    assert shown["question"]["text"] == "Where to?"
    # The document's status does not show the question.
    assert (shown["status"], shown["waitsFor"]) == ("searching", "answer")
    answered = web.call("POST", f"/bookings/{booking_id}/answer", "emp-asked", json={"text": "Chicago"})
    assert answered.status_code == 200
    web.wait_until(lambda: web.booking("emp-asked", booking_id)["status"] == "options_presented")


@pytest.mark.proves("TC-64")
def test_only_a_sentence_that_asks_for_a_flight_creates_a_booking(web: Service) -> None:
    def ask(text: str, **more: str) -> Any:
        response = web.call("POST", "/bookings", "emp-intent", json={"text": text, **more})
        assert response.status_code == 200, response.text
        return response.json()

    assert ask("Is my flight on time?")["text"].startswith("You have no bookings yet.")
    assert ask("How much may a hotel cost a night?")["intent"] == "policy"
    assert ask("Please do not book anything yet")["intent"] == "other"
    unsure = "Are there any flights to Denver on Friday?"
    assert ask(unsure)["question"].endswith("yes or no.")
    assert ask(unsure, answer="no")["question"] is None
    assert web.call("GET", "/bookings", "emp-intent").json()["items"] == []

    begun = web.call("POST", "/bookings", "emp-intent", json={"text": unsure, "answer": "yes"})
    assert begun.status_code == 202
    cancel = ask("cancel my trip to Denver")
    assert cancel["bookingIds"] == [begun.json()["bookingId"]] and "action “cancel”" in cancel["text"]
    assert begun.json()["bookingId"] in ask("what is the status of my booking?")["bookingIds"]


def test_employee_may_request_again_after_cancelling(web: Service) -> None:
    booking_id = web.request_trip("emp-cancel")
    check_problem(web.call("POST", "/bookings", "emp-cancel", json={"text": "Boston to Denver"}), 409)
    response = web.call("POST", f"/bookings/{booking_id}/cancel", "emp-cancel", json={"reason": "ill"})
    assert response.json()["status"] == "cancelled" and response.json()["token"] is None
    check_problem(web.call("POST", f"/bookings/{booking_id}/cancel", "emp-cancel"), 409)
    assert web.request_trip("emp-cancel") != booking_id


def test_only_the_approver_may_decide(web: Service) -> None:
    booking_id = web.request_trip("emp-approve")
    web.call("POST", f"/bookings/{booking_id}/choice", "emp-approve", json={"optionId": "opt-2"})
    path = f"/bookings/{booking_id}/approval"
    body = {"employeeId": "emp-approve", "decision": "approve"}
    for employee, token in [("emp-approve", {}), ("emp-2", {}), ("emp-2", ADMIN)]:
        check_problem(web.call("POST", path, employee, json=body, token=token), 404)
    check_problem(web.call("POST", path, APPROVER, json={**body, "decision": "perhaps"}), 400)
    decided = web.call("POST", path, APPROVER, json=body)
    assert decided.status_code == 200 and decided.json()["status"] == "confirmed"
    # The approver does not see the traveller's request and options.
    assert decided.json().keys() == {"bookingId", "employeeId", "status", "approval"}
    ended = web.booking("emp-approve", booking_id)
    assert (ended["status"], ended["waitsFor"]) == ("confirmed", None)


def test_approver_sees_only_pending_decisions(web: Service) -> None:
    def list_approvals(employee: str, **more: Any) -> list[str]:
        items = web.call("GET", "/approvals", employee, **more).json()["items"]
        return [each["bookingId"] for each in items]

    ids = []
    for employee in ("emp-first", "emp-second"):
        ids.append(web.request_trip(employee))
        web.clock.advance(1)
    assert list_approvals(APPROVER) == []
    for employee, booking_id in zip(("emp-first", "emp-second"), ids, strict=True):
        chosen = web.call("POST", f"/bookings/{booking_id}/choice", employee, json={"optionId": "opt-2"})
        assert (chosen.json()["status"], chosen.json()["waitsFor"]) == ("user_selected", "approval")
        # Only the approver gets the token of this wait.
        assert chosen.json()["token"] is web.booking(employee, booking_id)["token"] is None
        web.clock.advance(1)
    # Even without a connection, and after the message was acknowledged.
    for message_id in web.run(web.list_unacknowledged(APPROVER)):
        web.run(web.stores.run(patterns.acknowledge(EmployeeId(APPROVER), message_id)))  # type: ignore[arg-type]
    assert list_approvals(APPROVER) == ids
    assert list_approvals("emp-first") == list_approvals("emp-2", token=ADMIN) == []

    seen = web.call("GET", f"/approvals/{ids[0]}", APPROVER).json()
    asked = {"priceUsd", "stage", "stages", "approvers"}
    shown = {"bookingId", "employeeId", "option", "breaches", "dueAt", "atDeadline"}
    assert seen.keys() == shown | asked
    assert [each["people"] for each in seen["approvers"]] == [[APPROVER]]
    assert (seen["employeeId"], seen["option"]["option_id"]) == ("emp-first", "opt-2")
    assert "offer_id" not in seen["option"]
    (breach,) = seen["breaches"]
    assert breach["code"] == "fare_above_cap" and breach["citation"]["section_title"] == "Caps"
    check_problem(web.call("GET", f"/bookings/{ids[0]}", APPROVER), 404)
    check_problem(web.call("GET", f"/approvals/{ids[0]}", "emp-first"), 404)

    body = {"employeeId": "emp-first", "decision": "refuse"}
    web.call("POST", f"/bookings/{ids[0]}/approval", APPROVER, json=body)
    assert list_approvals(APPROVER) == ids[1:]
    check_problem(web.call("GET", f"/approvals/{ids[0]}", APPROVER), 404)
    web.call("POST", f"/bookings/{ids[1]}/approval", APPROVER, json={**body, "employeeId": "emp-second"})


def test_lists_former_bookings_newest_first_in_pages(web: Service) -> None:
    ids = []
    for _ in range(5):
        ids.append(web.request_trip("emp-pages"))
        web.call("POST", f"/bookings/{ids[-1]}/cancel", "emp-pages")
        web.clock.advance(1)
    seen: list[str] = []
    path = "/bookings?limit=2"
    while True:
        page = web.call("GET", path, "emp-pages").json()
        seen += [each["bookingId"] for each in page["items"]]
        if page["cursor"] is None:
            break
        path = f"/bookings?limit=2&cursor={page['cursor']}"
    assert seen == ids[::-1]
    for query in ("limit=0", "limit=201", "limit=x", "cursor=nonsense", "cursor="):
        check_problem(web.call("GET", f"/bookings?{query}", "emp-pages"), 400)


def test_limits_bookings_per_employee_and_minute(web: Service) -> None:
    for _ in range(20):
        booking_id = web.request_trip("emp-eager")
        web.call("POST", f"/bookings/{booking_id}/cancel", "emp-eager")
    web.clock.advance(40)
    again = web.call("POST", "/bookings", "emp-eager", json={"text": "Boston to Denver"})
    check_problem(again, 429)
    assert again.headers["retry-after"] == "20"
    assert len(web.call("GET", "/bookings?limit=50", "emp-eager").json()["items"]) == 20
    web.request_trip("emp-patient")
    web.clock.advance(20)
    web.request_trip("emp-eager")


@pytest.mark.proves("TC-77", "TC-78")
def test_the_audit_is_read_by_booking_and_by_employee_and_time(web: Service) -> None:
    """Another employee's entries are for admins only, and the range includes both ends."""
    booking_id = web.request_trip("emp-audit")
    booking = web.run(web.stores.run(patterns.booking(EmployeeId("emp-audit"), booking_id)))  # type: ignore[arg-type]
    assert booking is not None
    now = datetime.fromtimestamp(web.clock.now(), UTC)
    for days in (40, 20, 10):
        web.run(web.stores.run(patterns.append_audit(make_entry(booking, now - timedelta(days=days)))))

    trail = web.call("GET", f"/bookings/{booking_id}/audit", "emp-audit").json()["items"]
    assert [each["event"] for each in trail] == [*["reasoning"] * 3, "flight_search"]

    since, until = now - timedelta(days=40), now - timedelta(days=20)
    between = {"since": since.isoformat(), "until": until.isoformat()}
    found = web.call("GET", "/audit", "emp-audit", params=between).json()["items"]
    # The range includes both ends.
    assert [datetime.fromisoformat(each["timestamp"]) for each in found] == [since, until]
    # The default range is the last 30 days.
    assert len(web.call("GET", "/audit", "emp-audit").json()["items"]) == 3

    first = web.call("GET", "/audit", "emp-audit", params={**between, "limit": "1"}).json()
    rest = {**between, "limit": "1", "cursor": first["cursor"]}
    assert len(web.call("GET", "/audit", "emp-audit", params=rest).json()["items"]) == 1

    of_other = {**between, "employeeId": "emp-audit"}
    check_problem(web.call("GET", "/audit", "emp-2", params=of_other), 403)
    seen = web.call("GET", "/audit", "emp-2", params=of_other, token=ADMIN).json()["items"]
    assert [each["employeeId"] for each in seen] == ["emp-audit"] * 2
    for query in (
        "since=yesterday",
        "since=2026-03-10T00:00:00",
        "since=2027-01-01T00:00:00Z&until=2026-01-01T00:00:00Z",
    ):
        check_problem(web.call("GET", f"/audit?{query}", "emp-audit"), 400)


def test_exports_are_complete_and_contain_no_formulas(web: Service) -> None:
    formulas = ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", '"Hello"']
    texts = [f"{each}, fly me to Chicago" for each in formulas]
    for text in texts:
        booking_id = web.request_trip("emp-csv", text)
        web.call("POST", f"/bookings/{booking_id}/cancel", "emp-csv")
        web.clock.advance(1)
    answer = web.call("GET", "/bookings.csv", "emp-csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    asked = [row["userRequest"] for row in rows[::-1]]
    assert asked == [*(f"'{text}" for text in texts[:4]), texts[4]]
    assert {row["employeeId"] for row in rows} == {"emp-csv"} and rows[0]["destination"] == "ORD"

    booking = web.run(web.stores.run(patterns.booking(EmployeeId("emp-csv"), rows[0]["bookingId"])))  # type: ignore[arg-type]
    assert booking is not None
    for _ in range(120):
        web.run(
            web.stores.run(
                build_audit_entry(web.stores, booking, AuditEvent.error, "Retry", error_code="=1+1")
            )
        )
    entries = list(csv.DictReader(io.StringIO(web.call("GET", "/audit.csv", "emp-csv").text)))
    # More than a page.
    assert len(entries) == 125 and entries[-1]["errorCode"] == "'=1+1"

    for path in ("/bookings.csv", "/audit.csv"):
        check_problem(web.call("GET", f"{path}?employeeId=emp-csv", "emp-2"), 403)
        theirs = web.call("GET", f"{path}?employeeId=emp-csv", "emp-2", token=ADMIN)
        assert "emp-csv" in theirs.text


# --- policies -----------------------------------------------------------------------------------------------


def test_admin_uploads_replaces_rolls_back_and_removes_a_policy(web: Service) -> None:
    made = web.call(
        "POST",
        "/policies?fileName=air.md",
        content=POLICY,
        headers={"content-type": "text/markdown"},
        token=ADMIN,
    )
    assert made.status_code == 202 and made.json()["status"] == "pending"
    assert made.json()["uploadedBy"] == "emp-1"
    first = ingest_and_get(web, made.json()["id"])
    assert first["status"] == "ready" and first["serves"] and first["totalChunks"] > 0

    found = web.call(
        "POST", "/policies/try", json={"question": "Is business class allowed?"}, token=ADMIN
    ).json()
    best = found["passages"][0]
    assert best["citation"]["file_name"] == "air.md" and best["similarity"] >= 0
    assert found["confidence"] in ("low", "high")
    asked = web.call("POST", "/bookings", json={"text": "How much may a hotel cost a night?"})
    assert asked.status_code == 200 and "250 dollars" in asked.json()["text"]
    assert "(air.md, " in asked.json()["text"]
    assert asked.json()["passages"][0]["citation"]["file_name"] == "air.md"

    form = {"file": ("folder/air.md", POLICY.replace(b"250", b"300"), "text/markdown")}
    put = web.call("PUT", f"/policies/{first['id']}", files=form, token=ADMIN)
    assert put.status_code == 202 and put.json()["fileName"] == "air.md", put.text
    second = ingest_and_get(web, put.json()["id"])
    assert (second["edition"], second["serves"]) == (2, True)

    back = web.call("POST", f"/policies/{second['id']}/rollback", token=ADMIN).json()
    assert (back["id"], back["serves"]) == (first["id"], True)
    # Any edition's id names the document: nothing precedes the first.
    problem = check_problem(web.call("POST", f"/policies/{second['id']}/rollback", token=ADMIN), 400)
    assert "No earlier edition" in problem["detail"]
    forward = web.call("POST", f"/policies/{first['id']}/rollforward", token=ADMIN).json()
    assert (forward["id"], forward["serves"]) == (second["id"], True)
    problem = check_problem(web.call("POST", f"/policies/{first['id']}/rollforward", token=ADMIN), 400)
    assert "No later edition" in problem["detail"]
    web.call("POST", f"/policies/{second['id']}/rollback", token=ADMIN)

    assert web.call("DELETE", f"/policies/{second['id']}", token=ADMIN).status_code == 204
    check_problem(web.call("GET", f"/policies/{second['id']}", token=ADMIN), 404)
    listed = web.call("GET", "/policies", token=ADMIN).json()["items"]
    assert [each["id"] for each in listed] == [first["id"]]


def test_concurrent_changes_of_a_policy_conflict_in_plain_words(web: Service) -> None:
    """At least one of them succeeds; none of the others shows a statement or a table."""
    made = web.call(
        "POST",
        "/policies?fileName=air.md",
        content=POLICY,
        headers={"content-type": "text/markdown"},
        token=ADMIN,
    )
    path = f"/policies/{made.json()['id']}"

    def put(number: int) -> httpx2.Response:
        return web.call("PUT", path, files={"file": ("air.md", POLICY, "text/markdown")}, token=ADMIN)

    def delete(number: int) -> httpx2.Response:
        return web.call("DELETE", path, token=ADMIN)

    for change, accepted, others in ((put, 202, {409}), (delete, 204, {409, 404})):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(change, range(8)))
        refused = [each for each in answers if each.status_code != accepted]
        assert len(refused) < len(answers)
        for each in refused:
            assert each.status_code in others, each.text
            problem = check_problem(each, each.status_code)
            assert "polic" in problem["detail"] and "tripcortex." not in each.text
    for each in web.call("GET", "/policies", token=ADMIN).json()["items"]:
        if each["documentId"] == made.json()["documentId"]:
            web.call("DELETE", f"/policies/{each['id']}", token=ADMIN)


def test_invalid_policy_file_is_refused_or_fails_with_a_reason(web: Service) -> None:
    def post(content: bytes, media: str = "application/pdf", name: str = "x.pdf") -> httpx2.Response:
        headers = {"content-type": media}
        return web.call("POST", f"/policies?fileName={name}", content=content, headers=headers, token=ADMIN)

    check_problem(post(b"", name="empty.pdf"), 400)
    check_problem(post(b"text", name=""), 400)
    check_problem(post(b"{}", media="application/json"), 415)
    check_problem(post(b"x" * 2_000_001), 413)
    # With and without a form, and without a content length.
    check_problem(post(b"x" * 1_000_001), 413)
    form = {"file": ("p.md", b"x" * 1_500_000, "text/markdown")}
    check_problem(web.call("POST", "/policies", files=form, token=ADMIN), 413)
    check_problem(web.call("POST", "/policies", content=stream_form(), headers=FORM, token=ADMIN), 413)
    rules = {"file": ("p.md", POLICY, "text/markdown"), "rules": (None, "{no rules")}
    check_problem(web.call("POST", "/policies", files=rules, token=ADMIN), 400)
    for body in (b"{no rules", b"", b"\xff\xfe", b" " * 300_000):
        sent = {**rules, "rules": ("rules.json", body, "application/json")}
        check_problem(web.call("POST", "/policies", files=sent, token=ADMIN), 400)
    check_problem(post(b"hi", media="text/plain", name="hi.txt"), 400)
    check_problem(post(b"vm-17", media="application/octet-stream", name="hostname"), 400)
    check_problem(web.call("POST", "/policies", files={"other": ("p.md", POLICY)}, token=ADMIN), 400)

    broken = post(b"%PDF-1.7 and nothing after it")
    assert broken.status_code == 202
    failed = ingest_and_get(web, broken.json()["id"])
    assert failed["status"] == "failed" and failed["errorMessage"]


def test_accepts_rules_as_a_form_field_or_a_file(web: Service) -> None:
    text = json.dumps(build_policy_rules())
    for rules in ((None, text), ("rules.json", text.encode(), "application/json")):
        form: Any = {"file": ("rules.md", POLICY, "text/markdown"), "rules": rules}
        made = web.call("POST", "/policies", files=form, token=ADMIN)
        assert made.status_code == 202, made.text
        kept = web.run(web.stores.run(knowledge.policy(UUID(made.json()["id"]))))
        assert kept is not None and kept.rules == json.loads(text)
        assert web.call("DELETE", f"/policies/{kept.id}", token=ADMIN).status_code == 204


def test_only_admins_of_the_organisation_see_policies(web: Service) -> None:
    paths = web.http.get("/openapi.json").json()["paths"]
    walked = [(method, path) for path in paths if path.startswith("/policies") for method in paths[path]]
    assert len(walked) >= 7
    for method, path in walked:
        address = path.replace("{policy_id}", "00000000-0000-4000-8000-000000000000")
        check_problem(web.call(method.upper(), address, "emp-2"), 403)
        founder = {"is_admin": True, "flaw": "other_organisation"}
        check_problem(web.call(method.upper(), address, "emp-2", token=founder), 401)


# --- access -------------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-57")
def test_no_route_shows_another_employees_data(web: Service) -> None:
    booking_id = web.request_trip("emp-mine")
    paths = web.http.get("/openapi.json").json()["paths"]
    walked = [(method, path) for path in paths if "{booking_id}" in path for method in paths[path]]
    assert len(walked) >= 6
    bodies = {
        "choice": {"optionId": "opt-1"},
        "answer": {"text": "Chicago"},
        "approval": {"employeeId": "emp-mine", "decision": "approve"},
        "price": {"decision": "accept"},
    }
    before = web.booking("emp-mine", booking_id)
    for method, path in walked:
        body = bodies.get(path.rpartition("/")[2])
        answers = [
            web.call(method.upper(), path.replace("{booking_id}", named), "emp-yours", json=body, token=token)
            for named in (booking_id, "01KKBW6R000000000000000000", "nonsense")
            for token in ({}, ADMIN)
        ]
        problems = [check_problem(each, 404) for each in answers]
        assert len({each["detail"] for each in problems}) == 1, path
    assert web.booking("emp-mine", booking_id) == before

    lists = [path for path in paths if "get" in paths[path] and "{" not in path]
    assert {"/bookings", "/audit", "/audit.csv", "/bookings.csv"} <= set(lists)
    cursor = web.call("GET", "/bookings?limit=1", "emp-pages").json()["cursor"]
    for path in [*lists, f"/bookings?cursor={cursor}"]:
        assert booking_id not in web.call("GET", path, "emp-yours").text, path


@pytest.mark.parametrize("flaw", ["expired", "forged", "other_issuer", "other_audience", "no_employee"])
def test_every_documented_route_requires_a_valid_token(web: Service, flaw: Any) -> None:
    paths = web.http.get("/openapi.json").json()["paths"]
    open_to_all = {"/health/live", "/health/ready", "/metrics"}
    for path in set(paths) - open_to_all:
        for method in paths[path]:
            address = re.sub(r"{\w+}", "x", path)
            assert web.http.request(method.upper(), address).status_code == 401, path
            if path.startswith("/scim/"):
                # Its errors have SCIM's format, see test_directory_routes.
                assert web.call(method.upper(), address, token={"flaw": flaw}).status_code == 401
            elif not path.startswith("/@"):
                check_problem(web.call(method.upper(), address, token={"flaw": flaw}), 401)


def test_internal_route_refuses_unsigned_and_badly_signed_calls(web: Service) -> None:
    for headers in ({}, {"x-tripcortex-signature": "t=1,v1=00"}, web.headers("emp-1", is_admin=True)):
        check_problem(web.http.post("/@connections/abc", content=b"{}", headers=headers), 401)


@pytest.mark.parametrize(
    ("lengths", "sent"),
    [
        ("content-length: 200000000", b"{}"),
        # The service accepts this size elsewhere, but no frame is as large.
        ("content-length: 1000000", b"{}"),
        (
            "transfer-encoding: chunked",
            (b"10000\r\n" + b"x" * 0x10000 + b"\r\n") * (MAX_FRAME_BYTES // 0x10000 + 1),
        ),
    ],
)
def test_unauthenticated_body_is_read_only_up_to_a_frames_size(
    web: Service, lengths: str, sent: bytes
) -> None:
    """The body never ends: the service responds without waiting for the rest."""
    url = urlsplit(web.url)
    assert url.hostname is not None and url.port is not None
    head = f"POST /@connections/x HTTP/1.1\r\nhost: {url.netloc}\r\n{lengths}\r\n\r\n"
    with socket.create_connection((url.hostname, url.port), timeout=20) as line:
        line.sendall(head.encode() + sent)
        assert line.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_openapi_describes_requests_and_authentication(web: Service) -> None:
    description = web.http.get("/openapi.json").json()
    assert description["components"]["securitySchemes"]["Bearer"]["scheme"] == "bearer"
    asked = description["paths"]["/bookings"]["post"]
    assert asked["security"] == [{"Bearer": []}]
    assert asked["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/TripAsked"
    }
    assert "text" in description["components"]["schemas"]["TripAsked"]["properties"]
    assert "multipart/form-data" in description["paths"]["/policies"]["post"]["requestBody"]["content"]
    ids = [each["operationId"] for path in description["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))


# --- helpers ------------------------------------------------------------------------------------------------


def make_entry(booking: Booking, at: datetime) -> AuditRecord:
    """Build an audit entry of a past step, with an id of the same time."""
    then = SimpleNamespace(now=at.timestamp)
    return AuditRecord(
        booking_id=booking.booking_id,
        audit_id=UlidGenerator(then).new(),
        employee_id=booking.employee_id,
        timestamp=at,
        event=AuditEvent.reasoning,
        step="ReasonAndPlan",
        expires_at=compute_audit_expiry(at),
    )


def stream_form() -> Iterator[bytes]:
    """Yield a form whose file has 1.5 million bytes, without a content length."""
    yield b'--part\r\ncontent-disposition: form-data; name="file"; filename="p.md"\r\n\r\n'
    for _ in range(15):
        yield b"x" * 100_000


def ingest_and_get(web: Service, policy_id: str) -> dict[str, Any]:
    """Ingest all pending policies, and return this one as the API shows it."""
    web.run(ingest_pending(web.stores, build_local_embedding()))
    found: dict[str, Any] = web.call("GET", f"/policies/{policy_id}", token=ADMIN).json()
    return found


def check_problem(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """Check that the response is a problem with this status; return it."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == PROBLEM_JSON
    problem: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "instance"} <= problem.keys()
    return problem
