"""The Outlook mailbox, read only: new, changed and removed messages by Microsoft Graph's delta query.

The checkpoint is the link that Graph returned: to the next page, or to the changes after the last page. Links
are full URLs and the token is sent with the request, so a link is followed only to the service's own address
and only to message changes. The link does not show whose inbox it is: Graph names users and folders in links
in its own way, and the tenant decides what the token may read. A link may be followed again and returns the
current state, so a repeated read is harmless. When Graph has forgotten a link (410, or `syncStateNotFound`),
everything is read again as a reset.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

import httpx2
from pydantic import Field

from agenticpm.domain.tickets import Health, MailMessage, MailPage
from agenticpm.integrations.credentials import OutlookCredentials
from agenticpm.integrations.response_models import ResponseModel, ResponseTime, parse_response
from holdfast.core.clock import Clock
from holdfast.core.errors import ExternalServiceFailed, HoldfastError
from holdfast.web.external_client import ExternalClient, ExternalResponse

NAME: Final = "Outlook"
SIGN_IN_NAME: Final = "Outlook's sign-in"
RECEIVED_FIELD: Final = "receivedDateTime"
SELECTED_FIELDS: Final = ("subject", "from", RECEIVED_FIELD, "bodyPreview")
PAGE_SIZE: Final = 50
MAX_CODE_CHARS: Final = 100
UNAUTHORIZED: Final = 401
# A wrong tenant or address is fixed in the integration too.
APP_REFUSED_STATUSES: Final = frozenset({400, UNAUTHORIZED, 403, 404, 410})
GONE: Final = 410
# Statuses with which Graph may report an expired link; only 410 always means it.
LINK_EXPIRED_STATUSES: Final = frozenset({400, 404, GONE})
LINK_EXPIRED_CODES: Final = frozenset({"syncstatenotfound", "syncstateinvalid", "resyncrequired"})
# The path of a delta link after the prefix, in lower case: `…/messages/delta`, or as an OData function.
DELTA_PATH: Final = re.compile(r"(users|me)\b.*/messages/(microsoft\.graph\.)?delta(\(.*\))?")
# A token is renewed this long before it expires: it must not expire during a request.
RENEWAL_MARGIN_S: Final = 120.0
# For a removed message Graph sends only the id. The time is unknown, so the earliest is used.
UNKNOWN_TIME: Final = "1970-01-01T00:00:00Z"


class EmailAddress(ResponseModel):
    address: str | None = None
    name: str | None = None


class Sender(ResponseModel):
    emailAddress: EmailAddress | None = None  # noqa: N815 - Graph's own name


class Message(ResponseModel):
    id: str = Field(min_length=1)
    subject: str | None = None
    sender: Sender | None = Field(default=None, alias="from")
    received_at: ResponseTime = Field(alias=RECEIVED_FIELD)
    preview: str | None = Field(default=None, alias="bodyPreview")


class RemovedMessage(ResponseModel):
    id: str = Field(min_length=1)


class DeltaPage(ResponseModel):
    value: list[dict[str, Any]]
    next_link: str | None = Field(default=None, alias="@odata.nextLink")
    delta_link: str | None = Field(default=None, alias="@odata.deltaLink")


class GraphError(ResponseModel):
    code: str = ""


class ErrorResponse(ResponseModel):
    error: GraphError = GraphError()


class TokenResponse(ResponseModel):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0, allow_inf_nan=False)


class TokenSource(Protocol):
    """A source of bearer tokens."""

    async def get_bearer(self) -> str: ...

    def forget(self) -> None: ...


class GraphTokens:
    """A source of bearer tokens: the configured token, or an app token that is cached while it is valid."""

    def __init__(self, http: httpx2.AsyncClient, credentials: OutlookCredentials, clock: Clock) -> None:
        secret = credentials.client_secret
        secrets = () if secret is None else (secret.get_secret_value(),)
        self._client = ExternalClient(http, SIGN_IN_NAME, clock, secrets)
        self._credentials, self._clock = credentials, clock
        # The token, when it was fetched, and until when it is used.
        self._cached_token: tuple[str, float, float] | None = None

    async def get_bearer(self) -> str:
        """Return a valid token, fetched if the cached one is about to expire."""
        if self._credentials.access_token is not None:
            return self._credentials.access_token.get_secret_value()
        now, cached = self._clock.now(), self._cached_token
        # A token fetched in the future was fetched while the clock was ahead: its age is unknown.
        if cached is None or not cached[1] <= now < cached[2]:
            token = await self._fetch_token()
            # A token that lives hardly longer than the margin is used for half its lifetime.
            lifetime = max(token.expires_in - RENEWAL_MARGIN_S, token.expires_in / 2)
            cached = self._cached_token = (token.access_token, now, now + lifetime)
        return cached[0]

    def forget(self) -> None:
        """Drop the cached token, so that the next call fetches a new one."""
        self._cached_token = None

    async def _fetch_token(self) -> TokenResponse:
        """Sign in as the app. Raise ExternalServiceFailed if the sign-in refuses it."""
        credentials = self._credentials
        assert credentials.tenant is not None
        assert credentials.client_id is not None
        assert credentials.client_secret is not None
        form = {
            "grant_type": "client_credentials",
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret.get_secret_value(),
            "scope": f"{credentials.base_url}/.default",
        }
        url = f"{credentials.login_url}/{quote(credentials.tenant, safe='')}/oauth2/v2.0/token"
        answer = await self._client.request(
            "POST", url, form=form, has_effect=False, accepted_statuses=APP_REFUSED_STATUSES
        )
        if answer.status in APP_REFUSED_STATUSES:
            text = (
                f"{SIGN_IN_NAME} refused the app with {answer.status}: fix tenant, client_id or "
                "client_secret."
            )
            raise ExternalServiceFailed(text, may_be_done=False)
        return parse_response(TokenResponse, answer.body, SIGN_IN_NAME)


class OutlookMailbox:
    """A `Mailbox` for Outlook's inbox. The HTTP client has Graph's address."""

    def __init__(
        self, http: httpx2.AsyncClient, mailbox: str, tokens: TokenSource, *, page_size: int = PAGE_SIZE
    ) -> None:
        self._client = ExternalClient(http, NAME)
        self._origin = _parse_origin(str(http.base_url))
        self._path_prefix = f"{http.base_url.path.rstrip('/')}/v1.0/"
        self._tokens = tokens
        self._page_size = page_size
        self._inbox = f"/v1.0/users/{quote(mailbox, safe='@')}/mailFolders/inbox"

    async def check_health(self) -> Health:
        """Return whether the inbox is readable. It never raises a HoldfastError."""
        try:
            answer = await self._request(f"{self._inbox}?$select=id")
            parse_response(RemovedMessage, answer.body, NAME)
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        return Health(is_ok=True, detail="The inbox is readable.")

    async def fetch_messages(self, checkpoint: str | None) -> MailPage:
        """Return one page of messages since the checkpoint; without a valid one, from the beginning."""
        first = f"{self._inbox}/messages/delta?$select={','.join(SELECTED_FIELDS)}"
        if not checkpoint:
            return self._build_page(await self._request(first), is_reset=True)
        answer = await self._request(self._check_link(checkpoint, "the checkpoint"), LINK_EXPIRED_STATUSES)
        if answer.status not in LINK_EXPIRED_STATUSES:
            return self._build_page(answer, is_reset=False)
        if answer.status != GONE and _get_error_code(answer) not in LINK_EXPIRED_CODES:
            raise ExternalServiceFailed(
                f"{NAME} refused the link of the checkpoint with {answer.status} "
                f"({_get_error_code(answer) or 'no code'}).",
                may_be_done=False,
            )
        return self._build_page(await self._request(first), is_reset=True)

    async def _request(self, link: str, passes: frozenset[int] = frozenset()) -> ExternalResponse:
        """Send one GET request; statuses in `passes` are returned. A 401 drops the token and raises."""
        headers = {
            "authorization": f"Bearer {await self._tokens.get_bearer()}",
            "prefer": f"odata.maxpagesize={self._page_size}",
        }
        answer = await self._client.request(
            "GET", link, headers=headers, accepted_statuses=passes | {UNAUTHORIZED}
        )
        if answer.status == UNAUTHORIZED:
            # A token may be revoked before it expires: the next request fetches a new one.
            self._tokens.forget()
            raise ExternalServiceFailed(
                f"{NAME} refused the credentials with 401: fix them in the integration.", may_be_done=False
            )
        return answer

    def _build_page(self, answer: ExternalResponse, *, is_reset: bool) -> MailPage:
        """Build the page with the checked link as its checkpoint."""
        page = parse_response(DeltaPage, answer.body, NAME)
        link = page.next_link or page.delta_link
        if link is None:
            raise ExternalServiceFailed(
                f"Invalid response from {NAME}: neither @odata.nextLink nor @odata.deltaLink.",
                may_be_done=False,
            )
        messages = [_parse_message(each) for each in page.value]
        return MailPage(
            messages=tuple(each for each in messages if each is not None),
            checkpoint=self._check_link(link, "a link in the response"),
            has_more=page.next_link is not None,
            is_reset=is_reset,
        )

    def _check_link(self, link: str, what: str) -> str:
        """Return the link if it leads to message changes at the service's own address.

        Raise ExternalServiceFailed otherwise: the token is sent nowhere else. `what` names the link.
        """
        try:
            is_own = _parse_origin(link) == self._origin and self._is_messages_path(
                unquote(urlsplit(link).path)
            )
        except ValueError:
            is_own = False
        if not is_own:
            raise ExternalServiceFailed(
                f"Invalid response from {NAME}: {what} does not lead to the messages at {self._origin}.",
                may_be_done=False,
            )
        return link

    def _is_messages_path(self, path: str) -> bool:
        """Return whether a path is a delta of messages.

        Paths with `..` are refused: a proxy may resolve them.
        """
        leads_up = "\\" in path or any(step in (".", "..") for step in path.split("/"))
        rest = path.removeprefix(self._path_prefix).casefold()
        return not leads_up and rest != path.casefold() and DELTA_PATH.fullmatch(rest) is not None


def _parse_message(entry: dict[str, Any]) -> MailMessage | None:
    """Parse an entry of a delta page; None if it is neither a new nor a removed message.

    For a changed message Graph sends at least the changed fields, for example only the id when it was read or
    flagged. An entry without a received time is not a new message.
    """
    if "@removed" in entry:
        gone = parse_response(RemovedMessage, entry, NAME)
        return MailMessage.model_validate({"id": gone.id, "received_at": UNKNOWN_TIME, "is_removed": True})
    if RECEIVED_FIELD not in entry:
        parse_response(RemovedMessage, entry, NAME)
        return None
    message = parse_response(Message, entry, NAME)
    address = message.sender.emailAddress if message.sender else None
    return MailMessage(
        id=message.id,
        subject=message.subject or "",
        sender=(address.address or address.name) if address else None,
        preview=message.preview or "",
        received_at=message.received_at,
    )


def _get_error_code(answer: ExternalResponse) -> str:
    """Return Graph's error code in lower case, or an empty text."""
    body = answer.body if isinstance(answer.body, dict) else {}
    return parse_response(ErrorResponse, body, NAME).error.code.casefold()[:MAX_CODE_CHARS]


def _parse_origin(url: str) -> str:
    """Return scheme, host and port of a URL. Raise ValueError if it has none."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None:
        raise ValueError("no origin")
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}"
