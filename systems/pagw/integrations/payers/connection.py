"""Connection to a payer: one authenticated HTTP request, and the meaning of its failure.

The caller decides what is safe to retry. A failure says whether the payer may have acted
(`ExternalServiceFailed.may_be_done`); the caller then looks the request up before it retries. No error
contains the payer's reason for a refusal, because that may repeat the request.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.external_client import PROXY_TIMEOUTS, REFUSALS, ExternalClient, ExternalResponse
from pagw.integrations.payers.config import AuthType, PayerConfig

KEY_HEADER: Final = "idempotency-key"
CONNECT_S: Final = 3.0
MAX_CONNECTIONS: Final = 64
UNAUTHORIZED: Final = 401
CREDENTIAL_REFUSALS: Final = frozenset({UNAUTHORIZED, 403})
TOO_MANY: Final = 429
# The connection builds its own errors for these. The error for a 429 has none of the payer's text.
REWORDED_STATUSES: Final = frozenset(range(400, 500)) - {TOO_MANY}
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True)
class PayerConnection:
    """A connection to one payer.

    `get_token` returns the credential, a bearer token or an API key. `discard_token` receives a token that
    the payer refused.
    """

    http: httpx2.AsyncClient
    config: PayerConfig
    get_token: Callable[[], Awaitable[str]]
    discard_token: Callable[[str], Awaitable[None]] | None = None
    clock: Clock = SYSTEM_CLOCK

    @property
    def name(self) -> str:
        """Return the payer's name in errors."""
        return f"The payer {self.config.payer_id}"

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        has_effect: bool,
    ) -> ExternalResponse:
        """Send a request. Return its response, also if it is a refusal (4xx except 429).

        If the payer refuses the token, discard it and try once with a new one: nothing was done.
        """
        proof = await self._get_credential()
        answer = await self._send(method, path, content, headers or {}, proof, has_effect=has_effect)
        if (
            answer.status == UNAUTHORIZED
            and self.discard_token is not None
            and self.config.auth_type is AuthType.oauth2
        ):
            await self.discard_token(proof)
            proof = await self._get_credential()
            answer = await self._send(method, path, content, headers or {}, proof, has_effect=has_effect)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: dict[str, str],
        credential: str,
        *,
        has_effect: bool,
    ) -> ExternalResponse:
        """Send one HTTP request with this credential."""
        client = ExternalClient(self.http, self.name, self.clock, (credential,), self.config.answer_s)
        return await client.request(
            method,
            self.config.api_endpoint + path,
            content=content,
            headers={**headers, **self._build_auth_headers(credential)},
            has_effect=has_effect,
            accepted_statuses=REWORDED_STATUSES,
        )

    async def _get_credential(self) -> str:
        """Return the token or API key; empty if the certificate alone, or nothing, authenticates."""
        if self.config.auth_type in (AuthType.none, AuthType.mtls):
            return ""
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

    def build_failure(
        self, answer: ExternalResponse, code: str, *, has_effect: bool, is_conflict_final: bool = False
    ) -> Exception:
        """Build the error of a refusal: `ExternalServiceRefused` if it is permanent, else
        `ExternalServiceFailed`. `code` is the payer's reason, and holds nothing of the request.
        """
        status = answer.status
        if status in CREDENTIAL_REFUSALS:
            text = f"{self.name} refused the credentials with {status}. Fix the secret in credentials_arn."
            return ExternalServiceFailed(text, may_be_done=False)
        text = f"{self.name} refused the request with {status} ({code or 'no known reason'})."
        if has_effect and (status in REFUSALS or is_conflict_final):
            return ExternalServiceRefused(code or str(status), text)
        return ExternalServiceFailed(text, may_be_done=has_effect and status in PROXY_TIMEOUTS)

    def build_invalid_response(self, reason: str, *, has_effect: bool) -> ExternalServiceFailed:
        """Build the error of a response that breaks the message format."""
        return ExternalServiceFailed(f"Invalid response from {self.name}: {reason}.", may_be_done=has_effect)


def make_client(**options: Any) -> httpx2.AsyncClient:
    """Return one HTTP client for all payers; close it when done. `options` are further ones of httpx2.

    It follows no redirects: a request is meant for the configured address only.
    """
    return httpx2.AsyncClient(
        headers={"accept": "application/json", "user-agent": "pagw"},
        timeout=httpx2.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        limits=httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        follow_redirects=False,
        **options,
    )


def check_reference(reference: str) -> str:
    """Return the reference if it fits a header and a URL; otherwise raise `ExternalServiceRefused`."""
    if not _REFERENCE.fullmatch(reference):
        raise ExternalServiceRefused(
            "invalid_reference", "Invalid reference: expected 1 to 64 letters, digits and dashes."
        )
    return reference
