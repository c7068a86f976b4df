"""Notifications of payers that speak PAS: the gateway is the subscriber, and the payer sends what changed.

A payer authenticates with the secret that the gateway put into its subscription, in the header
`Authorization: Bearer …`. A notification holds whole response Bundles. Each is recorded for its request like
a callback (`payer_callbacks.py`), before the payer gets its acknowledgement. The request is found by the
gateway's trace number on the items; if the payer returns none, by the identifier of the Claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import ExternalServiceFailed, InvalidRequest, NotFound
from holdfast.runtime import Secrets
from holdfast.web import verify_shared_secret
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.references import Graph, get_objects
from pagw.domain.statuses import Status
from pagw.integrations.payers.config import FormatName, parse_payer_config
from pagw.integrations.payers.decision_checks import find_faults
from pagw.integrations.payers.formats import FORMATS
from pagw.integrations.payers.pas_messages import list_claim_identifiers, list_trace_references
from pagw.model import patterns
from pagw.model.audit import Actor
from pagw.model.entities import PayerRow, RequestRow
from pagw.model.lookup import RequestLookup
from pagw.model.rate_limits import count_callback
from pagw.model.registries import get_payer
from pagw.workers.payer_callbacks import record_callback, refuse_unsent
from pagw.workers.stages.payer_answers import get_item_sequences

BEARER: Final = "bearer "
MAX_EVENTS: Final = 100
EVENT: Final = "notification-event"


@dataclass(frozen=True)
class PayerNotifications:
    """Receives the notifications of payers."""

    stores: Stores
    secrets: Secrets
    lookup: RequestLookup

    async def admit(self, payer_id: str, authorization: str | None) -> None:
        """Check a caller before its body is read. Raise `NotFound` for an unknown payer or one that does not
        speak PAS, `RateLimited` for too many calls, `CallerRefused` for a wrong secret.
        """
        row = await get_payer(self.stores, payer_id)
        if row is None or not row.callback_secret or row.format != FormatName.fhir_pas:
            raise NotFound("Unknown payer, or a payer that sends no notifications.")
        await count_callback(self.stores, payer_id)
        given = authorization or ""
        proof = given[len(BEARER) :].strip() if given.lower().startswith(BEARER) else None
        verify_shared_secret(proof, self._get_secret(row))

    async def receive(self, payer_id: str, body: bytes) -> list[str]:
        """Record each response of a notification and return the ids of its requests; none for a handshake or
        a heartbeat. Raise `InvalidRequest` for an invalid notification, `NotFound` for an unknown request.
        """
        try:
            responses = list(_list_responses(parse_exact(body)))
            found = [(await self._find_request(payer_id, each), each) for each in responses]
        except ValueError as error:
            raise InvalidRequest(f"Invalid notification: {error}. Correct it and send it again.") from None
        for request, response in found:
            self._check(request, response)
        for request, response in found:
            await record_callback(self.stores, request, dump_exact(response), Actor("system", payer_id))
        return [request.pagw_id for request, _ in found]

    def _get_secret(self, row: PayerRow) -> tuple[str, ...]:
        """Return the live values of the payer's callback secret."""
        return self.secrets.get(parse_payer_config(row.model_dump()).callback_secret_name).live

    def _check(self, request: RequestRow, response: Mapping[str, Any]) -> None:
        """Raise `InvalidRequest` if the response is invalid or inconsistent with its request."""
        refuse_unsent(request)
        try:
            answer = FORMATS[FormatName.fhir_pas].parse_answer(dump_exact(response))
        except ExternalServiceFailed as error:
            raise InvalidRequest(f"{error.message} Correct it and send it again.") from None
        if answer.decision is None:
            return
        wrong = find_faults(
            answer.decision,
            created_at=request.created_at,
            now=self.stores.now(),
            sequences=get_item_sequences(request),
        )
        if wrong:
            raise InvalidRequest(f"Inconsistent response: {wrong}. Correct it and send it again.")

    async def _find_request(self, payer_id: str, response: Mapping[str, Any]) -> RequestRow:
        """Return the request that a response is about. Raise `NotFound` if this payer has none,
        `InvalidRequest` if it may be about several.
        """
        traced = [
            await self.stores.run(patterns.request_of_payer(payer_id, each))
            for each in list_trace_references(response)
        ]
        if known := [each for each in traced if each is not None]:
            # An update carries the trace numbers of the request that it replaced, too.
            return max(known, key=lambda each: each.created_at)
        named = await self._find_by_claim(payer_id, response)
        open_ones = [each for each in named if each.status is Status.PENDED] or named
        if not open_ones:
            raise NotFound("Request not found: this payer has no request with this trace number or claim.")
        if len(open_ones) > 1:
            raise InvalidRequest(
                "The response matches several requests. Return the trace numbers of the items with it."
            )
        return open_ones[0]

    async def _find_by_claim(self, payer_id: str, response: Mapping[str, Any]) -> list[RequestRow]:
        """Return the requests to this payer with the identifier of the Claim that a response names."""
        found = dict[str, RequestRow]()
        for system, value in list_claim_identifiers(response):
            hash = self.lookup.hash_payer_claim(payer_id, system, value)
            for row in await self.stores.run(patterns.found_by_payer(payer_id, hash)):
                found[row.pagw_id] = row
        return list(found.values())


def _list_responses(bundle: Any) -> Iterator[dict[str, Any]]:
    """Yield the response Bundle of each event of a notification. Raise `ValueError` if it is invalid."""
    graph = Graph.from_bundle(bundle) if isinstance(bundle, dict) else None
    status = graph.get_first() if graph is not None else None
    if graph is None or status is None or status.kind != "Parameters":
        raise ValueError("expected a history Bundle that begins with the status of the subscription")
    events = [each for each in get_objects(status.resource, "parameter") if each.get("name") == EVENT]
    if len(events) > MAX_EVENTS:
        raise ValueError(f"expected at most {MAX_EVENTS} events")
    for event in events:
        parts = {each.get("name"): each for each in get_objects(event, "part")}
        focus = graph.resolve(parts.get("focus", {}).get("valueReference"), status)
        if focus is None:
            raise ValueError("expected the response of each event in the Bundle (full-resource)")
        if focus[1].kind == "Bundle":
            yield dict(focus[0])
            continue
        reached = graph.find_reachable(focus[1])
        yield {
            "resourceType": "Bundle",
            "type": "collection",
            "timestamp": bundle.get("timestamp"),
            "entry": [{"fullUrl": each.full_url, "resource": each.resource} for each in reached],
        }
