"""Where a payer is and how it wants to be asked: a row of `payer_config`, checked.

It names secrets and holds none (PG-56). An address is HTTPS, unless it is of this machine (a sandbox): what goes there
is about patients.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from holdfast.errors import SettingsError
from holdfast.web.party_addresses import party_address

ANSWER_S: Final = 10.0
ANSWER_S_MAX: Final = 120.0
TOKEN_PATH: Final = "/oauth/token"
_PAYER_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}"
_SECRET_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_/-][a-z0-9]+)*")
# Secrets Manager adds six characters of its own to the name.
_SECRET_ARN: Final = re.compile(r"arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:(.+)-[A-Za-z0-9]{6}")


class AuthType(StrEnum):
    """How we prove who we are. `mtls` has its place and is not built: the client would need a certificate of its own."""

    oauth2 = "oauth2"
    api_key = "api_key"
    none = "none"
    mtls = "mtls"


class FormatName(StrEnum):
    json = "json"
    x12_278 = "x12-278"


def _reference(value: str) -> str:
    """The name of a secret, so that nobody puts the secret itself here."""
    if not _SECRET_NAME.fullmatch(_named(value)):
        raise ValueError(
            "names no secret: it is the ARN of one, or its name (words joined by '_', '-' or '/')"
        )
    return value


def _named(reference: str) -> str:
    arn = _SECRET_ARN.fullmatch(reference)
    return arn[1] if arn else reference


# As long as the columns are.
Address = Annotated[str, Field(max_length=500), AfterValidator(party_address)]
SecretReference = Annotated[str, Field(max_length=500), AfterValidator(_reference)]


class PayerConfig(BaseModel):
    """One payer. `credentials_arn` and `callback_secret` are references of secrets: an ARN, or a name.

    Of an OAuth payer with a `client_id`, the secret is the client's secret as it is; without one, JSON with both.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    payer_id: str = Field(pattern=f"^{_PAYER_ID}$")
    name: str = Field(min_length=1, max_length=255)
    api_endpoint: Address
    auth_type: AuthType = AuthType.oauth2
    credentials_arn: SecretReference | None = None
    format: FormatName = FormatName.json
    client_id: str | None = Field(default=None, min_length=1, max_length=100)
    callback_secret: SecretReference | None = None
    token_url: Address | None = None
    scope: str | None = Field(default=None, min_length=1, max_length=1000)
    answer_s: float = Field(default=ANSWER_S, gt=0, le=ANSWER_S_MAX)

    @model_validator(mode="after")
    def _can_prove(self) -> Self:
        if self.auth_type in (AuthType.oauth2, AuthType.api_key) and self.credentials_arn is None:
            raise ValueError(f"{self.auth_type} needs credentials: name their secret in credentials_arn")
        return self

    @property
    def token_address(self) -> str:
        return self.token_url or self.api_endpoint + TOKEN_PATH

    @property
    def credentials_name(self) -> str:
        """Under which the credentials are among the secrets; empty where there are none."""
        return _named(self.credentials_arn or "")

    @property
    def callback_secret_name(self) -> str:
        return _named(self.callback_secret or "")


def payer_config(row: dict[str, Any]) -> PayerConfig:
    """From a row. What is wrong is SettingsError with the column, and never with what stands in it."""
    try:
        return PayerConfig.model_validate({name: value for name, value in row.items() if value is not None})
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        said = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'the row'}: {each['msg']}" for each in faults)
        raise SettingsError(
            f"The payer cannot be used as it is configured: {said}. Mend payer_config."
        ) from None
