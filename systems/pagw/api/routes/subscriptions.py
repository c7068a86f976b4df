"""Routes of FHIR Subscriptions (R5 backport): create, list, read, turn off or on, delete, and list events."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Response, Security

from holdfast.core.errors import NotFound
from holdfast.runtime import Secrets
from holdfast.web.tokens import Caller
from holdfast.web.webhook_targets import open_target_client
from pagw.api.routes.auth import SUBSCRIPTION_READ, SUBSCRIPTION_WRITE, Gate
from pagw.api.routes.parameters import FhirBody, RequestedPage, SubscriptionId, build_cursor, parse_cursor
from pagw.api.routes.refusal_audit import build_actor
from pagw.api.routes.views import Bundle, FhirJson, Parameters, Subscription
from pagw.api.subscriptions import Subscriptions
from pagw.domain.fhir.parser import parse_resource
from pagw.domain.fhir.responses.notifications import build_status_response
from pagw.domain.fhir.subscriptions import parse_event_range
from pagw.workers.webhook_sender import WebhookSender, get_now

PATH: Final = "/fhir/Subscription"
MAX_BYTES: Final = 100_000
FIRST_EVENT: Final = "The number of the first event."
LAST_EVENT: Final = "The number of the last event; by default the newest."
CONTENT: Final = "The content of the events. PAS demands whole responses."
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
    router = APIRouter(tags=["Subscription"], dependencies=[gate.audit.watch("subscription")])

    @router.post(
        PATH,
        operation_id="createSubscription",
        summary="Create a subscription to decisions",
        status_code=201,
        response_model=Subscription,
        response_class=FhirJson,
        response_description=(
            "The subscription: `active`, or `error` if its endpoint did not answer the handshake."
        ),
    )
    async def create(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[SUBSCRIPTION_WRITE])],
        body: Annotated[bytes, Depends(FhirBody(Subscription, MAX_BYTES))],
    ) -> Response:
        resource = parse_resource(body, "Subscription", max_bytes=MAX_BYTES)
        async with desk.open() as subscriptions:
            created = await subscriptions.subscribe(caller.tenant, resource, build_actor(caller))
        return FhirJson(created, 201, {"location": f"{PATH}/{created['id']}"})

    @router.put(
        f"{PATH}/{{subscription_id}}",
        operation_id="updateSubscription",
        summary="Turn a subscription off or on",
        response_model=Subscription,
        response_class=FhirJson,
    )
    async def change(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[SUBSCRIPTION_WRITE])],
        subscription_id: SubscriptionId,
        body: Annotated[bytes, Depends(FhirBody(Subscription, MAX_BYTES))],
    ) -> Response:
        id = _check_id(subscription_id)
        resource = parse_resource(body, "Subscription", max_bytes=MAX_BYTES)
        async with desk.open() as subscriptions:
            return FhirJson(await subscriptions.change(caller.tenant, id, resource, build_actor(caller)))

    @router.delete(
        f"{PATH}/{{subscription_id}}",
        operation_id="endSubscription",
        summary="Delete a subscription",
        status_code=204,
        response_class=Response,
    )
    async def end(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[SUBSCRIPTION_WRITE])],
        subscription_id: SubscriptionId,
    ) -> Response:
        async with desk.open() as subscriptions:
            await subscriptions.end(caller.tenant, _check_id(subscription_id), build_actor(caller))
        return Response(status_code=204)

    return router


def _build_read_routes(gate: Gate, desk: SubscriptionsFactory) -> APIRouter:
    """Build the routes that list subscriptions and read one or its status."""
    router = APIRouter(tags=["Subscription"], dependencies=[gate.audit.watch()])

    @router.get(
        PATH,
        operation_id="listSubscriptions",
        summary="List the tenant's subscriptions, oldest first. The link `next` leads to the next page.",
        response_model=Bundle,
        response_class=FhirJson,
    )
    async def all_of_them(
        caller: Annotated[Caller, Security(gate.session, scopes=[SUBSCRIPTION_READ])], page: RequestedPage
    ) -> Response:
        after = parse_cursor(page.cursor)
        async with desk.open() as subscriptions:
            found, last = await subscriptions.list_page(caller.tenant, after=after, limit=page.limit)
        base = f"{gate.settings.public_url}{PATH}"
        bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "searchset"}
        if last is not None:
            cursor = build_cursor(last.created_at, last.subscription_id)
            bundle["link"] = [{"relation": "next", "url": f"{base}?limit={page.limit}&cursor={cursor}"}]
        if found:
            bundle["entry"] = [{"fullUrl": f"{base}/{each['id']}", "resource": each} for each in found]
        return FhirJson(bundle)

    @router.get(
        f"{PATH}/{{subscription_id}}",
        operation_id="getSubscription",
        summary="Get a subscription",
        response_model=Subscription,
        response_class=FhirJson,
    )
    async def one(
        caller: Annotated[Caller, Security(gate.session, scopes=[SUBSCRIPTION_READ])],
        subscription_id: SubscriptionId,
    ) -> Response:
        async with desk.open() as subscriptions:
            return FhirJson(await subscriptions.read(caller.tenant, _check_id(subscription_id)))

    @router.get(
        f"{PATH}/{{subscription_id}}/$status",
        operation_id="getSubscriptionStatus",
        summary="Get the status of a subscription",
        response_model=Bundle,
        response_class=FhirJson,
    )
    async def status(
        caller: Annotated[Caller, Security(gate.session, scopes=[SUBSCRIPTION_READ])],
        subscription_id: SubscriptionId,
    ) -> Response:
        async with desk.open() as subscriptions:
            row = await subscriptions.get_row(caller.tenant, _check_id(subscription_id))
        return FhirJson(
            build_status_response(
                subscription_url=f"{gate.settings.public_url}{PATH}/{row.subscription_id}",
                status=row.status,
                events=row.events,
                at=get_now(gate.stores),
                id=f"status-{row.subscription_id}",
            )
        )

    @router.get(
        f"{PATH}/{{subscription_id}}/$events",
        operation_id="getSubscriptionEvents",
        summary="Get the events of a subscription, delivered or not",
        response_model=Bundle,
        response_class=FhirJson,
        response_description="At most 20 events with their responses. The link `next` leads to further ones.",
        dependencies=[gate.audit.watch("events")],
    )
    async def events(
        caller: Annotated[Caller, Security(gate.session, scopes=[SUBSCRIPTION_READ])],
        subscription_id: SubscriptionId,
        first: Annotated[int, Query(alias="eventsSinceNumber", ge=1, description=FIRST_EVENT)] = 1,
        last: Annotated[int | None, Query(alias="eventsUntilNumber", ge=1, description=LAST_EVENT)] = None,
        content: Annotated[Literal["full-resource"], Query(description=CONTENT)] = "full-resource",
    ) -> Response:
        id, actor = _check_id(subscription_id), build_actor(caller)
        async with desk.open() as subscriptions:
            return FhirJson(await subscriptions.list_events(caller.tenant, id, actor, first=first, last=last))

    @router.post(
        f"{PATH}/{{subscription_id}}/$events",
        operation_id="querySubscriptionEvents",
        summary="Get the events of a subscription, with the parameters in the body",
        response_model=Bundle,
        response_class=FhirJson,
        dependencies=[gate.audit.watch("events")],
    )
    async def query_events(
        caller: Annotated[Caller, Security(gate.bearer, scopes=[SUBSCRIPTION_READ])],
        subscription_id: SubscriptionId,
        body: Annotated[bytes, Depends(FhirBody(Parameters, MAX_BYTES))],
    ) -> Response:
        id, actor = _check_id(subscription_id), build_actor(caller)
        first, last = parse_event_range(parse_resource(body, "Parameters", max_bytes=MAX_BYTES))
        async with desk.open() as subscriptions:
            return FhirJson(await subscriptions.list_events(caller.tenant, id, actor, first=first, last=last))

    return router


def _check_id(id: str) -> str:
    """Return the id of a subscription. Raise `NotFound` if it does not have the form of one."""
    if not ID.fullmatch(id):
        raise NotFound("No subscription has this id.")
    return id
