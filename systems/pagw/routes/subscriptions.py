"""Subscriptions (R5 backport): created with a handshake, read, turned off and on, ended."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Secrets
from holdfast.errors import NotFound
from holdfast.web.targets import target_client
from holdfast.web.tokens import Caller
from pagw.fhir.notifications import status_answer
from pagw.fhir.reading import read_resource
from pagw.routes import describing
from pagw.routes.asking import cursor_after, fhir_answer, json_body, limit_of, place_of
from pagw.routes.describing import described
from pagw.routes.guarding import SUBSCRIPTION_READ, SUBSCRIPTION_WRITE, Gate, actor_of
from pagw.subscribing import Subscriptions
from pagw.telling import Teller, moment

PATH: Final = "/fhir/Subscription"
BYTES_MAX: Final = 100_000
ID: Final = re.compile(r"sub-[0-9a-z]{26}")


def subscription_routes(gate: Gate, secrets: Secrets) -> list[APIRouter]:
    made = Desk(gate, secrets)
    return [_writes(gate, made), _reads(gate, made)]


class Desk:
    """The subscriptions, with a client for handshakes that lives as long as a request."""

    def __init__(self, gate: Gate, secrets: Secrets) -> None:
        self._gate, self._secrets = gate, secrets

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Subscriptions]:
        settings = self._gate.settings
        async with target_client(allow_private=settings.private_targets) as http:
            yield Subscriptions(Teller(self._gate.stores, http, self._secrets, settings))


def _writes(gate: Gate, desk: Desk) -> APIRouter:
    router = APIRouter(tags=["Subscription"])

    @router.post(
        PATH,
        **described(
            "createSubscription",
            "Be told of decisions",
            takes="Subscription",
            gives="Subscription",
            status=201,
            told={201: "It is active, or stands as `error` where its endpoint did not answer the handshake."},
        ),
    )
    @gate.serves(SUBSCRIPTION_WRITE, audits="subscription")
    async def create(request: Request, caller: Caller) -> Response:
        resource = read_resource(await json_body(request, BYTES_MAX), "Subscription", bytes_max=BYTES_MAX)
        async with desk.opened() as subscriptions:
            made = await subscriptions.subscribe(caller.tenant, resource, actor_of(caller))
        return fhir_answer(made, 201, {"location": f"{PATH}/{made['id']}"})

    @router.put(
        f"{PATH}/{{subscription_id}}",
        **described(
            "updateSubscription",
            "Turn it off, or on again",
            parameters=[describing.SUBSCRIPTION_ID],
            takes="Subscription",
            gives="Subscription",
        ),
    )
    @gate.serves(SUBSCRIPTION_WRITE, audits="subscription")
    async def change(request: Request, caller: Caller) -> Response:
        id = _id(request)
        resource = read_resource(await json_body(request, BYTES_MAX), "Subscription", bytes_max=BYTES_MAX)
        async with desk.opened() as subscriptions:
            return fhir_answer(await subscriptions.change(caller.tenant, id, resource, actor_of(caller)))

    @router.delete(
        f"{PATH}/{{subscription_id}}",
        **described(
            "endSubscription",
            "Be told no more",
            parameters=[describing.SUBSCRIPTION_ID],
            status=204,
        ),
    )
    @gate.serves(SUBSCRIPTION_WRITE, audits="subscription")
    async def end(request: Request, caller: Caller) -> Response:
        async with desk.opened() as subscriptions:
            await subscriptions.end(caller.tenant, _id(request), actor_of(caller))
        return Response(status_code=204)

    return router


def _reads(gate: Gate, desk: Desk) -> APIRouter:
    router = APIRouter(tags=["Subscription"])
    own = [describing.SUBSCRIPTION_ID]

    @router.get(
        PATH,
        **described(
            "listSubscriptions",
            "The tenant's subscriptions, oldest first; a link `next` leads to more",
            parameters=[describing.LIMIT, describing.CURSOR],
            gives="Bundle",
            proofs=describing.READS,
        ),
    )
    @gate.serves(SUBSCRIPTION_READ)
    async def all_of_them(request: Request, caller: Caller) -> Response:
        limit, after = limit_of(request), place_of(request)
        async with desk.opened() as subscriptions:
            found, last = await subscriptions.page(caller.tenant, after=after, limit=limit)
        base = f"{gate.settings.public_url}{PATH}"
        bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "searchset"}
        if last is not None:
            cursor = cursor_after(last.created_at, last.subscription_id)
            bundle["link"] = [{"relation": "next", "url": f"{base}?limit={limit}&cursor={cursor}"}]
        if found:
            bundle["entry"] = [{"fullUrl": f"{base}/{each['id']}", "resource": each} for each in found]
        return fhir_answer(bundle)

    @router.get(
        f"{PATH}/{{subscription_id}}",
        **described(
            "getSubscription", "One of them", parameters=own, gives="Subscription", proofs=describing.READS
        ),
    )
    @gate.serves(SUBSCRIPTION_READ)
    async def one(request: Request, caller: Caller) -> Response:
        async with desk.opened() as subscriptions:
            return fhir_answer(await subscriptions.read(caller.tenant, _id(request)))

    @router.get(
        f"{PATH}/{{subscription_id}}/$status",
        **described(
            "getSubscriptionStatus", "How it is", parameters=own, gives="Bundle", proofs=describing.READS
        ),
    )
    @gate.serves(SUBSCRIPTION_READ)
    async def status(request: Request, caller: Caller) -> Response:
        async with desk.opened() as subscriptions:
            row = await subscriptions.row(caller.tenant, _id(request))
        told = status_answer(
            subscription_url=f"{gate.settings.public_url}{PATH}/{row.subscription_id}",
            status=row.status,
            events=row.events,
            at=moment(gate.stores),
            id=f"status-{row.subscription_id}",
        )
        return fhir_answer(told)

    return router


def _id(request: Request) -> str:
    id: str = request.path_params["subscription_id"]
    if not ID.fullmatch(id):
        raise NotFound("There is no subscription of this id.")
    return id
