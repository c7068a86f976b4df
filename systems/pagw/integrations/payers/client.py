"""HTTP client of a payer: makes one call, and says whether a failed call may have had an effect.

The caller decides what is safe to retry. The gateway sends a request under its own reference (the pagwId),
which is also the idempotency key: the payer acts on it once, repeats its answer and can look it up. So after
a lost answer (`ExternalServiceFailed.may_be_done`) the caller looks up the reference before it retries. No
error contains the payer's reason for a refusal, because that may repeat the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote

import httpx2
from pydantic import ValidationError

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, SettingsError
from holdfast.web.external_client import PROXY_TIMEOUTS, REFUSALS, ExternalClient, ExternalResponse
from pagw.integrations.payers.config import AuthType, PayerConfig
from pagw.integrations.payers.messages import PayerAnswerBody, format_faults

PATH: Final = "/prior-authorizations"
KEY_HEADER: Final = "idempotency-key"
CONNECT_S: Final = 3.0
MAX_CONNECTIONS: Final = 64
UNAUTHORIZED: Final = 401
CREDENTIAL_REFUSALS: Final = frozenset({UNAUTHORIZED, 403})
CONFLICT: Final = 409
TOO_MANY: Final = 429
# The client builds its own messages for these. The message for a 429 has none of the payer's text.
REWORDED_STATUSES: Final = frozenset(range(400, 500)) - {TOO_MANY}
# The refusal codes that a message may repeat; any other text might identify a patient.
REFERENCE_CONFLICT: Final = "reference_conflict"
ERROR_CODES: Final = frozenset(
    {REFERENCE_CONFLICT, "invalid_request", "unknown_authorization", "not_changeable"}
)
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True)
class PayerResponse:
    """The payer's answer about one request. `body` is the whole answer: store it as an object and nowhere
    else.
    """

    status: Literal["final", "pended"]
    body: bytes = field(repr=False)
    payer_reference: str


@dataclass(frozen=True)
class PayerClient:
    """A client of one payer.

    `get_token` returns the credential, a bearer token or an API key. `discard_token` receives a token that
    the payer refused.
    """

    http: httpx2.AsyncClient
    config: PayerConfig
    get_token: Callable[[], Awaitable[str]]
    discard_token: Callable[[str], Awaitable[None]] | None = None
    clock: Clock = SYSTEM_CLOCK

    async def submit(self, reference: str, body: bytes) -> PayerResponse:
        """Submit a new request. `body` is the request in the payer's format."""
        return await self._post(PATH, reference, body)

    async def update(self, former: str, reference: str, body: bytes) -> PayerResponse:
        """Replace the request `former` with the one under `reference`."""
        return await self._post(f"{PATH}/{_check_reference(former)}/update", reference, body)

    async def cancel(self, former: str, reference: str, body: bytes) -> PayerResponse:
        """Cancel the request `former` under its own `reference`."""
        return await self._post(f"{PATH}/{_check_reference(former)}/cancel", reference, body)

    async def look_up(self, reference: str) -> PayerResponse | None:
        """Return the current answer about a reference, or None if the payer never acted on it. Raise
        `ExternalServiceFailed` for an invalid response.
        """
        path = f"{PATH}?reference={quote(_check_reference(reference), safe='')}"
        answer = await self._request("GET", path, None, {})
        found = answer.body.get("authorizations") if isinstance(answer.body, dict) else None
        if not isinstance(found, list) or len(found) > 1:
            raise self._build_invalid_response(
                "expected authorizations to be a list of at most one", has_effect=False
            )
        return self._parse_answer(found[0], reference, has_effect=False) if found else None

    async def _post(self, path: str, reference: str, body: bytes) -> PayerResponse:
        """POST a body under a reference. Return the payer's answer about that reference."""
        headers = {KEY_HEADER: _check_reference(reference)}
        answer = await self._request("POST", path, _parse_json(body), headers)
        return self._parse_answer(answer.body, reference, has_effect=True)

    async def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> ExternalResponse:
        """Send a request. If the payer refuses the token, discard it and try once with a new one: nothing was
        done.
        """
        proof = await self._get_credential()
        answer = await self._send(method, path, body, headers, proof)
        if (
            answer.status == UNAUTHORIZED
            and self.discard_token is not None
            and self.config.auth_type is AuthType.oauth2
        ):
            await self.discard_token(proof)
            answer = await self._send(method, path, body, headers, await self._get_credential())
        if answer.status in REWORDED_STATUSES:
            raise self._build_failure(answer, has_effect=method != "GET")
        return answer

    async def _send(
        self, method: str, path: str, body: Any, headers: dict[str, str], credential: str
    ) -> ExternalResponse:
        """Send one HTTP request with this credential. Return refusals (4xx except 429) as responses."""
        party = ExternalClient(self.http, self._name, self.clock, (credential,), self.config.answer_s)
        return await party.request(
            method,
            self.config.api_endpoint + path,
            json=body,
            headers={**headers, **self._build_auth_headers(credential)},
            accepted_statuses=REWORDED_STATUSES,
        )

    async def _get_credential(self) -> str:
        """Return the token or API key; empty for no authentication. Raise `SettingsError` for mtls."""
        match self.config.auth_type:
            case AuthType.none:
                return ""
            case AuthType.mtls:
                raise SettingsError(
                    f"{self._name} uses auth_type mtls, which is not supported. Set auth_type to oauth2 or "
                    "api_key, or set api_endpoint to a proxy that adds the client certificate."
                )
            case _:
                return await self.get_token()

    def _build_auth_headers(self, credential: str) -> dict[str, str]:
        """Return the header with the credential that the payer's authentication uses."""
        match self.config.auth_type:
            case AuthType.oauth2:
                return {"authorization": f"Bearer {credential}"}
            case AuthType.api_key:
                return {"x-api-key": credential}
            case _:
                return {}

    def _build_failure(self, answer: ExternalResponse, *, has_effect: bool) -> Exception:
        """Build the error of a refusal: `ExternalServiceRefused` if it is permanent, else
        `ExternalServiceFailed`.
        """
        status, code = answer.status, _get_error_code(answer.body)
        if status in CREDENTIAL_REFUSALS:
            text = f"{self._name} refused the credentials with {status}. Fix the secret in credentials_arn."
            return ExternalServiceFailed(text, may_be_done=False)
        text = f"{self._name} refused the request with {status} ({code or 'no known reason'})."
        if has_effect and (status in REFUSALS or (status == CONFLICT and code == REFERENCE_CONFLICT)):
            return ExternalServiceRefused(code or str(status), text)
        return ExternalServiceFailed(text, may_be_done=has_effect and status in PROXY_TIMEOUTS)

    def _parse_answer(self, body: Any, reference: str, *, has_effect: bool) -> PayerResponse:
        """Parse an answer. Raise `ExternalServiceFailed` if it is invalid or about another reference."""
        try:
            answer = PayerAnswerBody.model_validate(body)
        except ValidationError as error:
            raise self._build_invalid_response(format_faults(error), has_effect=has_effect) from None
        if answer.reference != reference:
            # An answer about another patient's request must never be used for this one.
            raise self._build_invalid_response("the answer is about another reference", has_effect=has_effect)
        return PayerResponse(
            answer.status, json.dumps(body, allow_nan=False).encode(), answer.payer_reference
        )

    def _build_invalid_response(self, reason: str, *, has_effect: bool) -> ExternalServiceFailed:
        """Build the error of a response that breaks the message format."""
        return ExternalServiceFailed(f"Invalid response from {self._name}: {reason}.", may_be_done=has_effect)

    @property
    def _name(self) -> str:
        return f"The payer {self.config.payer_id}"


def make_client() -> httpx2.AsyncClient:
    """Return one HTTP client for all payers; close it when done.

    It follows no redirects: a request is meant for the configured address only.
    """
    return httpx2.AsyncClient(
        headers={"accept": "application/json", "user-agent": "pagw"},
        timeout=httpx2.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        follow_redirects=False,
    )


def _check_reference(reference: str) -> str:
    """Return the reference if it fits a header and a URL; otherwise raise `ExternalServiceRefused`."""
    if not _REFERENCE.fullmatch(reference):
        raise ExternalServiceRefused(
            "invalid_reference", "Invalid reference: expected 1 to 64 letters, digits and dashes."
        )
    return reference


def _parse_json(body: bytes) -> Any:
    """Parse the converted request. Raise `ExternalServiceRefused` if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ExternalServiceRefused(
            "unsendable", "The converted request is not JSON. Convert it again."
        ) from None


def _get_error_code(body: Any) -> str:
    """Return the refusal's code if it is one of `ERROR_CODES`, else an empty text."""
    code = body.get("error") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in ERROR_CODES else ""
