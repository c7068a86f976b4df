"""A payer asked over HTTP: one call, and what its failure means. What is safe to repeat is decided above.

A request goes out under a reference of ours (its pagwId), which is the idempotency key too: the payer acts once on it,
answers the same again, and can be asked what became of it. So a lost answer (`PartyFailed.may_be_done`) is looked up by
the reference before anything is repeated. A payer's words about a refusal may repeat what it was told: none of them
reach an error.
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

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import NotFound, PartyFailed, PartyRefused, SettingsError
from holdfast.web.parties import REFUSALS, WAITED, Answer, Party
from pagw.payers.config import AuthType, PayerConfig
from pagw.payers.messages import AnswerTold, faults_of

PATH: Final = "/prior-authorizations"
KEY_HEADER: Final = "idempotency-key"
CONNECT_S: Final = 3.0
CONNECTIONS_MAX: Final = 64
UNAUTHORIZED: Final = 401
NO_CREDENTIALS: Final = frozenset({UNAUTHORIZED, 403})
CONFLICT: Final = 409
TOO_MANY: Final = 429
# All are told in our words; a 429 has none of the payer's.
TOLD_BY_US: Final = frozenset(range(400, 500)) - {TOO_MANY}
# The refusals that a payer may name; any other name might be of somebody.
CONFLICTING: Final = "reference_conflict"
CODES: Final = frozenset({CONFLICTING, "invalid_request", "unknown_authorization", "not_changeable"})
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True)
class PayerAnswer:
    """What the payer says of one request. `body` is the whole of it: it belongs into an object, and nowhere else."""

    status: Literal["final", "pended"]
    body: bytes = field(repr=False)
    payer_reference: str


@dataclass(frozen=True)
class Payer:
    """`token` gives what proves who we are: a bearer token or an API key. `forget` is told a token that was refused."""

    http: httpx2.AsyncClient
    config: PayerConfig
    token: Callable[[], Awaitable[str]]
    forget: Callable[[str], Awaitable[None]] | None = None
    clock: Clock = SYSTEM_CLOCK

    async def submit(self, reference: str, body: bytes) -> PayerAnswer:
        return await self._changed(PATH, reference, body)

    async def update(self, former: str, reference: str, body: bytes) -> PayerAnswer:
        """The request under `reference` takes the place of the former one."""
        return await self._changed(f"{PATH}/{_checked(former)}/update", reference, body)

    async def cancel(self, former: str, reference: str, body: bytes) -> PayerAnswer:
        return await self._changed(f"{PATH}/{_checked(former)}/cancel", reference, body)

    async def look_up(self, reference: str) -> PayerAnswer | None:
        """What became of the request under a reference, as it stands now; None if the payer never acted on it."""
        path = f"{PATH}?reference={quote(_checked(reference), safe='')}"
        answer = await self._asked("GET", path, None, {})
        found = answer.body.get("authorizations") if isinstance(answer.body, dict) else None
        if not isinstance(found, list) or len(found) > 1:
            raise self._nonsense("authorizations should be a list of one, or of none", changes=False)
        return self._read(found[0], reference, changes=False) if found else None

    async def inquire(self, reference: str) -> PayerAnswer:
        """The same for somebody who asks; NotFound where the payer knows nothing of it."""
        found = await self.look_up(reference)
        if found is None:
            raise NotFound(f"{self._name} knows nothing of {reference}.")
        return found

    async def _changed(self, path: str, reference: str, body: bytes) -> PayerAnswer:
        headers = {KEY_HEADER: _checked(reference)}
        answer = await self._asked("POST", path, _parsed(body), headers)
        return self._read(answer.body, reference, changes=True)

    async def _asked(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        """A token that is refused is thrown away, and a new one is tried once: nothing was done under the old one."""
        proof = await self._proof()
        answer = await self._sent(method, path, body, headers, proof)
        if (
            answer.status == UNAUTHORIZED
            and self.forget is not None
            and self.config.auth_type is AuthType.oauth2
        ):
            await self.forget(proof)
            answer = await self._sent(method, path, body, headers, await self._proof())
        if answer.status in TOLD_BY_US:
            raise self._failure(answer, changes=method != "GET")
        return answer

    async def _sent(self, method: str, path: str, body: Any, headers: dict[str, str], proof: str) -> Answer:
        party = Party(self.http, self._name, self.clock, (proof,), self.config.answer_s)
        return await party.ask(
            method,
            self.config.api_endpoint + path,
            json=body,
            headers={**headers, **self._proven(proof)},
            passes=TOLD_BY_US,
        )

    async def _proof(self) -> str:
        match self.config.auth_type:
            case AuthType.none:
                return ""
            case AuthType.mtls:
                raise SettingsError(
                    f"{self._name} asks for mutual TLS, which is not built: set auth_type to oauth2 or api_key, or "
                    "put something that adds the certificate between, and name its address as api_endpoint."
                )
            case _:
                return await self.token()

    def _proven(self, proof: str) -> dict[str, str]:
        match self.config.auth_type:
            case AuthType.oauth2:
                return {"authorization": f"Bearer {proof}"}
            case AuthType.api_key:
                return {"x-api-key": proof}
            case _:
                return {}

    def _failure(self, answer: Answer, *, changes: bool) -> Exception:
        status, code = answer.status, _code(answer.body)
        if status in NO_CREDENTIALS:
            text = f"{self._name} refuses the credentials with {status}: mend the secret in credentials_arn."
            return PartyFailed(text, may_be_done=False)
        text = f"{self._name} refuses the request with {status} ({code or 'without a reason that is known here'})."
        if changes and (status in REFUSALS or (status == CONFLICT and code == CONFLICTING)):
            return PartyRefused(code or str(status), text)
        return PartyFailed(text, may_be_done=changes and status in WAITED)

    def _read(self, body: Any, reference: str, *, changes: bool) -> PayerAnswer:
        try:
            told = AnswerTold.model_validate(body)
        except ValidationError as error:
            raise self._nonsense(faults_of(error), changes=changes) from None
        if told.reference != reference:
            # Somebody else's answer must never be taken for this one's.
            raise self._nonsense("the answer is about another reference", changes=changes)
        return PayerAnswer(told.status, json.dumps(body, allow_nan=False).encode(), told.payer_reference)

    def _nonsense(self, why: str, *, changes: bool) -> PartyFailed:
        return PartyFailed(f"{self._name} answers nonsense: {why}.", may_be_done=changes)

    @property
    def _name(self) -> str:
        return f"The payer {self.config.payer_id}"


def make_client() -> httpx2.AsyncClient:
    """One for all payers; close it when done. A redirect is not followed: what goes out is for that address alone."""
    return httpx2.AsyncClient(
        headers={"accept": "application/json", "user-agent": "pagw"},
        timeout=httpx2.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        follow_redirects=False,
    )


def _checked(reference: str) -> str:
    """As a header and an address can hold it."""
    if not _REFERENCE.fullmatch(reference):
        raise PartyRefused("invalid_reference", "A reference has 1 to 64 letters, digits and dashes.")
    return reference


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise PartyRefused(
            "unsendable", "What the payer should be told is no JSON: convert it anew."
        ) from None


def _code(body: Any) -> str:
    code = body.get("error") if isinstance(body, dict) else None
    return code if isinstance(code, str) and code in CODES else ""
