"""Random prior-authorization requests, and the clients that send them in copies and with retries.

Requests belong to two tenants and three clinics, native and FHIR, for two payers of different formats; the
payers approve, deny, modify or pend them.
Later requests update or cancel former ones, some twice. A client retries until its request is accepted,
except for those that give up at the first failure.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal

import httpx2

from holdfast_demo.pagw.sample.bundles import (
    PROVIDER_NPIS,
    SampleAttachment,
    SampleItem,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
    get_person,
)
from holdfast_demo.pagw.sandbox import PAS_PAYER_ID, PAYER_ID, TENANTS, payer_rules
from pagw.domain.fhir.subscriptions import SubscriptionRequest, build_subscription_resource
from pagw.domain.fhir.urls import TOPIC

from .pagw_processes import PagwProcesses

# The payer's decision on a code, and the code's weight.
CODES: Final[Mapping[str, tuple[str, int]]] = {
    "99213": ("approved", 4),
    payer_rules.DENIED: ("denied", 1),
    payer_rules.MODIFIED: ("modified", 1),
    payer_rules.PENDED_APPROVED: ("approved", 2),
    payer_rules.PENDED_DENIED: ("denied", 1),
}
CLINICS: Final = PROVIDER_NPIS[:3]
SUBSCRIBED: Final = (("acme", CLINICS[0]), ("acme", CLINICS[1]), ("zenith", CLINICS[0]))
CHANGES_SHARE: Final = 0.2
MAX_COPIES: Final = 4
GIVES_UP_SHARE: Final = 0.08
OTHER_PAYLOAD_SHARE: Final = 0.15
ANSWER_S: Final = 30.0
RETRY_S: Final = 0.3
# Clients back off, so that the clock can move past the lease of a dead process.
MAX_RETRY_S: Final = 4.0

Api = Literal["native", "fhir"]
Kind = Literal["submit", "update", "cancel"]
# Statuses in which a request may be changed: the payer has it.
CHANGEABLE: Final = ("PENDED", "SUBMITTED", "RESPONSE_BUILT", "CALLBACK_SENT", "COMPLETED", "CANCELLED")


@dataclass(eq=False)
class ClientRequest:
    """One request under one key. `expected_decision` is set where no other request can change it."""

    number: int
    tenant: str
    npi: str
    payer: str
    api: Api
    bundle: dict[str, Any] = field(repr=False)
    kind: Kind = "submit"
    former: ClientRequest | None = None
    expected_decision: str | None = None
    callback: Literal["client", "gone"] | None = None
    has_key: bool = True
    copies: int = 1
    gives_up: bool = False
    tries_other: bool = False
    # The acknowledged id; empty without an acknowledgement.
    pagw_id: str = ""

    @property
    def key(self) -> str:
        return f"key-{self.number}"

    @property
    def body(self) -> bytes:
        return json.dumps(self.bundle).encode()

    @property
    def other_body(self) -> bytes:
        """The same request with another quantity."""
        other = deepcopy(self.bundle)
        other["entry"][0]["resource"]["item"][0]["quantity"]["value"] = 99
        return json.dumps(other).encode()


def make_traffic(random: Random, count: int) -> list[ClientRequest]:
    """Make `count` random requests. Updates and cancellations come after the requests they change."""
    changes = int(count * CHANGES_SHARE)
    asked = [_make_submission(random, number) for number in range(count - changes)]
    formers = [each for each in asked if not each.gives_up]
    random.shuffle(formers)
    while len(asked) < count:
        former = formers.pop()
        kind: Kind = random.choice(("update", "cancel", "cancel"))
        for _ in range(random.choice((1, 1, 2)) if kind == "cancel" else 1):
            asked.append(_make_change(random, len(asked), former, kind))
    return asked


def _make_submission(random: Random, number: int) -> ClientRequest:
    """Make a new request with a random code, clinic and attachment."""
    code = random.choices(list(CODES), [often for _, often in CODES.values()])[0]
    npi = random.choice(CLINICS)
    attachments = [SampleAttachment()] if random.random() < 0.2 else []
    payer = random.choice((PAYER_ID, PAS_PAYER_ID))
    bundle = build_request_bundle(
        payer=payer,
        member=get_person(number % 40),
        npi=npi,
        items=[SampleItem(code, quantity=4)],
        attachments=attachments,
        reference=f"R-{number}",
    )
    return _make_request(random, number, bundle, npi=npi, payer=payer, expected_decision=CODES[code][0])


def _make_change(random: Random, number: int, former: ClientRequest, kind: Kind) -> ClientRequest:
    """Make an update or a cancellation of the request `former`."""
    reference = f"R-{number}"
    if kind == "cancel":
        bundle = build_cancel_bundle(former.bundle, reference=reference)
    else:
        bundle = build_update_bundle(former.bundle, reference=reference, added=["99214"])
    changed = _make_request(random, number, bundle, npi=former.npi, payer=former.payer, tenant=former.tenant)
    changed.kind, changed.former, changed.gives_up = kind, former, False
    return changed


def _make_request(
    random: Random,
    number: int,
    bundle: dict[str, Any],
    *,
    npi: str,
    payer: str,
    tenant: str | None = None,
    expected_decision: str | None = None,
) -> ClientRequest:
    """Make a request with random API, callback, key, copies and patience."""
    door: Api = random.choice(("native", "native", "fhir"))
    gives_up = random.random() < GIVES_UP_SHARE
    return ClientRequest(
        number,
        tenant or random.choice(TENANTS),
        npi,
        payer,
        door,
        bundle,
        expected_decision=expected_decision,
        callback=random.choice(("client", "client", "client", "gone", None)) if door == "native" else None,
        has_key=door == "native" or random.random() < 0.5,
        copies=1 if gives_up else random.randint(1, MAX_COPIES),
        gives_up=gives_up,
        tries_other=random.random() < OTHER_PAYLOAD_SHARE,
    )


class Clients:
    """All clients of a run. `seen` counts responses by status and errors by type."""

    def __init__(self, processes: PagwProcesses, random: Random) -> None:
        self._processes, self._random = processes, random
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        self._tokens = {tenant: processes.mint_token(tenant) for tenant in TENANTS}
        self.seen: Counter[str] = Counter()
        self.acknowledged = 0
        self.subscriptions: dict[str, tuple[str, str]] = {}

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def subscribe(self) -> None:
        """Create the subscriptions in `SUBSCRIBED`, and check that each is active."""
        for tenant, npi in SUBSCRIBED:
            endpoint = f"{self._processes.urls['client']}/notifications/{tenant}"
            wanted = SubscriptionRequest(topic=TOPIC, organization=npi, endpoint=endpoint)
            body = json.dumps(build_subscription_resource(wanted, id="s-1", status="requested")).encode()
            answer = await self._post(tenant, "/fhir/Subscription", body, {}, api=self._processes.servers[0])
            assert answer is not None and answer.status_code == 201, answer
            assert answer.json()["status"] == "active"
            self.subscriptions[answer.json()["id"]] = (tenant, npi)

    # --- one request ----------------------------------------------------------------------------------------

    async def send(self, request: ClientRequest) -> None:
        """Send all copies until they are acknowledged with the same id, then try another payload under the
        same key.
        """
        if request.former is not None:
            await self._wait_until_changeable(request.former)
        copies = [self._send_until_accepted(request) for _ in range(request.copies)]
        ids = set(await asyncio.gather(*copies)) - {""}
        assert len(ids) <= 1, f"{request} has several ids: {ids}"
        if not ids:
            assert request.gives_up
            return
        [request.pagw_id] = ids
        self.acknowledged += 1
        if request.tries_other:
            await self._expect_mismatch(request)

    async def send_again(self, request: ClientRequest) -> None:
        """Repeat an acknowledged request much later."""
        assert await self._send_until_accepted(request) == request.pagw_id

    async def _send_until_accepted(self, request: ClientRequest) -> str:
        """Retry until accepted and return the id; return an empty string for a client that gives up."""
        pause_s = RETRY_S
        while True:
            answer = await self._request(request, request.body)
            if answer is not None and answer.status_code in (200, 202):
                return _get_id(answer)
            if request.gives_up:
                return ""
            self._check_retryable(answer)
            await asyncio.sleep(pause_s * self._random.uniform(0.5, 1.5))
            pause_s = min(MAX_RETRY_S, pause_s * 2)

    async def _expect_mismatch(self, request: ClientRequest) -> None:
        """Send another payload under the request's key until it is refused with 422."""
        while True:
            answer = await self._request(request, request.other_body)
            if answer is not None and answer.status_code == 422:
                return
            assert answer is None or answer.status_code >= 500, f"{request} was taken with another payload"
            await asyncio.sleep(RETRY_S)

    def _check_retryable(self, answer: httpx2.Response | None) -> None:
        """Check that the failure is retryable: no answer, a server error, a copy in progress, or a conflict.

        A copy in progress says when to retry. A conflict arises if the call was slower than its lease.
        """
        if answer is None or answer.status_code >= 500:
            return
        assert answer.status_code == 409, (answer.status_code, answer.text)
        (issue,) = answer.json()["issue"]
        if issue["code"] != "conflict":
            assert issue["code"] == "duplicate" and int(answer.headers["retry-after"]) >= 0, answer.text

    async def _request(self, request: ClientRequest, body: bytes) -> httpx2.Response | None:
        """Submit the request with this body. Return the response, or None without one."""
        headers = {"x-idempotency-key": request.key} if request.has_key else {}
        if request.callback is not None:
            headers["x-callback-url"] = f"{self._processes.urls[request.callback]}/callbacks/{request.tenant}"
        path = "/pas/requests" if request.api == "native" else "/fhir/Claim/$submit"
        return await self._post(request.tenant, path, body, headers)

    # --- HTTP -----------------------------------------------------------------------------------------------

    async def _post(
        self, tenant: str, path: str, body: bytes, headers: dict[str, str], api: str | None = None
    ) -> httpx2.Response | None:
        """POST to an API, by default a random one. Return the response, or None without one."""
        own = {
            "authorization": f"Bearer {self._tokens[tenant]}",
            "content-type": "application/fhir+json",
            **headers,
        }
        api = api or self._random.choice(self._processes.servers)
        try:
            answer = await self._http.post(api + path, content=body, headers=own)
        except httpx2.HTTPError as error:
            self.seen[type(error).__name__] += 1
            return None
        self.seen[str(answer.status_code)] += 1
        return answer

    async def _wait_until_changeable(self, former: ClientRequest) -> None:
        """Wait until the payer has the request, so that it may be updated or cancelled."""
        headers = {"authorization": f"Bearer {self._tokens[former.tenant]}"}
        while True:
            api = self._random.choice(self._processes.servers)
            try:
                answer = await self._http.get(f"{api}/pas/requests/{former.pagw_id}", headers=headers)
                if answer.status_code == 200 and answer.json()["status"] in CHANGEABLE:
                    return
            except httpx2.HTTPError:
                pass  # it is replaced
            await asyncio.sleep(RETRY_S)


def _get_id(answer: httpx2.Response) -> str:
    """Return the request's id in the response of either API."""
    if answer.status_code == 200:
        return str(answer.headers["x-pagw-id"])
    return str(answer.json()["pagwId"])
