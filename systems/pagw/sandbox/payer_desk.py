"""The sandbox payer's memory of requests: what was asked under which reference, and what became of it.

Each change is first a line of the ledger and then applied, by the very function that reads the ledger at the start: a
payer that was killed knows afterwards what it knew before. Nothing awaits here, so each request is acted on once.
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

from holdfast.clock import Clock
from pagw.fhir.decisions import Decision, Outcome
from pagw.sandbox import payer_rules as rules
from pagw.sandbox.payer_ledger import Entry, PayerLedger

Kind = Literal["submit", "update", "cancel"]
AUTHORIZATION: Final = "authorization"
DECISION: Final = "decision"
CALLBACK: Final = "callback"


class Asked(BaseModel):
    """What the payer reads of a request; the Bundle it only keeps in mind by the digest of the whole."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    reference: str = Field(pattern="^[A-Za-z0-9][A-Za-z0-9-]{0,63}$")
    kind: Kind
    items: list[rules.ItemAsked] = Field(min_length=1)
    callback_url: str | None = Field(default=None, pattern="^https?://[!-~]+$", max_length=2000)


class DeskRefused(Exception):
    """`code` is of the payer's own, as `pagw.payers.client` knows them."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class Authorization:
    """One request as it stands. `verdicts` is what it ends with, `closed_by` what took its place."""

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
    def is_waiting(self) -> bool:
        return self.decision.outcome is Outcome.PENDED

    @property
    def callback_id(self) -> str:
        return f"callback-{self.payer_reference}"

    def told(self) -> dict[str, Any]:
        said = {
            "reference": self.reference,
            "payer_reference": self.payer_reference,
            "status": "pended" if self.is_waiting else "final",
            "decision": self.decision.model_dump(mode="json", exclude_none=True),
        }
        return {**said, "replaced_by": self.closed_by} if self.closed_by else said


class PayerDesk:
    """All requests, over the ledger of a folder."""

    def __init__(self, clock: Clock, folder: Path | None) -> None:
        self.clock = clock
        self.ledger = PayerLedger(folder)
        self.authorizations: dict[str, Authorization] = {}
        self._waiting: dict[str, Authorization] = {}
        self._due: list[tuple[float, str]] = []
        self._owed: dict[str, Authorization] = {}
        for entry in self.ledger.entries:
            self._apply(entry)

    def act(self, asked: Asked, body: Mapping[str, Any], former: str, decide_after_s: float) -> Authorization:
        """Once for a reference: the same again finds it as it stands, anything else under it is refused."""
        digest = hashlib.sha256(json.dumps([former, body], sort_keys=True).encode()).hexdigest()
        known = self.authorizations.get(asked.reference)
        if known is not None:
            if known.digest != digest:
                raise DeskRefused(409, "reference_conflict")
            return known
        if asked.kind != "submit":
            self._refuse_unchangeable(former)
        self._write(AUTHORIZATION, **self._entry(asked, digest, former, decide_after_s))
        return self.authorizations[asked.reference]

    def decide(self, reference: str) -> Authorization | None:
        """A pended one, now; None where none is pended under the reference."""
        found = self._waiting.get(reference)
        if found is None:
            return None
        decision = rules.decided(found.verdicts, found.number, self.clock.now())
        self._write(DECISION, reference=reference, decision=_dumped(decision))
        return found

    def decide_due(self) -> None:
        while self._due and self._due[0][0] <= self.clock.now():
            self.decide(heapq.heappop(self._due)[1])

    def called_back(self, found: Authorization) -> None:
        self._write(CALLBACK, reference=found.reference, id=found.callback_id)

    def to_call_back(self) -> list[Authorization]:
        """Those whose end came later than they were asked, and whose callback nobody has taken yet."""
        return list(self._owed.values())

    def _refuse_unchangeable(self, former: str) -> None:
        found = self.authorizations.get(former)
        if found is None:
            raise DeskRefused(404, "unknown_authorization")
        if found.closed_by or found.kind == "cancel":
            raise DeskRefused(422, "not_changeable")

    def _entry(self, asked: Asked, digest: str, former: str, decide_after_s: float) -> dict[str, Any]:
        now, count = self.clock.now(), len(self.authorizations) + 1
        verdicts = rules.judged(asked.items)
        takes_time = asked.kind != "cancel" and rules.pends(verdicts)
        number = f"AUTH{count:07d}"
        if asked.kind == "cancel":
            decision = rules.cancelled([each.sequence for each in verdicts], now)
        else:
            decision = rules.pended(verdicts, now) if takes_time else rules.decided(verdicts, number, now)
        return {
            "reference": asked.reference,
            "kind": asked.kind,
            "former": former,
            "digest": digest,
            "payer_reference": f"PA-{count:08d}",
            "authorization_number": number,
            "decision": _dumped(decision),
            "verdicts": [each.model_dump(mode="json", exclude_none=True) for each in verdicts],
            "callback_url": asked.callback_url or "",
            "decide_at": now + decide_after_s if takes_time else None,
        }

    def _write(self, what: str, **told: Any) -> None:
        self._apply(self.ledger.add(what, rules.moment(self.clock.now()).isoformat(), **told))

    def _apply(self, entry: Entry) -> None:
        match entry["what"]:
            case "authorization":
                self._open(entry)
            case "decision":
                found = self._waiting.pop(entry["reference"])
                found.decision = Decision.model_validate(entry["decision"])
                self._owe(found)
            case "callback":
                self._owed.pop(entry["reference"])

    def _open(self, entry: Entry) -> None:
        made = Authorization(
            reference=entry["reference"],
            kind=entry["kind"],
            digest=entry["digest"],
            payer_reference=entry["payer_reference"],
            number=entry["authorization_number"],
            decision=Decision.model_validate(entry["decision"]),
            verdicts=[rules.ItemVerdict.model_validate(each) for each in entry["verdicts"]],
            callback_url=entry["callback_url"],
        )
        self.authorizations[made.reference] = made
        if made.is_waiting:
            self._waiting[made.reference] = made
            heapq.heappush(self._due, (entry["decide_at"], made.reference))
        if entry["former"]:
            self._close(self.authorizations[entry["former"]], made, entry["at"])

    def _close(self, former: Authorization, by: Authorization, at: str) -> None:
        """What was pended is not decided any more, and what is cancelled is told so from now on. Whoever updates a pended
        request is called back for it, as it would wait for ever; whoever cancels one knows."""
        was_waiting = self._waiting.pop(former.reference, None) is not None
        former.closed_by = by.reference
        if by.kind == "cancel" or was_waiting:
            sequences = [each.sequence for each in former.verdicts]
            former.decision = rules.cancelled(sequences, datetime.fromisoformat(at).timestamp())
        if by.kind == "update" and was_waiting:
            self._owe(former)

    def _owe(self, found: Authorization) -> None:
        if found.callback_url:
            self._owed[found.reference] = found


def _dumped(decision: Decision) -> dict[str, Any]:
    return decision.model_dump(mode="json", exclude_none=True)
