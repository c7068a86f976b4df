"""How we prove to a payer who we are: a token by OAuth 2 client credentials, or an API key.

The secret is given by the caller, who fetched it under the name in the configuration; a token is kept by the caller too
(in the cache, under `oauth:{payer_id}`). Neither stands in an error.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final
from urllib.parse import quote

import httpx2
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from holdfast import Secret
from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import PartyFailed, SettingsError
from holdfast.web.parties import Party
from pagw.payers.config import PayerConfig
from pagw.payers.messages import Told, faults_of

# A token is not used any more so long before its end: a request must not be under way when it ends.
SKEW_S: Final = 60.0
# Refusals of the client, as RFC 6749 has them, and of a wrong address: all are mended in the configuration.
REFUSED: Final = frozenset({400, 401, 403, 404, 405, 410})


class AccessToken(BaseModel):
    """A token and when it ends, by our clock."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    access_token: str = Field(min_length=1, max_length=16_384, pattern="^[!-~]+$", repr=False)
    expires_at: float = Field(allow_inf_nan=False)

    def usable_s(self, now: float) -> float:
        """How long to keep it, asked when it is fetched. One that lives hardly longer than the skew: half its life."""
        left = self.expires_at - now
        return max(left - SKEW_S, left / 2, 0.0)


class ClientCredentials(BaseModel):
    """What the secret of an OAuth payer is as JSON, where the configuration does not name the client."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    client_id: str = Field(min_length=1)
    client_secret: SecretStr = Field(min_length=1)


class TokenTold(Told):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0, le=31_622_400, allow_inf_nan=False)
    token_type: str = Field(pattern="^[Bb][Ee][Aa][Rr][Ee][Rr]$")


async def fetch_token(
    http: httpx2.AsyncClient, config: PayerConfig, secret: Secret, *, clock: Clock = SYSTEM_CLOCK
) -> AccessToken:
    """A new token. Asking for one changes nothing at the payer."""
    credentials = _credentials(config, secret)
    name = f"The token endpoint of the payer {config.payer_id}"
    hidden = (secret.current, credentials.client_secret.get_secret_value())
    party = Party(http, name, clock, hidden, config.answer_s)
    form = {"grant_type": "client_credentials", **({"scope": config.scope} if config.scope else {})}
    asked_at = clock.now()
    answer = await party.ask(
        "POST",
        config.token_address,
        form=form,
        headers={"authorization": _basic(credentials)},
        changes=False,
        passes=REFUSED,
    )
    if answer.status in REFUSED:
        raise PartyFailed(
            f"{name} refuses us with {answer.status}: mend the secret {secret.name!r}, or the address.",
            may_be_done=False,
        )
    return _token(answer.body, asked_at, name)


def api_key(config: PayerConfig, secret: Secret) -> str:
    """The key of a payer that asks for one: the secret's text."""
    key = secret.current.strip()
    if not (key.isascii() and key.isprintable() and key):
        raise SettingsError(
            f"The secret {secret.name!r} of the payer {config.payer_id} is no API key: set one."
        )
    return key


def _credentials(config: PayerConfig, secret: Secret) -> ClientCredentials:
    if config.client_id is not None:
        return ClientCredentials(client_id=config.client_id, client_secret=SecretStr(secret.current))
    try:
        return ClientCredentials.model_validate(json.loads(secret.current))
    except (ValueError, RecursionError):
        # The parser's words would quote the secret.
        raise SettingsError(
            f"The secret {secret.name!r} of the payer {config.payer_id} must be JSON with client_id and client_secret."
        ) from None


def _basic(credentials: ClientCredentials) -> str:
    """As RFC 6749 has it (2.3.1): both encoded as in a form, before they are joined."""
    parts = (credentials.client_id, credentials.client_secret.get_secret_value())
    return "Basic " + base64.b64encode(":".join(quote(each, safe="") for each in parts).encode()).decode()


def _token(body: Any, asked_at: float, name: str) -> AccessToken:
    try:
        told = TokenTold.model_validate(body)
        return AccessToken(access_token=told.access_token, expires_at=asked_at + told.expires_in)
    except ValidationError as error:
        raise PartyFailed(f"{name} answers nonsense: {faults_of(error)}.", may_be_done=False) from None
