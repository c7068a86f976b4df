"""The sandbox of a client's server, called over real HTTP with signatures, as the gateway calls it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread, sign
from holdfast.web.sandbox_faults import Faults
from holdfast.web.webhook_targets import DeliveryAttempt, check_target, deliver, open_target_client
from holdfast_demo.pagw.sandbox.client import (
    DELIVERY_HEADER,
    SECRET,
    SIGNATURE_HEADER,
    Behaviour,
    ClientSandbox,
    ReceivedCall,
    build_client_app,
)

PAGW_ID = "PAGW-01JD0000000000000000000000"
CALLBACK = json.dumps({"pagwId": PAGW_ID, "status": "COMPLETED"}).encode()
NOW = 1_700_000_000.0

Send = Callable[..., Awaitable[DeliveryAttempt]]


def build_notification(type: str, *, in_r4: bool = True) -> bytes:
    """Build a notification of this type, in the form of R4 or R4B."""
    status: dict[str, Any] = {"resourceType": "SubscriptionStatus", "type": type}
    if in_r4:
        status = {
            "resourceType": "Parameters",
            "parameter": [{"name": "topic"}, {"name": "type", "valueCode": type}],
        }
    response = {"resourceType": "ClaimResponse", "identifier": [{"value": PAGW_ID}], "note": "Amal Haddad"}
    entries = [{"resource": status}, {"resource": response}]
    return json.dumps({"resourceType": "Bundle", "type": "history", "entry": entries}).encode()


async def send_to_sandbox(sandbox: ClientSandbox, send_all: Callable[[Send], Awaitable[Any]]) -> Any:
    """Serve the sandbox, pass `send_all` a function that sends one webhook, and return its result."""

    with serve_in_thread(build_client_app(sandbox)) as url:
        async with open_target_client(allow_private=True) as client:

            async def send_one(
                path: str,
                body: bytes,
                id: str | None = "d-1",
                *,
                secret: str = SECRET,
                patience_s: float = 5.0,
            ) -> DeliveryAttempt:
                headers = {SIGNATURE_HEADER: sign(secret, body, sandbox.clock.now())}
                headers |= {} if id is None else {DELIVERY_HEADER: id}
                target = check_target(url + path, allow_private=True)
                return await deliver(client, target, body, headers, timeout_s=patience_s)

            return await send_all(send_one)


def make_sandbox(folder: Path, **options: Any) -> ClientSandbox:
    """Make the sandbox with its ledger and clock in a folder."""
    return ClientSandbox(RunClock(folder / "clock", start=NOW), folder, **options)


async def test_records_each_delivery_and_counts_repeats(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)

    async def tell(send: Send) -> list[DeliveryAttempt]:
        return [
            await send("/callbacks/acme", CALLBACK),
            await send("/callbacks/acme", CALLBACK),
            await send("/notifications/acme", build_notification("event-notification"), "d-2"),
            await send("/notifications/acme", build_notification("event-notification", in_r4=False), "d-2"),
            await send("/notifications/acme", build_notification("handshake"), None),
        ]

    assert {each.outcome for each in await send_to_sandbox(sandbox, tell)} == {"delivered"}
    callback, notified, handshake = sandbox.received.values()
    assert callback == ReceivedCall("d-1", "callback", PAGW_ID, "acme", times=2, bodies=1)
    # Two bodies under one id: an error of the sender.
    assert notified == ReceivedCall("d-2", "notification", PAGW_ID, "acme", times=2, bodies=2)
    assert (handshake.kind, handshake.times) == ("handshake", 1)


async def test_ledger_outlives_the_process_and_holds_no_patient_data(tmp_path: Path) -> None:
    async def tell(send: Send) -> DeliveryAttempt:
        return await send("/notifications/acme", build_notification("event-notification"))

    first = make_sandbox(tmp_path)
    await send_to_sandbox(first, tell)
    kept = tmp_path / "client.jsonl"
    # The line of a process that was killed while writing.
    kept.write_text(kept.read_text() + '{"number": 2, "id"')

    second = make_sandbox(tmp_path)
    assert second.ledger == first.ledger
    await send_to_sandbox(second, tell)
    assert second.received["d-1"].times == 2
    assert [json.loads(line)["number"] for line in kept.read_text().splitlines()] == [1, 2]
    assert "Haddad" not in kept.read_text()


async def test_refuses_forged_calls_calls_without_an_id_and_other_bodies(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)

    async def tell(send: Send) -> list[DeliveryAttempt]:
        forged = await send("/callbacks/acme", CALLBACK, secret="another-secret-of-somebody")
        return [
            forged,
            await send("/callbacks/acme", CALLBACK, None),
            await send("/notifications/acme", CALLBACK),
        ]

    assert [each.status for each in await send_to_sandbox(sandbox, tell)] == [401, 400, 400]
    assert (sandbox.ledger, sandbox.refused) == ([], 2)


@pytest.mark.parametrize(
    ("behaviour", "outcome", "status", "is_recorded"),
    [
        (Behaviour(Faults(failed_before=1.0)), "retry", 503, False),
        (Behaviour(Faults(failed_after=1.0)), "retry", 500, True),
        (Behaviour(Faults(too_many=1.0, retry_after_s=7)), "retry", 429, False),
        (Behaviour(Faults(silent_after=1.0, silence_s=0.3)), "retry", None, True),
        (Behaviour(slow_s=0.05), "delivered", 200, True),
        (Behaviour(is_gone=True), "gone", 410, False),
        (Behaviour(refuses_handshakes=True), "delivered", 200, True),
    ],
)
async def test_answers_and_records_as_its_behaviour_is_set(
    tmp_path: Path, behaviour: Behaviour, outcome: str, status: int | None, is_recorded: bool
) -> None:
    sandbox = make_sandbox(tmp_path, behaviour=behaviour)
    patience_s = 0.1 if behaviour.faults.silent_after else 5.0

    async def tell(send: Send) -> DeliveryAttempt:
        return await send("/callbacks/acme", CALLBACK, patience_s=patience_s)

    found = await send_to_sandbox(sandbox, tell)
    assert (found.outcome, found.status) == (outcome, status)
    assert len(sandbox.ledger) == is_recorded


def test_is_controlled_over_http(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)

    with serve_in_thread(build_client_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        http.post(
            "/sandbox/behaviour",
            json={"faults": {"failed_before": 0.5, "seed": 3}, "refuses_handshakes": True},
        )
        set_to = Behaviour(Faults(failed_before=0.5, seed=3), refuses_handshakes=True)
        assert repr(sandbox.behaviour) == repr(set_to)
        body = build_notification("handshake")
        headers = {SIGNATURE_HEADER: sign(SECRET, body, NOW)}
        assert http.post("/notifications/acme", content=body, headers=headers).status_code == 403

        http.post("/sandbox/behaviour", json={})
        answer = http.post("/notifications/acme", content=body, headers=headers)
        assert (answer.status_code, answer.headers["x-sandbox"]) == (200, "holdfast-pagw-client")
        assert http.get("/sandbox/ledger").json() == {"ledger": sandbox.ledger, "refused": 1}
        assert http.get("/sandbox/received").json()["received"][0]["kind"] == "handshake"
