"""Client of a payer that speaks our own JSON messages (`messages.py`).

The reference is also the idempotency key: the payer acts on it once, repeats its answer and can look it up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pydantic import ValidationError

from holdfast.core.errors import ExternalServiceRefused
from holdfast.web.external_client import ExternalResponse
from pagw.integrations.payers.client import PayerCall, PayerResponse
from pagw.integrations.payers.connection import KEY_HEADER, PayerConnection, check_reference
from pagw.integrations.payers.messages import PayerAnswerBody, format_faults

PATH: Final = "/prior-authorizations"
# A reference that no request has.
UNKNOWN_REFERENCE: Final = "PAGW-CONNECTION-TEST"
CONFLICT: Final = 409
JSON_HEADERS: Final = {"content-type": "application/json"}
# The refusal codes that a message may repeat; any other text might identify a patient.
REFERENCE_CONFLICT: Final = "reference_conflict"
ERROR_CODES: Final = frozenset(
    {REFERENCE_CONFLICT, "invalid_request", "unknown_authorization", "not_changeable"}
)


@dataclass(frozen=True)
class JsonPayerClient(PayerConnection):
    """A client of one payer with the format `json`."""

    async def send(self, call: PayerCall) -> PayerResponse:
        """Submit, update or cancel, by the call's kind."""
        match call.kind:
            case "update":
                return await self.update(call.former, call.reference, call.body)
            case "cancel":
                return await self.cancel(call.former, call.reference, call.body)
            case _:
                return await self.submit(call.reference, call.body)

    async def look_up(self, call: PayerCall) -> PayerResponse | None:
        """Return the current answer about a request, or None if the payer never acted on it."""
        return await self.find(call.reference)

    async def check(self) -> None:
        """Look up a reference that no request has."""
        await self.find(UNKNOWN_REFERENCE)

    async def submit(self, reference: str, body: bytes) -> PayerResponse:
        """Submit a new request. `body` is the request in the payer's format."""
        return await self._post(PATH, reference, body)

    async def update(self, former: str, reference: str, body: bytes) -> PayerResponse:
        """Replace the request `former` with the one under `reference`."""
        return await self._post(f"{PATH}/{check_reference(former)}/update", reference, body)

    async def cancel(self, former: str, reference: str, body: bytes) -> PayerResponse:
        """Cancel the request `former` under its own `reference`."""
        return await self._post(f"{PATH}/{check_reference(former)}/cancel", reference, body)

    async def find(self, reference: str) -> PayerResponse | None:
        """Return the current answer about a reference, or None if the payer never acted on it. Raise
        `ExternalServiceFailed` for an invalid response.
        """
        path = f"{PATH}?reference={quote(check_reference(reference), safe='')}"
        answer = await self.request("GET", path, has_effect=False)
        self._raise_for_refusal(answer, has_effect=False)
        found = answer.body.get("authorizations") if isinstance(answer.body, dict) else None
        if not isinstance(found, list) or len(found) > 1:
            raise self.build_invalid_response(
                "expected authorizations to be a list of at most one", has_effect=False
            )
        return self._parse_answer(found[0], reference, has_effect=False) if found else None

    async def _post(self, path: str, reference: str, body: bytes) -> PayerResponse:
        """POST a body under a reference. Return the payer's answer about that reference."""
        headers = {KEY_HEADER: check_reference(reference), **JSON_HEADERS}
        answer = await self.request("POST", path, content=_check_json(body), headers=headers, has_effect=True)
        self._raise_for_refusal(answer, has_effect=True)
        return self._parse_answer(answer.body, reference, has_effect=True)

    def _raise_for_refusal(self, answer: ExternalResponse, *, has_effect: bool) -> None:
        """Raise the error of a refusal (4xx)."""
        if answer.status >= 400:
            code = _get_error_code(answer.body)
            is_conflict_final = answer.status == CONFLICT and code == REFERENCE_CONFLICT
            raise self.build_failure(answer, code, has_effect=has_effect, is_conflict_final=is_conflict_final)

    def _parse_answer(self, body: Any, reference: str, *, has_effect: bool) -> PayerResponse:
        """Parse an answer. Raise `ExternalServiceFailed` if it is invalid or about another reference."""
        try:
            answer = PayerAnswerBody.model_validate(body)
        except ValidationError as error:
            raise self.build_invalid_response(format_faults(error), has_effect=has_effect) from None
        if answer.reference != reference:
            # An answer about another patient's request must never be used for this one.
            raise self.build_invalid_response("the answer is about another reference", has_effect=has_effect)
        return PayerResponse(
            answer.status, json.dumps(body, allow_nan=False).encode(), answer.payer_reference
        )


def _check_json(body: bytes) -> bytes:
    """Return the converted request. Raise `ExternalServiceRefused` if it is not JSON."""
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        raise ExternalServiceRefused(
            "unsendable", "The converted request is not JSON. Convert it again."
        ) from None
    return body


def _get_error_code(body: Any) -> str:
    """Return the refusal's code if it is one of `ERROR_CODES`, else an empty text."""
    code = body.get("error") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in ERROR_CODES else ""
