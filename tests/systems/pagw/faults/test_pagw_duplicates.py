"""Fifty concurrent copies of a request at two API processes: exactly one is processed.

The others get 409 or the stored answer, and another payload under the same key is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from holdfast_demo.pagw.sample.bundles import build_request_bundle
from holdfast_demo.pagw.sandbox.payer_rules import DENIED
from tests.systems.pagw.idempotency_keys import build_idempotency_key

from .pagw_processes import PagwProcesses

COPIES = 50


@pytest.mark.proves("PG-5", "PG-6", "PG-X1")
async def test_one_of_fifty_concurrent_copies_is_processed(tmp_path: Path) -> None:
    with PagwProcesses(tmp_path, apis=2) as processes:
        for number in range(2):
            processes.add(f"api {number}")
        processes.wait_until_ready()
        await _check_duplicates(processes)
        processes.stop_workers()


async def _check_duplicates(processes: PagwProcesses) -> None:
    """Send copies, a late copy, another payload, racing payloads, and another tenant's request."""
    asked, other = (json.dumps(build_request_bundle(items=[code])).encode() for code in ("99213", DENIED))
    async with httpx2.AsyncClient(timeout=60) as http:
        desk = ApiClient(processes, http)
        copies = await asyncio.gather(*(desk.post("one", asked, number) for number in range(COPIES)))
        taken = _check_copies(processes, "one", copies)

        again = await desk.post("one", asked)
        assert again.status_code == 202 and again.headers["idempotency-replayed"] == "true"
        assert again.json()["pagwId"] == taken
        _check_refused(await desk.post("one", other))

        bodies = [asked, other] * (COPIES // 2)
        mixed = await asyncio.gather(
            *(desk.post("two", body, number // 2) for number, body in enumerate(bodies))
        )
        _check_mixed(processes, mixed)
        # The same key of another tenant is another key.
        elsewhere = await desk.post("one", other, tenant="zenith")
        assert elsewhere.status_code == 202 and elsewhere.json()["pagwId"] != taken


class ApiClient:
    """Client of the native API at all API processes."""

    def __init__(self, processes: PagwProcesses, http: httpx2.AsyncClient) -> None:
        self._processes, self._http = processes, http

    async def post(self, key: str, body: bytes, number: int = 0, tenant: str = "acme") -> httpx2.Response:
        """Submit a body under a key. `number` chooses the API process."""
        headers = {
            "authorization": f"Bearer {self._processes.mint_token(tenant)}",
            "content-type": "application/fhir+json",
            "x-idempotency-key": key,
        }
        api = self._processes.servers[number % len(self._processes.servers)]
        return await self._http.post(f"{api}/pas/requests", content=body, headers=headers)


def _check_copies(processes: PagwProcesses, key: str, answers: list[httpx2.Response]) -> str:
    """Check that all copies share one request, and return its id."""
    statuses = Counter(each.status_code for each in answers)
    assert statuses.keys() <= {202, 409} and statuses[202] >= 1
    accepted = [each for each in answers if each.status_code == 202]
    assert sum("idempotency-replayed" not in each.headers for each in accepted) == 1
    [id] = {each.json()["pagwId"] for each in accepted}
    for each in answers:
        if each.status_code == 409:
            assert int(each.headers["retry-after"]) > 0
            assert each.json()["issue"][0]["code"] == "duplicate"
    record_key = build_idempotency_key("acme", key, processes.variables)
    [row] = processes.query(
        f"SELECT * FROM pagw.request_tracker WHERE metadata->>'idempotencyKey' = '{record_key}'"
    )
    assert row["pagw_id"] == id
    sent = processes.query(
        f"SELECT 1 FROM pagw.outbox WHERE aggregate = '{id}' AND queue_name = 'pagw-request-enricher-queue'"
    )
    assert len(sent) == 1
    return str(id)


def _check_mixed(processes: PagwProcesses, answers: list[httpx2.Response]) -> None:
    """Check two payloads racing for one key: one wins, and no copy of the other is accepted."""
    first, second = answers[0::2], answers[1::2]
    won, lost = (first, second) if any(each.status_code == 202 for each in first) else (second, first)
    _check_copies(processes, "two", won)
    for each in lost:
        _check_refused(each)


def _check_refused(answer: httpx2.Response) -> None:
    """Check that the answer is a 422 for another payload under the same key."""
    assert answer.status_code == 422
    assert answer.json()["resourceType"] == "OperationOutcome"
    assert answer.json()["issue"][0]["code"] == "conflict"
