"""The gateway's credentials at a payer: an OAuth 2 token by client credentials, or an API key.

The gateway authenticates at the token endpoint with a client secret, in the header or the form, or with a
signed assertion (`client_assertion.py`). The caller fetches the secret that the configuration names, and
caches the token (under `oauth:{payer_id}`). No error contains either.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import ExternalServiceFailed, SettingsError
from holdfast.runtime import Secret
from holdfast.web.external_client import ExternalClient
from pagw.integrations.payers.config import PayerConfig, TokenAuth
from pagw.integrations.payers.messages import PayerMessage, format_faults

# A token is not used this long before its expiry, so that it does not expire during a request.
SKEW_S: Final = 60.0
# Refusals of the client (RFC 6749) or of a wrong address. The operator fixes all of them in the
# configuration.
REFUSAL_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 410})


class AccessToken(BaseModel):
    """A token and its expiry by our clock."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    access_token: str = Field(min_length=1, max_length=16_384, pattern="^[!-~]+$", repr=False)
    expires_at: float = Field(allow_inf_nan=False)

    def get_usable_s(self, now: float) -> float:
        """Return for how many seconds to keep a new token: to the skew before its expiry, at least half its
        life.
        """
        left = self.expires_at - now
        return max(left - SKEW_S, left / 2, 0.0)


class ClientCredentials(BaseModel):
    """The JSON secret of an OAuth payer whose configuration has no client_id."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    client_id: str = Field(min_length=1)
    client_secret: SecretStr = Field(min_length=1)


class TokenBody(PayerMessage):
    """The token endpoint's response."""

    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0, le=31_622_400, allow_inf_nan=False)
    token_type: str = Field(pattern="^[Bb][Ee][Aa][Rr][Ee][Rr]$")


async def fetch_token(
    http: httpx2.AsyncClient, config: PayerConfig, secret: Secret, *, clock: Clock = SYSTEM_CLOCK
) -> AccessToken:
    """Fetch a new token. This has no effect at the payer, so it is safe to repeat. Raise `SettingsError` for
    an invalid secret, `ExternalServiceFailed` if the payer refuses it.
    """
    name = f"The token endpoint of the payer {config.payer_id}"
    asked_at = clock.now()
    proof, headers = _build_client_proof(config, secret, asked_at)
    party = ExternalClient(http, name, clock, (secret.current, *proof.values()), config.answer_s)
    form = {"grant_type": "client_credentials", **({"scope": config.scope} if config.scope else {})}
    answer = await party.request(
        "POST",
        config.token_address,
        form={**form, **proof},
        headers=headers,
        has_effect=False,
        accepted_statuses=REFUSAL_STATUSES,
    )
    if answer.status in REFUSAL_STATUSES:
        raise ExternalServiceFailed(
            f"{name} refused the gateway with {answer.status}. Fix the secret {secret.name!r} or the "
            "address.",
            may_be_done=False,
        )
    return _parse_token(answer.body, asked_at, name)


def get_api_key(config: PayerConfig, secret: Secret) -> str:
    """Return the payer's API key: the secret's text. Raise `SettingsError` if it is not printable ASCII."""
    key = secret.current.strip()
    if not (key.isascii() and key.isprintable() and key):
        raise SettingsError(
            f"Invalid secret {secret.name!r} of the payer {config.payer_id}: expected an API key in "
            "printable ASCII."
        )
    return key


def _build_client_proof(
    config: PayerConfig, secret: Secret, now: float
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the fields of the form and the headers that authenticate the gateway at the token endpoint."""
    if config.token_auth is TokenAuth.private_key_jwt:
        # Few payers use assertions, and signatures take long to import.
        from pagw.integrations.payers.client_assertion import ASSERTION_TYPE, build_assertion

        assertion = build_assertion(config, secret, now)
        return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}, {}
    credentials = _parse_credentials(config, secret)
    if config.token_auth is TokenAuth.client_secret_post:
        return {
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret.get_secret_value(),
        }, {}
    return {}, {"authorization": _format_basic_auth(credentials)}


def _parse_credentials(config: PayerConfig, secret: Secret) -> ClientCredentials:
    """Return client id and secret: from the configuration and the secret, or both from a JSON secret. Raise
    `SettingsError` for another secret.
    """
    if config.client_id is not None:
        return ClientCredentials(client_id=config.client_id, client_secret=SecretStr(secret.current))
    try:
        return ClientCredentials.model_validate(json.loads(secret.current))
    except (ValueError, RecursionError):
        # The parser's message would quote the secret.
        raise SettingsError(
            f"Invalid secret {secret.name!r} of the payer {config.payer_id}: expected JSON with client_id "
            "and client_secret."
        ) from None


def _format_basic_auth(credentials: ClientCredentials) -> str:
    """Return the Basic authorization header. RFC 6749 (2.3.1) form-encodes both parts before joining them."""
    parts = (credentials.client_id, credentials.client_secret.get_secret_value())
    return "Basic " + base64.b64encode(":".join(quote(each, safe="") for each in parts).encode()).decode()


def _parse_token(body: Any, asked_at: float, name: str) -> AccessToken:
    """Return the token with its expiry, counted from `asked_at`. Raise `ExternalServiceFailed` if the
    response is invalid.
    """
    try:
        token = TokenBody.model_validate(body)
        return AccessToken(access_token=token.access_token, expires_at=asked_at + token.expires_in)
    except ValidationError as error:
        raise ExternalServiceFailed(
            f"Invalid response from {name}: {format_faults(error)}.", may_be_done=False
        ) from None
