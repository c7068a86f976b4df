"""What each party must be told of where it is and who we are: checked before anything is kept or asked.

Secrets are `SecretStr`: neither an error nor a repr shows them, and `checked` names the member that is wrong without its
value. An address is HTTPS, unless it is of this machine (a sandbox): a token over plain HTTP would be everybody's.
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

from agenticpm.model import Integration
from holdfast.errors import InvalidRequest
from holdfast.web.party_addresses import party_address

SECRET_CHARS_MAX: Final = 4096


def _secret(value: SecretStr) -> SecretStr:
    """As it can stand in a header: nothing around it, nothing unprintable in it."""
    plain = value.get_secret_value()
    if not plain.strip() or len(plain) > SECRET_CHARS_MAX:
        raise ValueError(f"has from 1 to {SECRET_CHARS_MAX} characters")
    if plain != plain.strip() or not (plain.isascii() and plain.isprintable()):
        raise ValueError("holds blanks around it, or characters that no header can hold")
    return value


def _one_line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError("is a line of text, and not empty")
    return value.strip()


Address = Annotated[str, AfterValidator(party_address)]
Secret = Annotated[SecretStr, AfterValidator(_secret)]
Line = Annotated[str, Field(max_length=320), AfterValidator(_one_line)]


class Credentials(BaseModel):
    """Frozen, without unknown members, and without its values in its errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class JiraCredentials(Credentials):
    """A site of Jira Cloud, and an API token of one of its accounts."""

    base_url: Address
    email: Line
    api_token: Secret


class AsanaCredentials(Credentials):
    """A personal access token, or one of a service account."""

    base_url: Address = "https://app.asana.com"
    token: Secret


class OutlookCredentials(Credentials):
    """A mailbox, and either an app that may read it (tenant, client id and secret) or an access token as it is."""

    base_url: Address = "https://graph.microsoft.com"
    login_url: Address = "https://login.microsoftonline.com"
    mailbox: Line
    tenant: Line | None = None
    client_id: Line | None = None
    client_secret: Secret | None = None
    access_token: Secret | None = None

    @model_validator(mode="after")
    def _says_who_asks(self) -> Self:
        app = (self.tenant, self.client_id, self.client_secret)
        if self.access_token is not None:
            if any(each is not None for each in app):
                raise ValueError("has an access_token and an app: one of them is enough")
        elif any(each is None for each in app):
            raise ValueError("needs tenant, client_id and client_secret together, or an access_token")
        return self


class ResendCredentials(Credentials):
    """An API key, and whom our mail is from: `agent@example.com` or `The agent <agent@example.com>`."""

    base_url: Address = "https://api.resend.com"
    api_key: Secret
    sender: Line

    @field_validator("sender")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        if "@" not in value:
            raise ValueError("is no address of mail")
        return value


MODELS: Final[Mapping[Integration, type[Credentials]]] = {
    Integration.jira: JiraCredentials,
    Integration.asana: AsanaCredentials,
    Integration.outlook: OutlookCredentials,
    Integration.resend: ResendCredentials,
}


def checked(integration: Integration | str, credentials: Mapping[str, Any]) -> Credentials:
    """The credentials of an integration. InvalidRequest says which member is wrong and why, never its value."""
    try:
        model = MODELS[Integration(integration)]
    except ValueError:
        known = ", ".join(Integration)
        raise InvalidRequest(f"There is no integration {str(integration)!r}: there are {known}.") from None
    try:
        return model.model_validate(dict(credentials))
    except ValidationError as error:
        said = "; ".join(_said(each) for each in error.errors(include_input=False, include_url=False))
        wanted = ", ".join(model.model_fields)
        raise InvalidRequest(
            f"The credentials of {integration} cannot be used: {said}. They have {wanted}."
        ) from None


def plain(credentials: Credentials) -> dict[str, Any]:
    """With the secrets in plain: for the cipher, and for nothing else."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in credentials
        if value is not None
    }


def _said(error: Any) -> str:
    # The name of an unknown member comes from outside and may be a secret in the wrong place.
    if error["type"] == "extra_forbidden":
        return "there is a member that they do not have"
    where = ".".join(map(str, error["loc"])) or "the whole"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"
