"""Copies of a request that come at the same moment, at two processes of the API: one is taken in, and the others are told
that it is under way, or what the one was told; another payload under the same key is refused.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from pagw.demo.sample.bundles import build_request_bundle
from pagw.demo.sandbox.payer_rules import DENIED

from .pagw_stage import Stage

COPIES = 50


@pytest.mark.proves("PG-5")
@pytest.mark.proves("PG-6")
@pytest.mark.proves("PG-X1")
def test_of_fifty_copies_at_once_one_is_processed_and_another_payload_is_refused(tmp_path: Path) -> None:
    with Stage(tmp_path, apis=2) as stage:
        for process in [stage.add_api(number) for number in range(2)]:
            stage.first_line(process)
        asyncio.run(_judge(stage))
        stage.stop_crew()


async def _judge(stage: Stage) -> None:
    asked, other = (json.dumps(build_request_bundle(items=[code])).encode() for code in ("99213", DENIED))
    async with httpx2.AsyncClient(timeout=60) as http:
        desk = Desk(stage, http)
        copies = await asyncio.gather(*(desk.post("one", asked, number) for number in range(COPIES)))
        taken = _judge_copies(stage, "one", copies)

        again = await desk.post("one", asked)
        assert again.status_code == 202 and again.headers["idempotency-replayed"] == "true"
        assert again.json()["pagwId"] == taken
        _judge_refused(await desk.post("one", other))

        bodies = [asked, other] * (COPIES // 2)
        mixed = await asyncio.gather(
            *(desk.post("two", body, number // 2) for number, body in enumerate(bodies))
        )
        _judge_mixed(stage, mixed)
        # Of another tenant, the same key is another key.
        elsewhere = await desk.post("one", other, tenant="zenith")
        assert elsewhere.status_code == 202 and elsewhere.json()["pagwId"] != taken


class Desk:
    def __init__(self, stage: Stage, http: httpx2.AsyncClient) -> None:
        self._stage, self._http = stage, http

    async def post(self, key: str, body: bytes, number: int = 0, tenant: str = "acme") -> httpx2.Response:
        headers = {
            "authorization": f"Bearer {self._stage.token(tenant)}",
            "content-type": "application/fhir+json",
            "x-idempotency-key": key,
        }
        api = self._stage.apis[number % len(self._stage.apis)]
        return await self._http.post(f"{api}/pas/requests", content=body, headers=headers)


def _judge_copies(stage: Stage, key: str, answers: list[httpx2.Response]) -> str:
    """Gives the id under which they are one."""
    statuses = Counter(each.status_code for each in answers)
    assert statuses.keys() <= {202, 409} and statuses[202] >= 1
    accepted = [each for each in answers if each.status_code == 202]
    assert sum("idempotency-replayed" not in each.headers for each in accepted) == 1
    [id] = {each.json()["pagwId"] for each in accepted}
    for each in answers:
        if each.status_code == 409:
            assert int(each.headers["retry-after"]) > 0
            assert each.json()["issue"][0]["code"] == "duplicate"
    [row] = stage.rows(f"SELECT * FROM pagw.request_tracker WHERE metadata->>'idempotencyKey' = 'acme:{key}'")
    assert row["pagw_id"] == id
    sent = stage.rows(
        f"SELECT 1 FROM pagw.outbox WHERE aggregate = '{id}' AND queue_name = 'pagw-request-enricher-queue'"
    )
    assert len(sent) == 1
    return str(id)


def _judge_mixed(stage: Stage, answers: list[httpx2.Response]) -> None:
    """Two payloads race for one key: one wins, and no copy of the other is ever taken for it."""
    first, second = answers[0::2], answers[1::2]
    won, lost = (first, second) if any(each.status_code == 202 for each in first) else (second, first)
    _judge_copies(stage, "two", won)
    for each in lost:
        _judge_refused(each)


def _judge_refused(answer: httpx2.Response) -> None:
    assert answer.status_code == 422
    assert answer.json()["resourceType"] == "OperationOutcome"
    assert answer.json()["issue"][0]["code"] == "conflict"
