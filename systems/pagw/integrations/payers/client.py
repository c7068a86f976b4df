"""The interface of payers' clients, and the client of each message format.

The gateway sends a request under its own reference (the pagwId). After a lost answer
(`ExternalServiceFailed.may_be_done`) the caller looks the request up before it sends it again. How a request
is recognized at the payer is the format's part: `json_client.py`, `pas_client.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

PayerStatus = Literal["final", "pended"]


@dataclass(frozen=True)
class PayerCall:
    """One request to a payer: its `kind` is submit, update or cancel.

    `body` is the request in the payer's format, `former` the request that an update or a cancellation
    changes, `created_at` when the gateway accepted the request.
    """

    reference: str
    kind: str
    former: str
    body: bytes = field(repr=False)
    created_at: datetime


@dataclass(frozen=True)
class PayerResponse:
    """The payer's answer about one request. `body` is the whole answer: store it as an object and nowhere
    else.
    """

    status: PayerStatus
    body: bytes = field(repr=False)
    payer_reference: str


class PayerClient(Protocol):
    """A client of one payer."""

    async def send(self, call: PayerCall) -> PayerResponse:
        """Submit, update or cancel, by the call's kind. Raise `ExternalServiceRefused` for a permanent
        refusal, `ExternalServiceFailed` for any other failure.
        """
        ...

    async def look_up(self, call: PayerCall) -> PayerResponse | None:
        """Return the current answer about a request, or None if the payer never acted on it. Raise
        `ExternalServiceFailed` if that is unknown.
        """
        ...

    async def check(self) -> None:
        """Make an authenticated call that has no effect. Raise `ExternalServiceFailed` if it fails."""
        ...
