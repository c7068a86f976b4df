"""A mailbox of Outlook, by Microsoft Graph's delta query: what came, changed or went since the last time. Read only.

The checkpoint is the link that Graph gave: to the next page, or to what comes after all pages. Links are whole addresses,
and the token goes with the request, so a link is followed only to the party's own address and to changes of messages there.
Whose inbox it is cannot be seen in it: Graph names people and folders in links as it likes, and what the token may read is
for the tenant to say. Graph allows a link to be followed again, and answers with what stands then: asking twice is harmless. When it has forgotten a link (410, or
`syncStateNotFound`), everything is told anew as a reset.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

import httpx2
from pydantic import Field

from agenticpm.connectors.credentials import OutlookCredentials
from agenticpm.connectors.shapes import Moment, Shape, shaped
from agenticpm.tickets import Health, MailMessage, MailPage
from holdfast.clock import Clock
from holdfast.errors import HoldfastError, PartyFailed
from holdfast.web.parties import Answer, Party

NAME: Final = "Outlook"
SIGN_IN: Final = "Outlook's sign-in"
RECEIVED: Final = "receivedDateTime"
SELECTED: Final = ("subject", "from", RECEIVED, "bodyPreview")
PAGE_SIZE: Final = 50
CODE_CHARS_MAX: Final = 100
UNAUTHORIZED: Final = 401
# A wrong tenant or address, too, is mended in the integration.
REFUSED_APP: Final = frozenset({400, UNAUTHORIZED, 403, 404, 410})
GONE: Final = 410
# Statuses under which Graph tells that it has forgotten a link; only a 410 always means it.
FORGETS: Final = frozenset({400, 404, GONE})
FORGOTTEN: Final = frozenset({"syncstatenotfound", "syncstateinvalid", "resyncrequired"})
# How the path of a link goes on, and how it ends, in small letters: `…/messages/delta`, or as a function of OData.
LINKS: Final = re.compile(r"(users|me)\b.*/messages/(microsoft\.graph\.)?delta(\(.*\))?")
# A token is renewed so long before it ends: a request must not be under way when it does.
RENEWED_S: Final = 120.0
# Of a message that is gone Graph tells the id alone: no time is known, and the earliest stands for it.
UNKNOWN_TIME: Final = "1970-01-01T00:00:00Z"


class EmailAddress(Shape):
    address: str | None = None
    name: str | None = None


class Sender(Shape):
    emailAddress: EmailAddress | None = None  # noqa: N815 - Graph's own name


class Message(Shape):
    id: str = Field(min_length=1)
    subject: str | None = None
    sender: Sender | None = Field(default=None, alias="from")
    received_at: Moment = Field(alias=RECEIVED)
    preview: str | None = Field(default=None, alias="bodyPreview")


class Removed(Shape):
    id: str = Field(min_length=1)


class DeltaPage(Shape):
    value: list[dict[str, Any]]
    next_link: str | None = Field(default=None, alias="@odata.nextLink")
    delta_link: str | None = Field(default=None, alias="@odata.deltaLink")


class GraphError(Shape):
    code: str = ""


class Failure(Shape):
    error: GraphError = GraphError()


class Token(Shape):
    access_token: str = Field(min_length=1)
    expires_in: float = Field(gt=0, allow_inf_nan=False)


class Tokens(Protocol):
    async def bearer(self) -> str: ...

    def forget(self) -> None: ...


class GraphTokens:
    """The token that goes with a request: the one that was given, or one for the app, kept until shortly before its end."""

    def __init__(self, http: httpx2.AsyncClient, credentials: OutlookCredentials, clock: Clock) -> None:
        secret = credentials.client_secret
        secrets = () if secret is None else (secret.get_secret_value(),)
        self._party = Party(http, SIGN_IN, clock, secrets)
        self._credentials, self._clock = credentials, clock
        self._kept: tuple[str, float] | None = None

    async def bearer(self) -> str:
        if self._credentials.access_token is not None:
            return self._credentials.access_token.get_secret_value()
        if self._kept is None or self._clock.now() >= self._kept[1]:
            asked_at = self._clock.now()
            token = await self._fresh()
            # One that lives hardly longer than the margin is used for half its life.
            lives = max(token.expires_in - RENEWED_S, token.expires_in / 2)
            self._kept = (token.access_token, asked_at + lives)
        return self._kept[0]

    def forget(self) -> None:
        self._kept = None

    async def _fresh(self) -> Token:
        mine = self._credentials
        assert mine.tenant is not None
        assert mine.client_id is not None
        assert mine.client_secret is not None
        form = {
            "grant_type": "client_credentials",
            "client_id": mine.client_id,
            "client_secret": mine.client_secret.get_secret_value(),
            "scope": f"{mine.base_url}/.default",
        }
        url = f"{mine.login_url}/{quote(mine.tenant, safe='')}/oauth2/v2.0/token"
        answer = await self._party.ask("POST", url, form=form, changes=False, passes=REFUSED_APP)
        if answer.status in REFUSED_APP:
            text = f"{SIGN_IN} refuses the app with {answer.status}: mend tenant, client_id or client_secret."
            raise PartyFailed(text, may_be_done=False)
        return shaped(Token, answer.body, SIGN_IN)


class OutlookMailbox:
    """The port of mail that is read. The client knows the address of Graph."""

    def __init__(
        self, http: httpx2.AsyncClient, mailbox: str, tokens: Tokens, *, page_size: int = PAGE_SIZE
    ) -> None:
        self._party = Party(http, NAME)
        self._origin = _origin(str(http.base_url))
        self._begin = f"{http.base_url.path.rstrip('/')}/v1.0/"
        self._tokens = tokens
        self._page_size = page_size
        self._inbox = f"/v1.0/users/{quote(mailbox, safe='@')}/mailFolders/inbox"

    async def health(self) -> Health:
        try:
            answer = await self._asked(f"{self._inbox}?$select=id")
            shaped(Removed, answer.body, NAME)
        except HoldfastError as error:
            return Health(is_ok=False, detail=error.message)
        return Health(is_ok=True, detail="The inbox can be read.")

    async def messages(self, checkpoint: str | None) -> MailPage:
        first = f"{self._inbox}/messages/delta?$select={','.join(SELECTED)}"
        if not checkpoint:
            return self._page(await self._asked(first), is_reset=True)
        answer = await self._asked(self._own(checkpoint, "the checkpoint"), FORGETS)
        if answer.status not in FORGETS:
            return self._page(answer, is_reset=False)
        if answer.status != GONE and _code(answer) not in FORGOTTEN:
            raise PartyFailed(
                f"{NAME} refuses the link of the checkpoint with {answer.status} ({_code(answer) or 'no code'}).",
                may_be_done=False,
            )
        return self._page(await self._asked(first), is_reset=True)

    async def _asked(self, link: str, passes: frozenset[int] = frozenset()) -> Answer:
        headers = {
            "authorization": f"Bearer {await self._tokens.bearer()}",
            "prefer": f"odata.maxpagesize={self._page_size}",
        }
        answer = await self._party.ask("GET", link, headers=headers, passes=passes | {UNAUTHORIZED})
        if answer.status == UNAUTHORIZED:
            # Tokens are withdrawn before their time too: the next request comes with a fresh one.
            self._tokens.forget()
            raise PartyFailed(
                f"{NAME} refuses the credentials with 401: mend them in the integration.", may_be_done=False
            )
        return answer

    def _page(self, answer: Answer, *, is_reset: bool) -> MailPage:
        page = shaped(DeltaPage, answer.body, NAME)
        link = page.next_link or page.delta_link
        if link is None:
            raise PartyFailed(
                f"{NAME} answers nonsense: neither @odata.nextLink nor @odata.deltaLink.", may_be_done=False
            )
        told = [_message(each) for each in page.value]
        return MailPage(
            messages=tuple(each for each in told if each is not None),
            checkpoint=self._own(link, "a link of the answer"),
            has_more=page.next_link is not None,
            is_reset=is_reset,
        )

    def _own(self, link: str, what: str) -> str:
        """A link to changes of messages at the party's own address, or PartyFailed: the token goes nowhere else."""
        try:
            is_own = _origin(link) == self._origin and self._is_of_messages(unquote(urlsplit(link).path))
        except ValueError:
            is_own = False
        if not is_own:
            raise PartyFailed(
                f"{NAME} answers nonsense: {what} leads to another place than the messages at {self._origin}.",
                may_be_done=False,
            )
        return link

    def _is_of_messages(self, path: str) -> bool:
        """Without steps up, which whoever stands in between may take."""
        leads_up = "\\" in path or any(step in (".", "..") for step in path.split("/"))
        rest = path.removeprefix(self._begin).casefold()
        return not leads_up and rest != path.casefold() and LINKS.fullmatch(rest) is not None


def _message(entry: dict[str, Any]) -> MailMessage | None:
    """None for what is no news. Of a mail that is changed Graph tells at least what changed, which may be anything: that it
    was read or flagged, by its id alone. One without its time is no mail that came."""
    if "@removed" in entry:
        gone = shaped(Removed, entry, NAME)
        return MailMessage.model_validate({"id": gone.id, "received_at": UNKNOWN_TIME, "is_removed": True})
    if RECEIVED not in entry:
        shaped(Removed, entry, NAME)
        return None
    told = shaped(Message, entry, NAME)
    address = told.sender.emailAddress if told.sender else None
    return MailMessage(
        id=told.id,
        subject=told.subject or "",
        sender=(address.address or address.name) if address else None,
        preview=told.preview or "",
        received_at=told.received_at,
    )


def _code(answer: Answer) -> str:
    body = answer.body if isinstance(answer.body, dict) else {}
    return shaped(Failure, body, NAME).error.code.casefold()[:CODE_CHARS_MAX]


def _origin(url: str) -> str:
    """Scheme, host and port, as they are told apart; raises ValueError where there is no such."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None:
        raise ValueError("no origin")
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    return f"{parts.scheme}://{parts.hostname}:{port}"
