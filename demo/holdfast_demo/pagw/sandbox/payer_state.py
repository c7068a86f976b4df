"""The sandbox payer's state: the requests by reference, and their decisions.

Each change is written to the ledger and then applied by the same function that replays the ledger at the
start, so a payer that was killed continues with the same state. Nothing awaits here, so each request is
processed once.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.clock import Clock
from holdfast_demo.pagw.sandbox import payer_rules as rules
from holdfast_demo.pagw.sandbox.payer_ledger import Entry, PayerLedger
from pagw.domain.fhir.decisions import Decision, Outcome

Kind = Literal["submit", "update", "cancel"]
AUTHORIZATION: Final = "authorization"
DECISION: Final = "decision"
CALLBACK: Final = "callback"


class AuthorizationRequest(BaseModel):
    """The fields of a request that the payer reads. It keeps only a digest of the Bundle."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    reference: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9-]{0,63}$")
    kind: Kind
    items: list[rules.RequestedItem] = Field(min_length=1)
    callback_url: str | None = Field(default=None, pattern="^https?://[!-~]+$", max_length=2000)


class PayerRefused(Exception):
    """The payer refuses a request. `code` is one that `pagw.integrations.payers.client` knows."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class Authorization:
    """One request and its current decision. `verdicts` are its final results, `closed_by` is the request that
    replaced it.
    """

    reference: str
    kind: Kind
    digest: str
    payer_reference: str
    number: str
    decision: Decision
    verdicts: list[rules.ItemVerdict]
    callback_url: str
    closed_by: str = ""

    @property
    def is_pended(self) -> bool:
        """Return whether the request is pended."""
        return self.decision.outcome is Outcome.PENDED

    @property
    def callback_id(self) -> str:
        """Return the id of the request's callback."""
        return f"callback-{self.payer_reference}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer about the request."""
        body = {
            "reference": self.reference,
            "payer_reference": self.payer_reference,
            "status": "pended" if self.is_pended else "final",
            "decision": self.decision.model_dump(mode="json", exclude_none=True),
        }
        return {**body, "replaced_by": self.closed_by} if self.closed_by else body


class PayerState:
    """All requests, rebuilt from the ledger in a folder."""

    def __init__(self, clock: Clock, folder: Path | None) -> None:
        self.clock = clock
        self.ledger = PayerLedger(folder)
        self.authorizations: dict[str, Authorization] = {}
        self._pended: dict[str, Authorization] = {}
        self._due_decisions: list[tuple[float, str]] = []
        self._due_callbacks: dict[str, Authorization] = {}
        for entry in self.ledger.entries:
            self._apply(entry)

    def act(
        self, request: AuthorizationRequest, body: Mapping[str, Any], former: str, decide_after_s: float
    ) -> Authorization:
        """Process a request once per reference. A repeat returns its current state; a different body is
        refused with 409.

        `former` is the request that an update or a cancellation replaces, empty for a new request.
        """
        digest = hashlib.sha256(json.dumps([former, body], sort_keys=True).encode()).hexdigest()
        known = self.authorizations.get(request.reference)
        if known is not None:
            if known.digest != digest:
                raise PayerRefused(409, "reference_conflict")
            return known
        if request.kind != "submit":
            self._refuse_unchangeable(former)
        self._write(AUTHORIZATION, **self._build_entry(request, digest, former, decide_after_s))
        return self.authorizations[request.reference]

    def decide(self, reference: str) -> Authorization | None:
        """Decide a pended request now; return None if no request with this reference is pended."""
        found = self._pended.get(reference)
        if found is None:
            return None
        decision = rules.build_decision(found.verdicts, found.number, self.clock.now())
        self._write(DECISION, reference=reference, decision=_to_json(decision))
        return found

    def decide_due(self) -> None:
        """Decide every pended request whose time has come."""
        while self._due_decisions and self._due_decisions[0][0] <= self.clock.now():
            self.decide(heapq.heappop(self._due_decisions)[1])

    def record_callback(self, found: Authorization) -> None:
        """Record that the gateway accepted a callback."""
        self._write(CALLBACK, reference=found.reference, id=found.callback_id)

    def list_due_callbacks(self) -> list[Authorization]:
        """Return the requests whose callback is due: decided later than submitted, and not yet accepted."""
        return list(self._due_callbacks.values())

    def _refuse_unchangeable(self, former: str) -> None:
        """Raise `PayerRefused` if the request `former` is unknown, already replaced, or a cancellation."""
        found = self.authorizations.get(former)
        if found is None:
            raise PayerRefused(404, "unknown_authorization")
        if found.closed_by or found.kind == "cancel":
            raise PayerRefused(422, "not_changeable")

    def _build_entry(
        self, request: AuthorizationRequest, digest: str, former: str, decide_after_s: float
    ) -> dict[str, Any]:
        """Build the ledger entry of a request: its decision, or pended with the time of the decision."""
        now, count = self.clock.now(), len(self.authorizations) + 1
        verdicts = rules.judge(request.items)
        takes_time = request.kind != "cancel" and rules.is_pending(verdicts)
        number = f"AUTH{count:07d}"
        if request.kind == "cancel":
            decision = rules.build_cancelled([each.sequence for each in verdicts], now)
        else:
            decision = (
                rules.build_pended(verdicts, now)
                if takes_time
                else rules.build_decision(verdicts, number, now)
            )
        return {
            "reference": request.reference,
            "kind": request.kind,
            "former": former,
            "digest": digest,
            "payer_reference": f"PA-{count:08d}",
            "authorization_number": number,
            "decision": _to_json(decision),
            "verdicts": [each.model_dump(mode="json", exclude_none=True) for each in verdicts],
            "callback_url": request.callback_url or "",
            "decide_at": now + decide_after_s if takes_time else None,
        }

    def _write(self, entry_type: str, **fields: Any) -> None:
        """Append an entry to the ledger and apply it."""
        self._apply(self.ledger.add(entry_type, rules.to_datetime(self.clock.now()).isoformat(), **fields))

    def _apply(self, entry: Entry) -> None:
        """Change the state as a ledger entry says."""
        match entry["what"]:
            case "authorization":
                self._open(entry)
            case "decision":
                found = self._pended.pop(entry["reference"])
                found.decision = Decision.model_validate(entry["decision"])
                self._schedule_callback(found)
            case "callback":
                self._due_callbacks.pop(entry["reference"])

    def _open(self, entry: Entry) -> None:
        """Add the request of a ledger entry, and close the request that it replaces."""
        opened = Authorization(
            reference=entry["reference"],
            kind=entry["kind"],
            digest=entry["digest"],
            payer_reference=entry["payer_reference"],
            number=entry["authorization_number"],
            decision=Decision.model_validate(entry["decision"]),
            verdicts=[rules.ItemVerdict.model_validate(each) for each in entry["verdicts"]],
            callback_url=entry["callback_url"],
        )
        self.authorizations[opened.reference] = opened
        if opened.is_pended:
            self._pended[opened.reference] = opened
            heapq.heappush(self._due_decisions, (entry["decide_at"], opened.reference))
        if entry["former"]:
            self._close(self.authorizations[entry["former"]], opened, entry["at"])

    def _close(self, former: Authorization, by: Authorization, at: str) -> None:
        """Close a replaced request: the payer no longer decides a pended one, and answers a cancelled one as
        cancelled.

        An update of a pended request calls back for it, because its client would wait for ever; a
        cancellation does not.
        """
        was_waiting = self._pended.pop(former.reference, None) is not None
        former.closed_by = by.reference
        if by.kind == "cancel" or was_waiting:
            sequences = [each.sequence for each in former.verdicts]
            former.decision = rules.build_cancelled(sequences, datetime.fromisoformat(at).timestamp())
        if by.kind == "update" and was_waiting:
            self._schedule_callback(former)

    def _schedule_callback(self, found: Authorization) -> None:
        """Make the request's callback due, if it has a callback URL."""
        if found.callback_url:
            self._due_callbacks[found.reference] = found


def _to_json(decision: Decision) -> dict[str, Any]:
    return decision.model_dump(mode="json", exclude_none=True)
