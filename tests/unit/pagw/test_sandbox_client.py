"""The stand-in for a client's server, called as the gateway calls it: over real HTTP, signed, by checked addresses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.clock import RunClock
from holdfast.web import serve_in_thread, sign
from holdfast.web.sandbox_faults import Faults
from holdfast.web.webhook_targets import Delivery, check_target, deliver, open_target_client
from pagw.demo.sandbox.client import (
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

Tell = Callable[..., Awaitable[Delivery]]


def notification(type: str, *, in_r4: bool = True) -> bytes:
    status: dict[str, Any] = {"resourceType": "SubscriptionStatus", "type": type}
    if in_r4:
        status = {
            "resourceType": "Parameters",
            "parameter": [{"name": "topic"}, {"name": "type", "valueCode": type}],
        }
    response = {"resourceType": "ClaimResponse", "identifier": [{"value": PAGW_ID}], "note": "Amal Haddad"}
    entries = [{"resource": status}, {"resource": response}]
    return json.dumps({"resourceType": "Bundle", "type": "history", "entry": entries}).encode()


def telling(sandbox: ClientSandbox, tell: Callable[[Tell], Awaitable[Any]]) -> Any:
    """What `tell` makes of a client's server that stands behind `Tell`: path, body, and what is unlike the usual."""

    async def run(url: str) -> Any:
        async with open_target_client(allow_private=True) as client:

            async def told(
                path: str,
                body: bytes,
                id: str | None = "d-1",
                *,
                secret: str = SECRET,
                patience_s: float = 5.0,
            ) -> Delivery:
                headers = {SIGNATURE_HEADER: sign(secret, body, sandbox.clock.now())}
                headers |= {} if id is None else {DELIVERY_HEADER: id}
                target = check_target(url + path, allow_private=True)
                return await deliver(client, target, body, headers, timeout_s=patience_s)

            return await tell(told)

    with serve_in_thread(build_client_app(sandbox)) as url:
        return asyncio.run(run(url))


def made(folder: Path, **options: Any) -> ClientSandbox:
    return ClientSandbox(RunClock(folder / "clock", start=NOW), folder, **options)


def test_takes_what_it_is_told_and_counts_how_often(tmp_path: Path) -> None:
    sandbox = made(tmp_path)

    async def tell(told: Tell) -> list[Delivery]:
        return [
            await told("/callbacks/acme", CALLBACK),
            await told("/callbacks/acme", CALLBACK),
            await told("/notifications/acme", notification("event-notification"), "d-2"),
            await told("/notifications/acme", notification("event-notification", in_r4=False), "d-2"),
            await told("/notifications/acme", notification("handshake"), None),
        ]

    assert {each.outcome for each in telling(sandbox, tell)} == {"delivered"}
    callback, told, handshake = sandbox.received.values()
    assert callback == ReceivedCall("d-1", "callback", PAGW_ID, "acme", times=2, bodies=1)
    # Under one id, and not the same: a fault of who sends.
    assert told == ReceivedCall("d-2", "notification", PAGW_ID, "acme", times=2, bodies=2)
    assert (handshake.kind, handshake.times) == ("handshake", 1)


def test_its_ledger_outlives_the_process_and_has_nothing_of_a_patient(tmp_path: Path) -> None:
    async def tell(told: Tell) -> Delivery:
        return await told("/notifications/acme", notification("event-notification"))

    first = made(tmp_path)
    telling(first, tell)
    kept = tmp_path / "client.jsonl"
    # As where the process ended within a line.
    kept.write_text(kept.read_text() + '{"number": 2, "id"')

    second = made(tmp_path)
    assert second.ledger == first.ledger
    telling(second, tell)
    assert second.received["d-1"].times == 2
    assert [json.loads(line)["number"] for line in kept.read_text().splitlines()] == [1, 2]
    assert "Haddad" not in kept.read_text()


def test_refuses_a_call_that_does_not_prove_who_makes_it(tmp_path: Path) -> None:
    sandbox = made(tmp_path)

    async def tell(told: Tell) -> list[Delivery]:
        forged = await told("/callbacks/acme", CALLBACK, secret="another-secret-of-somebody")
        return [
            forged,
            await told("/callbacks/acme", CALLBACK, None),
            await told("/notifications/acme", CALLBACK),
        ]

    assert [each.status for each in telling(sandbox, tell)] == [401, 400, 400]
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
def test_goes_wrong_as_it_is_told_to(
    tmp_path: Path, behaviour: Behaviour, outcome: str, status: int | None, is_recorded: bool
) -> None:
    sandbox = made(tmp_path, behaviour=behaviour)
    patience_s = 0.1 if behaviour.faults.silent_after else 5.0

    async def tell(told: Tell) -> Delivery:
        return await told("/callbacks/acme", CALLBACK, patience_s=patience_s)

    found = telling(sandbox, tell)
    assert (found.outcome, found.status) == (outcome, status)
    assert len(sandbox.ledger) == is_recorded


def test_is_driven_by_its_doors(tmp_path: Path) -> None:
    sandbox = made(tmp_path)

    with serve_in_thread(build_client_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        http.post(
            "/sandbox/behaviour",
            json={"faults": {"failed_before": 0.5, "seed": 3}, "refuses_handshakes": True},
        )
        set_to = Behaviour(Faults(failed_before=0.5, seed=3), refuses_handshakes=True)
        assert repr(sandbox.behaviour) == repr(set_to)
        body = notification("handshake")
        headers = {SIGNATURE_HEADER: sign(SECRET, body, NOW)}
        assert http.post("/notifications/acme", content=body, headers=headers).status_code == 403

        http.post("/sandbox/behaviour", json={})
        answer = http.post("/notifications/acme", content=body, headers=headers)
        assert (answer.status_code, answer.headers["x-sandbox"]) == (200, "holdfast-pagw-client")
        assert http.get("/sandbox/ledger").json() == {"ledger": sandbox.ledger, "refused": 1}
        assert http.get("/sandbox/received").json()["received"][0]["kind"] == "handshake"
