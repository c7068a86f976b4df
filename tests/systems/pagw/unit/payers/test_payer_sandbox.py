"""The sandbox payer over real HTTP: durable ledger, one effect per reference, decisions, callbacks."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from holdfast_demo.pagw.sandbox.payer_ledger import FILE
from pagw.domain.fhir.decisions import Outcome
from tests.cases import all_cases
from tests.systems.pagw.unit.payers.payer_harness import (
    MEMBER,
    PATIENT,
    Callbacks,
    list_acted_references,
    make_body,
    make_sandbox,
    open_payer,
    open_payer_at,
    parse_decision,
)

# Script of the server process. Its arguments are the folder and the clock file.
SERVER_SCRIPT = """
import sys
from pathlib import Path
from holdfast.core.clock import RunClock
from holdfast.web import serve
from holdfast_demo.pagw.sandbox.payer import PayerSandbox, build_payer_app
from tests.systems.pagw.unit.payers.payer_harness import CALLBACK_SECRET
sandbox = PayerSandbox(RunClock(Path(sys.argv[2])), Path(sys.argv[1]), callback_secret=CALLBACK_SECRET)
serve(build_payer_app(sandbox), host="127.0.0.1", port=0, on_ready=lambda url: print(url, flush=True))
"""
ROOT = Path(__file__).parents[5]


async def decide(sandbox: PayerSandbox, *codes: str) -> Any:
    """Submit a request with these codes, and return the payer's decision."""
    async with open_payer(sandbox) as payer:
        answer = await payer.submit("R-1", make_body("R-1", *codes))
    return parse_decision(answer.body)


@all_cases(
    ("codes", "outcome", "action", "item_actions"),
    [
        (("99213",), "approved", "A1", ["A1"]),
        (("15820",), "denied", "A3", ["A3"]),
        (("97110",), "modified", "A6", ["A6"]),
        (("70551",), "pended", "A4", ["A4"]),
        (("22612", "99213"), "pended", "A4", ["A4", "A4"]),
        (("99213", "15820"), "modified", "A2", ["A1", "A3"]),
    ],
)
async def test_decides_by_the_procedure_codes(
    codes: tuple[str, ...], outcome: str, action: str, item_actions: list[str]
) -> None:
    decision = await decide(make_sandbox(), *codes)
    assert (decision.outcome, decision.action) == (outcome, action)
    assert [each.action for each in decision.items] == item_actions
    assert [each.sequence for each in decision.items] == list(range(1, len(codes) + 1))
    assert (
        bool(decision.authorization_number)
        is bool(decision.valid_to)
        is (outcome in ("approved", "modified"))
    )
    assert bool(decision.reason) is ("15820" in codes)


async def test_modified_item_reports_the_allowed_quantity() -> None:
    (item,) = (await decide(make_sandbox(), "97110")).items
    assert item.authorized.quantity == 10


async def test_items_with_one_sequence_share_the_worst_verdict() -> None:
    items = [{"sequence": 1, "code": code} for code in ("99213", "15820", "97110")]
    body = make_body("R-1", items=items)
    async with open_payer(make_sandbox()) as payer:
        answer = await payer.submit("R-1", body)
    decision = parse_decision(answer.body)
    assert [(each.sequence, each.action) for each in decision.items] == [(1, "A3")]


async def test_thirty_concurrent_submits_of_one_reference_are_one_entry_and_one_answer() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        answers = await asyncio.gather(*(payer.submit("R-1", make_body("R-1")) for _ in range(30)))
    assert set(answers) == {answers[0]}
    assert list_acted_references(sandbox) == ["R-1"]


async def test_ledger_holds_no_patient_data(tmp_path: Path) -> None:
    sandbox = make_sandbox(folder=tmp_path)
    await decide(sandbox, "99213")
    kept = (tmp_path / FILE).read_text()
    assert "R-1" in kept
    assert not any(word in kept for word in (MEMBER, PATIENT))


async def test_ignores_a_truncated_ledger_line(tmp_path: Path) -> None:
    await decide(make_sandbox(folder=tmp_path), "99213")
    with (tmp_path / FILE).open("a") as file:
        file.write('{"number": 2, "what": "authori')
    again = make_sandbox(folder=tmp_path)
    async with open_payer(again) as payer:
        await payer.submit("R-2", make_body("R-2"))
    assert list_acted_references(make_sandbox(folder=tmp_path)) == ["R-1", "R-2"]


async def test_pended_request_is_decided_by_the_clock_and_called_back_until_accepted(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_770_000_000.0)
    sandbox = make_sandbox(clock=clock, decide_after_s=3600.0)
    callbacks = Callbacks(clock, fails=2)
    with callbacks.listen() as url:
        async with open_payer(sandbox) as payer:
            faults = f"{payer.config.api_endpoint}/sandbox/faults"
            await payer.http.post(faults, json={"callback_copies": 3})
            for reference, code in (("R-1", "70551"), ("R-2", "22612")):
                body = make_body(reference, code, callback_url=url)
                assert (await payer.submit(reference, body)).status == "pended"
            clock.advance(3599)
            assert (found := await payer.find("R-1")) is not None and found.status == "pended"
            clock.advance(1)
            heard = [await asyncio.to_thread(callbacks.next) for _ in range(6)]
    by_id = {each["id"]: each for each in heard}
    assert [sum(each["id"] == id for each in heard) for id in by_id] == [3, 3]
    decisions = {each["reference"]: parse_decision(json.dumps(each).encode()) for each in by_id.values()}
    assert (decisions["R-1"].outcome, decisions["R-2"].outcome) == (Outcome.APPROVED, Outcome.DENIED)
    assert decisions["R-2"].reason
    assert callbacks.refused == 2
    assert [each["what"] for each in sandbox.ledger].count("callback") == 2


async def test_cancelled_pended_request_is_not_decided(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_770_000_000.0)
    sandbox = make_sandbox(clock=clock, decide_after_s=60.0)
    async with open_payer(sandbox) as payer:
        await payer.submit("R-1", make_body("R-1", "70551", callback_url="http://127.0.0.1:1/"))
        await payer.cancel("R-1", "R-2", make_body("R-2", "70551", kind="cancel", former_reference="R-1"))
        clock.advance(3600)
        found = await payer.find("R-1")
    assert found is not None
    assert parse_decision(found.body).outcome is Outcome.CANCELLED
    assert [each["what"] for each in sandbox.ledger] == ["authorization", "authorization"]


async def test_updated_pended_request_is_called_back_as_cancelled() -> None:
    sandbox = make_sandbox()
    callbacks = Callbacks(sandbox.clock)
    with callbacks.listen() as url:
        async with open_payer(sandbox) as payer:
            await payer.submit("R-1", make_body("R-1", "70551", callback_url=url))
            await payer.update("R-1", "R-2", make_body("R-2", kind="update", former_reference="R-1"))
            heard = await asyncio.to_thread(callbacks.next)
    assert (heard["reference"], heard["status"], heard["replaced_by"]) == ("R-1", "final", "R-2")
    assert parse_decision(json.dumps(heard).encode()).outcome is Outcome.CANCELLED


@contextmanager
def start_process(folder: Path, clock: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the payer as a process until the block ends. Yield its address and the process."""
    command = [sys.executable, "-c", SERVER_SCRIPT, str(folder), str(clock)]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield running.stdout.readline().strip(), running
    finally:
        running.kill()
        running.communicate()


async def test_killed_payer_keeps_its_ledger_decisions_and_callbacks(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=1_770_000_000.0)
    callbacks = Callbacks(clock)
    folder, clock_file = tmp_path / "ledger", tmp_path / "clock"
    with start_process(folder, clock_file) as (url, running):
        async with open_payer_at(url, clock, auth_type="none") as (payer, _):
            nobody = "http://127.0.0.1:1/payer-callbacks/acme"
            await payer.submit("R-1", make_body("R-1", "70551", callback_url=nobody))
            await payer.submit("R-2", make_body("R-2", "22612", callback_url=nobody))
            answer = await payer.submit("R-3", make_body("R-3"))
            (await payer.http.post(f"{url}/sandbox/decisions", json={"reference": "R-1"})).raise_for_status()
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    with callbacks.listen() as heard_at, start_process(folder, clock_file) as (url, _):
        async with open_payer_at(url, clock, auth_type="none") as (payer, _):
            clock.advance(3600)
            (await payer.http.post(f"{url}/sandbox/callbacks", json={"url": heard_at})).raise_for_status()
            assert await payer.submit("R-3", make_body("R-3")) == answer
            heard = [await asyncio.to_thread(callbacks.next) for _ in range(2)]
            entries = (await payer.http.get(f"{url}/sandbox/ledger")).json()["ledger"]
    acted = [each["reference"] for each in entries if each["what"] == "authorization"]
    assert acted == ["R-1", "R-2", "R-3"]
    assert {each["reference"]: each["decision"]["outcome"] for each in heard} == {
        "R-1": "approved",
        "R-2": "denied",
    }


BAD_CONTROL_BODIES: list[tuple[str, Any, str]] = [
    ("faults", {"too_many": 2}, "too_many"),
    ("faults", {"too_many": "much"}, "too_many"),
    ("faults", {"failed_befor": 1}, "failed_befor"),
    ("faults", {"callback_copies": 0}, "callback_copies"),
    ("faults", [], "should be an object"),
    ("faults", "{", "Invalid JSON"),
    ("faults", "[" * 50_000, "Invalid JSON"),
    ("faults", b"\xff\xfe", "Invalid JSON"),
    ("faults", '{"\\ud800": 1}', "Invalid JSON"),
    ("decisions", {}, "reference"),
    ("decisions", {"reference": 7}, "reference"),
    ("callbacks", {"url": "ftp://x"}, "url"),
    ("callbacks", {"url": None}, "url"),
]


def test_control_endpoints_refuse_invalid_bodies_with_a_reason() -> None:
    with serve_in_thread(build_payer_app(make_sandbox())) as url, httpx2.Client(base_url=url) as http:
        for door, body, said in BAD_CONTROL_BODIES:
            is_raw = isinstance(body, str | bytes)
            answer = http.post(f"/sandbox/{door}", content=body if is_raw else json.dumps(body))
            assert answer.status_code == 400, (door, body)
            assert said in json.dumps(answer.json()["errors"])
        assert http.post("/sandbox/decisions", json={"reference": "R-9"}).status_code == 404
        assert http.delete("/sandbox/ledger").status_code == 405


def test_refuses_invalid_requests_without_acting() -> None:
    sandbox = make_sandbox(client_id="", client_secret="")
    good = json.loads(make_body("R-1"))
    bodies: list[Any] = [
        [],
        {},
        good | {"items": []},
        good | {"items": [{"sequence": 0, "code": "1"}]},
        good | {"items": [{"sequence": 1, "code": "1", "quantity": "NaN"}]},
        good | {"kind": "cancel"},
        good | {"reference": "R-2"},
        good | {"callback_url": "file:///etc"},
    ]
    with serve_in_thread(build_payer_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        headers = {"idempotency-key": "R-1"}
        for body in bodies:
            answer = http.post("/prior-authorizations", json=body, headers=headers)
            assert (answer.status_code, answer.json()) == (400, {"error": "invalid_request"}), body
        assert http.post("/prior-authorizations", content=b"{", headers=headers).status_code == 400
        assert http.post("/prior-authorizations", json=good).status_code == 400
        assert http.get("/prior-authorizations").json() == {"authorizations": []}
        assert http.post("/oauth/token", data={"grant_type": "password"}).status_code == 400
    assert list_acted_references(sandbox) == []


def test_gives_a_token_only_to_its_client() -> None:
    with serve_in_thread(build_payer_app(make_sandbox())) as url, httpx2.Client(base_url=url) as http:
        form = {"grant_type": "client_credentials"}
        for header in ("Basic", "Basic %%%", "Basic /w==", "Basic Og==", "Bearer x", ""):
            refused = http.post("/oauth/token", data=form, headers={"authorization": header})
            assert (refused.status_code, refused.json()) == (401, {"error": "invalid_client"}), header
        assert http.get("/prior-authorizations", headers={"authorization": "Bearer x"}).status_code == 401


async def test_refuses_an_expired_token() -> None:
    sandbox = make_sandbox(token_life_s=60.0)
    async with open_payer(sandbox) as payer:
        headers = {"authorization": f"Bearer {await payer.get_token()}"}
        statuses = []
        for wait in (59, 1):
            sandbox.clock.at += wait  # type: ignore[attr-defined]
            answer = await payer.http.get(
                f"{payer.config.api_endpoint}/prior-authorizations", headers=headers
            )
            statuses.append(answer.status_code)
    assert statuses == [200, 401]


async def test_slow_payer_answers_late_and_acts_once() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        url = f"{payer.config.api_endpoint}/sandbox/faults"
        (await payer.http.post(url, json={"slow_s": 0.2, "seed": 3})).raise_for_status()
        found = await payer.submit("R-1", make_body("R-1"))
    assert found.status == "final"
    assert (sandbox.faults.slow_s, sandbox.faults.seed, list_acted_references(sandbox)) == (0.2, 3, ["R-1"])
