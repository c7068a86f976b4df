"""A payer's configuration: a checked row of `payer_config`.

It names secrets and contains none (PG-56). Addresses are HTTPS, except on this machine (a sandbox), because
requests hold patient data.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from holdfast.core.errors import SettingsError
from holdfast.web.external_addresses import validate_address

ANSWER_S: Final = 10.0
MAX_ANSWER_S: Final = 120.0
TOKEN_PATH: Final = "/oauth/token"
_PAYER_ID: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}"
_SECRET_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_/-][a-z0-9]+)*")
# Secrets Manager adds six characters of its own to the name.
_SECRET_ARN: Final = re.compile(r"arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:(.+)-[A-Za-z0-9]{6}")


class AuthType(StrEnum):
    """The gateway's authentication at a payer. With `mtls` the client certificate alone authenticates; a
    certificate may also accompany a token or a key.
    """

    oauth2 = "oauth2"
    api_key = "api_key"
    none = "none"
    mtls = "mtls"


class TokenAuth(StrEnum):
    """The gateway's authentication at the token endpoint of an OAuth payer.

    `private_key_jwt` is that of SMART backend services: an assertion signed with the gateway's private key.
    """

    client_secret_basic = "client_secret_basic"
    client_secret_post = "client_secret_post"
    private_key_jwt = "private_key_jwt"


class FormatName(StrEnum):
    """The message format of a payer."""

    json = "json"
    fhir_pas = "fhir-pas"
    x12_278 = "x12-278"


def _check_secret_reference(value: str) -> str:
    """Return a valid reference of a secret. Refuses other texts, so that no secret itself is stored here."""
    if not _SECRET_NAME.fullmatch(_parse_secret_name(value)):
        raise ValueError("expected the ARN or the name of a secret (words joined by '_', '-' or '/')")
    return value


def _parse_secret_name(reference: str) -> str:
    """Return the name in a secret's ARN, or the text itself if it is not an ARN."""
    arn = _SECRET_ARN.fullmatch(reference)
    return arn[1] if arn else reference


# The fields of the column `options`.
OPTIONS: Final = frozenset(
    {
        "token_auth",
        "client_certificate",
        "server_ca",
        "max_per_minute",
        "standard_hours",
        "expedited_hours",
        "inquire_minutes",
    }
)
# The lengths of the columns.
Address = Annotated[str, Field(max_length=500), AfterValidator(validate_address)]
SecretReference = Annotated[str, Field(max_length=500), AfterValidator(_check_secret_reference)]


class PayerConfig(BaseModel):
    """One payer. `credentials_arn` and `callback_secret` refer to secrets by ARN or name.

    For an OAuth payer with a `client_id`, the secret is the client secret itself, or the private key for
    `private_key_jwt`; without one, it is JSON with both. `client_certificate` is a secret with certificate
    and key in PEM, `server_ca` one with the authorities that sign the payer's own certificate.

    The clocks count from the acceptance of a request: hours until a decision is due, if that is sooner than
    the law's, and minutes until the first inquiry about a pended request.
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
    answer_s: float = Field(default=ANSWER_S, gt=0, le=MAX_ANSWER_S)
    # The fields of the column `options`.
    token_auth: TokenAuth = TokenAuth.client_secret_basic
    client_certificate: SecretReference | None = None
    server_ca: SecretReference | None = None
    max_per_minute: int | None = Field(default=None, ge=1, le=1_000_000)
    standard_hours: int | None = Field(default=None, ge=1, le=168)
    expedited_hours: int | None = Field(default=None, ge=1, le=72)
    inquire_minutes: int | None = Field(default=None, ge=5, le=1440)

    @model_validator(mode="after")
    def _check_credentials(self) -> Self:
        """Raise `ValueError` if the authentication needs credentials and none are named."""
        if self.auth_type in (AuthType.oauth2, AuthType.api_key) and self.credentials_arn is None:
            raise ValueError(f"{self.auth_type} needs credentials: set credentials_arn to their secret")
        if self.auth_type is AuthType.mtls and self.client_certificate is None:
            raise ValueError("mtls needs a certificate: set client_certificate to its secret")
        if self.token_auth is TokenAuth.private_key_jwt and self.client_id is None:
            raise ValueError("private_key_jwt needs client_id: set it to the id that the payer registered")
        return self

    @property
    def token_address(self) -> str:
        """Return the URL of the token endpoint."""
        return self.token_url or self.api_endpoint + TOKEN_PATH

    @property
    def credentials_name(self) -> str:
        """Return the name of the credentials' secret; empty if there is none."""
        return _parse_secret_name(self.credentials_arn or "")

    @property
    def certificate_names(self) -> tuple[str, str]:
        """Return the names of the secrets of the client certificate and of the server's authorities; each
        empty if there is none.
        """
        return _parse_secret_name(self.client_certificate or ""), _parse_secret_name(self.server_ca or "")

    @property
    def callback_secret_name(self) -> str:
        """Return the name of the callbacks' secret; empty if there is none."""
        return _parse_secret_name(self.callback_secret or "")


def parse_payer_config(row: dict[str, Any]) -> PayerConfig:
    """Return the configuration in a row. Raise `SettingsError` with the column, never with its value."""
    options = row.get("options") or {}
    if unknown := sorted(set(options) - OPTIONS):
        raise SettingsError(
            f"Invalid payer configuration: unknown options {', '.join(unknown)[:100]}. Expected "
            f"{', '.join(sorted(OPTIONS))}."
        )
    fields = {**{name: value for name, value in row.items() if value is not None}, **options}
    try:
        return PayerConfig.model_validate(fields)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
        text = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'the row'}: {each['msg'].removeprefix('Value error, ')}"
            for each in faults
        )
        raise SettingsError(f"Invalid payer configuration: {text}. Fix payer_config.") from None
