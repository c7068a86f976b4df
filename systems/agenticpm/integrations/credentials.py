"""Schemas of the credentials of the external services: address and secrets, validated before use or storage.

Secrets are `SecretStr`: neither an error nor a repr shows them, and `parse_credentials` names the invalid
field without its value. An address must be HTTPS unless it is local (a sandbox): plain HTTP would expose the
token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from agenticpm.model.entities import Integration
from holdfast.core.errors import InvalidRequest
from holdfast.web.external_addresses import validate_address

MAX_SECRET_CHARS: Final = 4096


def _check_secret(value: SecretStr) -> SecretStr:
    """Return the secret if it fits into an HTTP header: printable ASCII without surrounding blanks."""
    plain = value.get_secret_value()
    if not plain.strip() or len(plain) > MAX_SECRET_CHARS:
        raise ValueError(f"expected 1 to {MAX_SECRET_CHARS} characters")
    if plain != plain.strip() or not (plain.isascii() and plain.isprintable()):
        raise ValueError("expected printable ASCII without surrounding blanks")
    return value


def _check_line(value: str) -> str:
    """Return the text without surrounding blanks.

    Raise ValueError if it is empty or not one printable line.
    """
    if not value.strip() or not value.isprintable():
        raise ValueError("expected one non-empty line of text")
    return value.strip()


Address = Annotated[str, AfterValidator(validate_address)]
Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
ShortText = Annotated[str, Field(max_length=320), AfterValidator(_check_line)]


class Credentials(BaseModel):
    """Base class: frozen, no unknown fields, no values in errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class JiraCredentials(Credentials):
    """A Jira Cloud site and an API token of one of its accounts."""

    base_url: Address
    email: ShortText
    api_token: Secret


class AsanaCredentials(Credentials):
    """A personal access token, or the token of a service account."""

    base_url: Address = "https://app.asana.com"
    token: Secret


class OutlookCredentials(Credentials):
    """A mailbox, and either an app that may read it (tenant, client id and secret) or an access token."""

    base_url: Address = "https://graph.microsoft.com"
    login_url: Address = "https://login.microsoftonline.com"
    mailbox: ShortText
    tenant: ShortText | None = None
    client_id: ShortText | None = None
    client_secret: Secret | None = None
    access_token: Secret | None = None

    @model_validator(mode="after")
    def _check_sign_in(self) -> Self:
        """Require either an access token or a complete app, not both."""
        app = (self.tenant, self.client_id, self.client_secret)
        if self.access_token is not None:
            if any(each is not None for each in app):
                raise ValueError("expected either an access_token or an app, not both")
        elif any(each is None for each in app):
            raise ValueError("expected tenant, client_id and client_secret together, or an access_token")
        return self


class ResendCredentials(Credentials):
    """An API key and the sender of our mail: `agent@example.com` or `The agent <agent@example.com>`."""

    base_url: Address = "https://api.resend.com"
    api_key: Secret
    sender: ShortText

    @field_validator("sender")
    @classmethod
    def _check_sender(cls, value: str) -> str:
        if "@" not in value:
            raise ValueError("expected a mail address")
        return value


CREDENTIALS_MODELS: Final[Mapping[Integration, type[Credentials]]] = {
    Integration.jira: JiraCredentials,
    Integration.asana: AsanaCredentials,
    Integration.outlook: OutlookCredentials,
    Integration.resend: ResendCredentials,
}


def parse_credentials(integration: Integration | str, credentials: Mapping[str, Any]) -> Credentials:
    """Return the validated credentials of an integration.

    Raise InvalidRequest, which names each invalid field and the reason, never its value.
    """
    try:
        model = CREDENTIALS_MODELS[Integration(integration)]
    except ValueError:
        known = ", ".join(Integration)
        raise InvalidRequest(f"Unknown integration {str(integration)!r}: expected one of {known}.") from None
    try:
        return model.model_validate(dict(credentials))
    except ValidationError as error:
        reasons = "; ".join(
            _format_error(each) for each in error.errors(include_input=False, include_url=False)
        )
        wanted = ", ".join(model.model_fields)
        raise InvalidRequest(f"Invalid credentials for {integration}: {reasons}. Fields: {wanted}.") from None


def to_plain(credentials: Credentials) -> dict[str, Any]:
    """Return the credentials with secrets in plain text. Use it only as input of the cipher."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in credentials
        if value is not None
    }


def _format_error(error: Any) -> str:
    # The name of an unknown field comes from the caller and may be a misplaced secret.
    """Format one validation error without any value."""
    if error["type"] == "extra_forbidden":
        return "unknown field"
    where = ".".join(map(str, error["loc"])) or "credentials"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"
