"""Requests for prior authorization as clients send them, and the clients: several copies at once, again after every failure.

`traffic` makes requests by chance: of two tenants and three clinics, native and FHIR, that payers approve, deny, modify or
take their time over; later ones update or cancel former ones, some twice. A client sends a request until it is accepted,
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

from pagw.demo.sample.bundles import (
    PROVIDER_NPIS,
    SampleAttachment,
    SampleItem,
    build_cancel_bundle,
    build_request_bundle,
    build_update_bundle,
    get_person,
)
from pagw.demo.sandbox import TENANTS, payer_rules
from pagw.domain.fhir.subscriptions import SubscriptionRequest, build_subscription_resource
from pagw.domain.fhir.urls import TOPIC

from .pagw_stage import Stage

# What the payer makes of a code, and how often it is asked for.
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
COPIES_MAX: Final = 4
GIVES_UP_SHARE: Final = 0.08
OTHER_PAYLOAD_SHARE: Final = 0.15
ANSWER_S: Final = 30.0
AGAIN_S: Final = 0.3
# Clients come less and less often, so that the clock can move on over the lease of one that died.
AGAIN_S_MAX: Final = 4.0

Door = Literal["native", "fhir"]
Kind = Literal["submit", "update", "cancel"]
# Where a request must stand before somebody changes it: the payer has it.
CHANGEABLE: Final = ("PENDED", "SUBMITTED", "RESPONSE_BUILT", "CALLBACK_SENT", "COMPLETED", "CANCELLED")


@dataclass(eq=False)
class Asked:
    """One request under one key. `wanted` is what comes of it if nobody changes it, where that is plain."""

    number: int
    tenant: str
    npi: str
    door: Door
    bundle: dict[str, Any] = field(repr=False)
    kind: Kind = "submit"
    former: Asked | None = None
    wanted: str | None = None
    callback: Literal["client", "gone"] | None = None
    has_key: bool = True
    copies: int = 1
    gives_up: bool = False
    tries_other: bool = False
    # As it was acknowledged; empty if it never was.
    pagw_id: str = ""

    @property
    def key(self) -> str:
        return f"key-{self.number}"

    @property
    def body(self) -> bytes:
        return json.dumps(self.bundle).encode()

    @property
    def other_body(self) -> bytes:
        """The same request with something else in it."""
        other = deepcopy(self.bundle)
        other["entry"][0]["resource"]["item"][0]["quantity"]["value"] = 99
        return json.dumps(other).encode()


def traffic(random: Random, count: int) -> list[Asked]:
    """Those that change another come after it."""
    changes = int(count * CHANGES_SHARE)
    asked = [_submission(random, number) for number in range(count - changes)]
    formers = [each for each in asked if not each.gives_up]
    random.shuffle(formers)
    while len(asked) < count:
        former = formers.pop()
        kind: Kind = random.choice(("update", "cancel", "cancel"))
        for _ in range(random.choice((1, 1, 2)) if kind == "cancel" else 1):
            asked.append(_change(random, len(asked), former, kind))
    return asked


def _submission(random: Random, number: int) -> Asked:
    code = random.choices(list(CODES), [often for _, often in CODES.values()])[0]
    npi = random.choice(CLINICS)
    attachments = [SampleAttachment()] if random.random() < 0.2 else []
    bundle = build_request_bundle(
        member=get_person(number % 40),
        npi=npi,
        items=[SampleItem(code, quantity=4)],
        attachments=attachments,
        reference=f"R-{number}",
    )
    return _asked(random, number, bundle, npi=npi, wanted=CODES[code][0])


def _change(random: Random, number: int, former: Asked, kind: Kind) -> Asked:
    reference = f"R-{number}"
    if kind == "cancel":
        bundle = build_cancel_bundle(former.bundle, reference=reference)
    else:
        bundle = build_update_bundle(former.bundle, reference=reference, added=["99214"])
    changed = _asked(random, number, bundle, npi=former.npi, tenant=former.tenant)
    changed.kind, changed.former, changed.gives_up = kind, former, False
    return changed


def _asked(
    random: Random,
    number: int,
    bundle: dict[str, Any],
    *,
    npi: str,
    tenant: str | None = None,
    wanted: str | None = None,
) -> Asked:
    door: Door = random.choice(("native", "native", "fhir"))
    gives_up = random.random() < GIVES_UP_SHARE
    return Asked(
        number,
        tenant or random.choice(TENANTS),
        npi,
        door,
        bundle,
        wanted=wanted,
        callback=random.choice(("client", "client", "client", "gone", None)) if door == "native" else None,
        has_key=door == "native" or random.random() < 0.5,
        copies=1 if gives_up else random.randint(1, COPIES_MAX),
        gives_up=gives_up,
        tries_other=random.random() < OTHER_PAYLOAD_SHARE,
    )


class Clients:
    """All clients of a run. `seen` counts how often they were answered what."""

    def __init__(self, stage: Stage, random: Random) -> None:
        self._stage, self._random = stage, random
        self._http = httpx2.AsyncClient(timeout=ANSWER_S)
        self._tokens = {tenant: stage.token(tenant) for tenant in TENANTS}
        self.seen: Counter[str] = Counter()
        self.acknowledged = 0
        self.subscriptions: dict[str, tuple[str, str]] = {}

    async def __aenter__(self) -> Clients:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def subscribe(self) -> None:
        for tenant, npi in SUBSCRIBED:
            endpoint = f"{self._stage.parties['client']}/notifications/{tenant}"
            wanted = SubscriptionRequest(topic=TOPIC, organization=npi, endpoint=endpoint)
            body = json.dumps(build_subscription_resource(wanted, id="s-1", status="requested")).encode()
            answer = await self._posted(tenant, "/fhir/Subscription", body, {}, api=self._stage.apis[0])
            assert answer is not None and answer.status_code == 201, answer
            assert answer.json()["status"] == "active"
            self.subscriptions[answer.json()["id"]] = (tenant, npi)

    # --- one request ----------------------------------------------------------------------------------------

    async def send(self, asked: Asked) -> None:
        """Until it is acknowledged, by every copy with the same id. Then something else is tried under the same key."""
        if asked.former is not None:
            await self._until_changeable(asked.former)
        copies = [self._insisted(asked) for _ in range(asked.copies)]
        ids = set(await asyncio.gather(*copies)) - {""}
        assert len(ids) <= 1, f"{asked} has several ids: {ids}"
        if not ids:
            assert asked.gives_up
            return
        [asked.pagw_id] = ids
        self.acknowledged += 1
        if asked.tries_other:
            await self._refused(asked)

    async def again(self, asked: Asked) -> None:
        """Much later, by a client that has forgotten that it was answered."""
        assert await self._insisted(asked) == asked.pagw_id

    async def _insisted(self, asked: Asked) -> str:
        """Its id; empty for who has given up."""
        pause_s = AGAIN_S
        while True:
            answer = await self._asked(asked, asked.body)
            if answer is not None and answer.status_code in (200, 202):
                return _id_of(answer)
            if asked.gives_up:
                return ""
            self._check_passing(answer)
            await asyncio.sleep(pause_s * self._random.uniform(0.5, 1.5))
            pause_s = min(AGAIN_S_MAX, pause_s * 2)

    async def _refused(self, asked: Asked) -> None:
        while True:
            answer = await self._asked(asked, asked.other_body)
            if answer is not None and answer.status_code == 422:
                return
            assert answer is None or answer.status_code >= 500, f"{asked} was taken with another payload"
            await asyncio.sleep(AGAIN_S)

    def _check_passing(self, answer: httpx2.Response | None) -> None:
        """Nobody answered, another copy is under way, or something is down: all of that passes."""
        if answer is None or answer.status_code >= 500:
            return
        assert answer.status_code == 409, (answer.status_code, answer.text)
        assert int(answer.headers["retry-after"]) >= 0

    async def _asked(self, asked: Asked, body: bytes) -> httpx2.Response | None:
        headers = {"x-idempotency-key": asked.key} if asked.has_key else {}
        if asked.callback is not None:
            headers["x-callback-url"] = f"{self._stage.parties[asked.callback]}/callbacks/{asked.tenant}"
        path = "/pas/requests" if asked.door == "native" else "/fhir/Claim/$submit"
        return await self._posted(asked.tenant, path, body, headers)

    # --- HTTP -----------------------------------------------------------------------------------------------

    async def _posted(
        self, tenant: str, path: str, body: bytes, headers: dict[str, str], api: str | None = None
    ) -> httpx2.Response | None:
        own = {
            "authorization": f"Bearer {self._tokens[tenant]}",
            "content-type": "application/fhir+json",
            **headers,
        }
        api = api or self._random.choice(self._stage.apis)
        try:
            answer = await self._http.post(api + path, content=body, headers=own)
        except httpx2.HTTPError as error:
            self.seen[type(error).__name__] += 1
            return None
        self.seen[str(answer.status_code)] += 1
        return answer

    async def _until_changeable(self, former: Asked) -> None:
        headers = {"authorization": f"Bearer {self._tokens[former.tenant]}"}
        while True:
            api = self._random.choice(self._stage.apis)
            try:
                answer = await self._http.get(f"{api}/pas/requests/{former.pagw_id}", headers=headers)
                if answer.status_code == 200 and answer.json()["status"] in CHANGEABLE:
                    return
            except httpx2.HTTPError:
                pass  # it is replaced
            await asyncio.sleep(AGAIN_S)


def _id_of(answer: httpx2.Response) -> str:
    if answer.status_code == 200:
        return str(answer.headers["x-pagw-id"])
    return str(answer.json()["pagwId"])
