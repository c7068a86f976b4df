"""Routes of FHIR Subscriptions (R5 backport): create, list, read, turn off or on, and delete."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Secrets
from holdfast.core.errors import NotFound
from holdfast.web.tokens import Caller
from holdfast.web.webhook_targets import open_target_client
from pagw.api.routes import openapi
from pagw.api.routes.auth import SUBSCRIPTION_READ, SUBSCRIPTION_WRITE, Gate, build_actor
from pagw.api.routes.openapi import describe_route
from pagw.api.routes.parameters import (
    build_cursor,
    build_fhir_response,
    parse_cursor,
    parse_limit,
    read_json_body,
)
from pagw.api.subscriptions import Subscriptions
from pagw.domain.fhir.parser import parse_resource
from pagw.domain.fhir.responses.notifications import build_status_response
from pagw.workers.webhook_sender import WebhookSender, get_now

PATH: Final = "/fhir/Subscription"
MAX_BYTES: Final = 100_000
ID: Final = re.compile(r"sub-[0-9a-z]{26}")


def build_subscription_routes(gate: Gate, secrets: Secrets) -> list[APIRouter]:
    """Return the routes of subscriptions."""
    desk = SubscriptionsFactory(gate, secrets)
    return [_build_write_routes(gate, desk), _build_read_routes(gate, desk)]


class SubscriptionsFactory:
    """Opens subscriptions with an HTTP client for handshakes that lives as long as one request."""

    def __init__(self, gate: Gate, secrets: Secrets) -> None:
        self._gate, self._secrets = gate, secrets

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Subscriptions]:
        """Open the subscriptions and close their HTTP client at the end."""
        settings = self._gate.settings
        async with open_target_client(allow_private=settings.private_targets) as http:
            yield Subscriptions(WebhookSender(self._gate.stores, http, self._secrets, settings))


def _build_write_routes(gate: Gate, desk: SubscriptionsFactory) -> APIRouter:
    """Build the routes that create, turn off or on, and delete subscriptions."""
    router = APIRouter(tags=["Subscription"])

    @router.post(
        PATH,
        **describe_route(
            "createSubscription",
            "Create a subscription to decisions",
            takes="Subscription",
            gives="Subscription",
            status=201,
            descriptions={
                201: "The subscription: `active`, or `error` if its endpoint did not answer the handshake."
            },
        ),
    )
    @gate.authorize(SUBSCRIPTION_WRITE, audits="subscription")
    async def create(request: Request, caller: Caller) -> Response:
        resource = parse_resource(
            await read_json_body(request, MAX_BYTES), "Subscription", max_bytes=MAX_BYTES
        )
        async with desk.open() as subscriptions:
            created = await subscriptions.subscribe(caller.tenant, resource, build_actor(caller))
        return build_fhir_response(created, 201, {"location": f"{PATH}/{created['id']}"})

    @router.put(
        f"{PATH}/{{subscription_id}}",
        **describe_route(
            "updateSubscription",
            "Turn a subscription off or on",
            parameters=[openapi.SUBSCRIPTION_ID],
            takes="Subscription",
            gives="Subscription",
        ),
    )
    @gate.authorize(SUBSCRIPTION_WRITE, audits="subscription")
    async def change(request: Request, caller: Caller) -> Response:
        id = _get_id(request)
        resource = parse_resource(
            await read_json_body(request, MAX_BYTES), "Subscription", max_bytes=MAX_BYTES
        )
        async with desk.open() as subscriptions:
            return build_fhir_response(
                await subscriptions.change(caller.tenant, id, resource, build_actor(caller))
            )

    @router.delete(
        f"{PATH}/{{subscription_id}}",
        **describe_route(
            "endSubscription",
            "Delete a subscription",
            parameters=[openapi.SUBSCRIPTION_ID],
            status=204,
        ),
    )
    @gate.authorize(SUBSCRIPTION_WRITE, audits="subscription")
    async def end(request: Request, caller: Caller) -> Response:
        async with desk.open() as subscriptions:
            await subscriptions.end(caller.tenant, _get_id(request), build_actor(caller))
        return Response(status_code=204)

    return router


def _build_read_routes(gate: Gate, desk: SubscriptionsFactory) -> APIRouter:
    """Build the routes that list subscriptions and read one or its status."""
    router = APIRouter(tags=["Subscription"])
    own = [openapi.SUBSCRIPTION_ID]

    @router.get(
        PATH,
        **describe_route(
            "listSubscriptions",
            "List the tenant's subscriptions, oldest first. The link `next` leads to the next page.",
            parameters=[openapi.LIMIT, openapi.CURSOR],
            gives="Bundle",
            schemes=openapi.READ_SCHEMES,
        ),
    )
    @gate.authorize(SUBSCRIPTION_READ)
    async def all_of_them(request: Request, caller: Caller) -> Response:
        limit, after = parse_limit(request), parse_cursor(request)
        async with desk.open() as subscriptions:
            found, last = await subscriptions.list_page(caller.tenant, after=after, limit=limit)
        base = f"{gate.settings.public_url}{PATH}"
        bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "searchset"}
        if last is not None:
            cursor = build_cursor(last.created_at, last.subscription_id)
            bundle["link"] = [{"relation": "next", "url": f"{base}?limit={limit}&cursor={cursor}"}]
        if found:
            bundle["entry"] = [{"fullUrl": f"{base}/{each['id']}", "resource": each} for each in found]
        return build_fhir_response(bundle)

    @router.get(
        f"{PATH}/{{subscription_id}}",
        **describe_route(
            "getSubscription",
            "Get a subscription",
            parameters=own,
            gives="Subscription",
            schemes=openapi.READ_SCHEMES,
        ),
    )
    @gate.authorize(SUBSCRIPTION_READ)
    async def one(request: Request, caller: Caller) -> Response:
        async with desk.open() as subscriptions:
            return build_fhir_response(await subscriptions.read(caller.tenant, _get_id(request)))

    @router.get(
        f"{PATH}/{{subscription_id}}/$status",
        **describe_route(
            "getSubscriptionStatus",
            "Get the status of a subscription",
            parameters=own,
            gives="Bundle",
            schemes=openapi.READ_SCHEMES,
        ),
    )
    @gate.authorize(SUBSCRIPTION_READ)
    async def status(request: Request, caller: Caller) -> Response:
        async with desk.open() as subscriptions:
            row = await subscriptions.get_row(caller.tenant, _get_id(request))
        response = build_status_response(
            subscription_url=f"{gate.settings.public_url}{PATH}/{row.subscription_id}",
            status=row.status,
            events=row.events,
            at=get_now(gate.stores),
            id=f"status-{row.subscription_id}",
        )
        return build_fhir_response(response)

    return router


def _get_id(request: Request) -> str:
    """Return the subscription id in the path. Raise `NotFound` if it does not have the form of one."""
    id: str = request.path_params["subscription_id"]
    if not ID.fullmatch(id):
        raise NotFound("No subscription has this id.")
    return id
