"""Client of a payer that speaks Da Vinci PAS: `Claim/$submit` and `Claim/$inquire`.

PAS has no idempotency key. What it lets a client look up is a request by the identifier of its Claim, with
member, provider and payer. So after a lost answer the client inquires, and recognizes its own request in the
result by the trace number that it put on the items (`pas_messages.py`). It sends the request again only if
the payer returns no such request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.external_client import ExternalResponse
from pagw.domain.fhir.claim_participants import iterate_identifiers
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.outcomes import CODES
from pagw.domain.fhir.references import get_objects
from pagw.domain.fhir.urls import CONTENT_TYPE
from pagw.integrations.payers.client import PayerCall, PayerResponse
from pagw.integrations.payers.connection import KEY_HEADER, PayerConnection, check_reference
from pagw.integrations.payers.formats import PasFormat
from pagw.integrations.payers.pas_messages import (
    AnswerUnclear,
    build_pas_inquiry,
    choose_response,
    list_response_bundles,
    list_trace_references,
)

SUBMIT: Final = "/Claim/$submit"
INQUIRE: Final = "/Claim/$inquire"
METADATA: Final = "/metadata"
SUBSCRIPTION: Final = "/Subscription"
NOT_FOUND: Final = 404
FHIR_HEADERS: Final = {"content-type": CONTENT_TYPE, "accept": CONTENT_TYPE}
MAX_CODES: Final = 5


@dataclass(frozen=True)
class PasPayerClient(PayerConnection):
    """A client of one payer with the format `fhir-pas`."""

    async def send(self, call: PayerCall) -> PayerResponse:
        """Send a request, an update or a cancellation: PAS has one operation for the three."""
        # PAS demands no idempotency key; a payer that knows the header may use it.
        headers = {KEY_HEADER: check_reference(call.reference), **FHIR_HEADERS}
        answer = await self.request("POST", SUBMIT, content=call.body, headers=headers, has_effect=True)
        self._raise_for_refusal(answer, has_effect=True)
        response = self._parse_response(answer.content, has_effect=True)
        traces = list_trace_references(parse_exact(answer.content))
        if traces and call.reference not in traces:
            # An answer about another patient's request must never be used for this one.
            raise self.build_invalid_response("the answer is about another request", has_effect=True)
        return response

    async def look_up(self, call: PayerCall) -> PayerResponse | None:
        """Return the payer's current answer about a request, or None if the payer has no such request."""
        sent = parse_exact(call.body)
        inquiry = dump_exact(build_pas_inquiry(sent, call.reference))
        answer = await self.request(
            "POST", INQUIRE, content=inquiry, headers=dict(FHIR_HEADERS), has_effect=False
        )
        if answer.status == NOT_FOUND and _list_issue_codes(answer.body) == ["not-found"]:
            return None
        self._raise_for_refusal(answer, has_effect=False)
        found = self._choose(answer.content, sent, call)
        return None if found is None else self._parse_response(dump_exact(found), has_effect=False)

    async def check(self) -> None:
        """Read the payer's CapabilityStatement with the gateway's credentials."""
        answer = await self.request("GET", METADATA, headers={"accept": CONTENT_TYPE}, has_effect=False)
        self._raise_for_refusal(answer, has_effect=False)
        if not (isinstance(answer.body, dict) and answer.body.get("resourceType") == "CapabilityStatement"):
            raise self.build_invalid_response("expected a CapabilityStatement", has_effect=False)

    async def subscribe(self, subscription: dict[str, Any]) -> dict[str, Any]:
        """Create a subscription at the payer and return its id and status."""
        content = dump_exact(subscription)
        answer = await self.request(
            "POST", SUBSCRIPTION, content=content, headers=dict(FHIR_HEADERS), has_effect=True
        )
        self._raise_for_refusal(answer, has_effect=True)
        created = answer.body if isinstance(answer.body, dict) else {}
        if created.get("resourceType") != "Subscription":
            raise self.build_invalid_response("expected a Subscription", has_effect=True)
        return {"id": created.get("id"), "status": created.get("status")}

    def _choose(self, content: bytes, sent: dict[str, Any], call: PayerCall) -> dict[str, Any] | None:
        """Return the response Bundle of an inquiry's result that is about the call, or None."""
        identifiers = set(iterate_identifiers(sent["entry"][0]["resource"]))
        try:
            found = list(list_response_bundles(parse_exact(content)))
            return choose_response(
                found, reference=call.reference, claim_identifiers=identifiers, created_at=call.created_at
            )
        except AnswerUnclear as error:
            # The payer may have the request, so it is not sent again.
            raise ExternalServiceFailed(
                f"{self.name} cannot say whether it has the request: {error}. Ask the payer, and replay the "
                "request if it has not.",
                may_be_done=True,
            ) from None
        except ValueError as error:
            raise self.build_invalid_response(str(error), has_effect=False) from None

    def _parse_response(self, body: bytes, *, has_effect: bool) -> PayerResponse:
        """Parse a response Bundle. Raise `ExternalServiceFailed` if it is invalid."""
        try:
            answer = PasFormat().parse_answer(body)
        except ExternalServiceFailed as error:
            raise self.build_invalid_response(error.message, has_effect=has_effect) from None
        return PayerResponse(answer.status, body, answer.payer_reference)

    def _raise_for_refusal(self, answer: ExternalResponse, *, has_effect: bool) -> None:
        """Raise the error of a refusal (4xx), with the codes of its OperationOutcome."""
        if answer.status >= 400:
            code = ", ".join(_list_issue_codes(answer.body)[:MAX_CODES])
            failure = self.build_failure(answer, code, has_effect=has_effect)
            if isinstance(failure, ExternalServiceRefused):
                failure = ExternalServiceRefused(str(answer.status), failure.message)
            raise failure


def _list_issue_codes(body: Any) -> list[str]:
    """Return the issue codes of an OperationOutcome, each once; only those that FHIR defines."""
    if not isinstance(body, dict) or body.get("resourceType") != "OperationOutcome":
        return []
    codes = [each.get("code") for each in get_objects(body, "issue")]
    return list(dict.fromkeys(each for each in codes if isinstance(each, str) and each in CODES))
