"""The sandbox PAS payer's state: authorizations by the identifier of their Claim, and their responses.

The payer acts on every `$submit` that it receives: PAS has no idempotency key. It finds an authorization by
the identifier of its Claim and returns the current one if an update replaced it. The ledger has references,
codes and decisions; the Bundles, from which responses are built, are in a file of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from holdfast.core.clock import Clock
from holdfast_demo.pagw.sandbox import payer_rules as rules
from holdfast_demo.pagw.sandbox.payer_ledger import Entry, PayerLedger
from holdfast_demo.pagw.sandbox.payer_state import AUTHORIZATION, CALLBACK, DECISION
from pagw.domain.fhir.claims import ParsedClaim, parse_claim
from pagw.domain.fhir.decisions import Decision, Outcome
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.references import get_objects
from pagw.domain.fhir.responses.response_bundles import build_response_bundle
from pagw.domain.fhir.urls import CLAIM_RESPONSE, ITEM_TRACE_NUMBER, PAGW_ID, RESPONSE_BUNDLE

LEDGER_FILE: Final = "pas_payer.jsonl"
# An opposite decision, on demand.
REVISION: Final = "revision"
BUNDLES_FILE: Final = "pas_payer_bundles.jsonl"
PAYER_SYSTEM: Final = "urn:example:pas-payer:authorization"
# What the gateway must pass on although it knows none of it.
UNKNOWN_EXTENSION: Final = "http://pas-payer.example/StructureDefinition/benefit-left"


class PasRefused(Exception):
    """The payer refuses a request. `code` is that of the issue in its OperationOutcome."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass
class PasAuthorization:
    """One authorization. `reference` is the gateway's trace number, `closed_by` the number of the
    authorization that replaced it. `revision` counts its decisions.
    """

    number: int
    reference: str
    kind: str
    claim: ParsedClaim
    bundle: dict[str, Any]
    decision: Decision
    verdicts: list[rules.ItemVerdict]
    closed_by: int = 0
    revision: int = 1

    @property
    def is_pended(self) -> bool:
        return self.decision.outcome is Outcome.PENDED

    @property
    def notification_id(self) -> str:
        return f"notification-{self.number}-{self.revision}"

    def build_response(self, *, with_traces: bool) -> dict[str, Any]:
        """Return the response Bundle, with elements that no profile has."""
        created = self.decision.decided_at or datetime.min
        bundle = build_response_bundle(self.bundle, self.decision, pagw_id=self.reference, created=created)
        first, *others = bundle["entry"]
        answer = {**first["resource"], **self._build_own_elements(first["resource"], with_traces)}
        bundle["meta"] = {"profile": [f"{RESPONSE_BUNDLE}|2.2.1"]}
        return {**bundle, "entry": [{**first, "resource": answer}, *others]}

    def _build_own_elements(self, answer: Mapping[str, Any], with_traces: bool) -> dict[str, Any]:
        """Return the elements of the ClaimResponse that only this payer sends."""
        reviewer = {"resourceType": "Organization", "id": "reviewer", "name": "Reviewers"}
        left = {"url": UNKNOWN_EXTENSION, "valueDecimal": Decimal("1200.10")}
        items = [each if with_traces else _drop_trace(each) for each in get_objects(answer, "item")]
        return {
            "meta": {"profile": [f"{CLAIM_RESPONSE}|2.2.1"], "versionId": str(self.revision)},
            "identifier": [{"system": PAYER_SYSTEM, "value": f"PAS-{self.number:08d}"}],
            "contained": [*get_objects(answer, "contained"), reviewer],
            "extension": [
                left,
                {"url": f"{UNKNOWN_EXTENSION}-by", "valueReference": {"reference": "#reviewer"}},
            ],
            "item": items,
        }


class PasState:
    """All authorizations, rebuilt from the files in a folder."""

    def __init__(self, clock: Clock, folder: Path | None) -> None:
        self.clock = clock
        self.ledger = PayerLedger(folder, LEDGER_FILE)
        self.bundles = PayerLedger(folder, BUNDLES_FILE)
        self.authorizations: dict[int, PasAuthorization] = {}
        self._by_claim: dict[str, list[PasAuthorization]] = {}
        self._due: list[tuple[float, int]] = []
        self.due_notifications: dict[str, PasAuthorization] = {}
        for entry in self.ledger.entries:
            self._apply(entry)

    def submit(self, body: bytes, decide_after_s: float) -> PasAuthorization:
        """Act on a request: a new authorization each time. Raise `PasRefused` for a change that is
        impossible.
        """
        self.decide_due()
        bundle = parse_exact(body)
        claim = parse_claim(bundle)
        former = self._find_former(claim)
        verdicts = rules.judge([_to_requested_item(each) for each in claim.items])
        takes_time = claim.intent != "cancel" and rules.is_pending(verdicts)
        now, number = self.clock.now(), len(self.authorizations) + 1
        if claim.intent == "cancel":
            decision = rules.build_cancelled([each.sequence for each in verdicts], now)
        elif takes_time:
            decision = rules.build_pended(verdicts, now)
        else:
            decision = rules.build_decision(verdicts, f"PAS{number:07d}", now)
        self.bundles.add("bundle", _format_time(now), text=dump_exact(bundle).decode())
        self._write(
            AUTHORIZATION,
            reference=_get_reference(bundle),
            kind=claim.intent,
            former="" if former is None else former.reference,
            former_number=0 if former is None else former.number,
            authorization=number,
            decision=_to_json(decision),
            verdicts=[each.model_dump(mode="json", exclude_none=True) for each in verdicts],
            decide_at=now + decide_after_s if takes_time else None,
        )
        return self.authorizations[number]

    def inquire(self, body: bytes) -> list[PasAuthorization]:
        """Return the current authorizations that match an inquiry, each once."""
        self.decide_due()
        asked = parse_claim(parse_exact(body))
        found = (
            self._by_claim.get(_format_claim(asked), [])
            if asked.claim_identifier is not None
            else self.authorizations.values()
        )
        current = {
            each.number: each
            for each in map(self._get_current, found)
            if not set(each.claim.member_ids).isdisjoint(asked.member_ids)
            and each.claim.provider_npi == asked.provider_npi
        }
        return list(current.values())

    def find(self, reference: str) -> PasAuthorization | None:
        """Return the last authorization with a trace number of the gateway."""
        return next(
            (each for each in reversed(self.authorizations.values()) if each.reference == reference), None
        )

    def decide(self, reference: str) -> PasAuthorization | None:
        """Decide a pended request now; return None if no request with this trace number is pended."""
        found = self.find(reference)
        if found is None or not found.is_pended or found.closed_by:
            return None
        decision = rules.build_decision(found.verdicts, f"PAS{found.number:07d}", self.clock.now())
        self._write(DECISION, reference=reference, authorization=found.number, decision=_to_json(decision))
        return found

    def revise(self, reference: str) -> PasAuthorization | None:
        """Replace the decision of a request by its opposite; return None for an unknown one."""
        found = self.find(reference)
        if found is None:
            return None
        is_denied = found.decision.outcome is Outcome.DENIED
        verdict = rules.Verdict.approved if is_denied else rules.Verdict.denied
        verdicts = [rules.ItemVerdict(sequence=each.sequence, verdict=verdict) for each in found.verdicts]
        decision = rules.build_decision(verdicts, f"PAS{found.number:07d}", self.clock.now())
        self._write(REVISION, reference=reference, authorization=found.number, decision=_to_json(decision))
        return found

    def get_time(self) -> datetime:
        """Return the payer's current time."""
        return rules.to_datetime(self.clock.now())

    def decide_due(self) -> None:
        """Decide every pended request whose time has come."""
        while self._due and self._due[0][0] <= self.clock.now():
            found = self.authorizations[heapq.heappop(self._due)[1]]
            self.decide(found.reference)

    def record_notification(self, id: str, found: PasAuthorization) -> None:
        """Record that the gateway accepted a notification."""
        self._write(CALLBACK, reference=found.reference, id=id)

    def _find_former(self, claim: ParsedClaim) -> PasAuthorization | None:
        """Return the authorization that an update or a cancellation changes. Raise `PasRefused` if it is
        unknown, already replaced, or cancelled.
        """
        if claim.intent == "submit":
            return None
        named = claim.related_identifier
        known = self._by_claim.get(f"{named.system or ''}|{named.value}", []) if named is not None else []
        if not known:
            raise PasRefused(422, "not-found")
        if known[-1].closed_by or known[-1].kind == "cancel":
            raise PasRefused(422, "business-rule")
        return known[-1]

    def _get_current(self, found: PasAuthorization) -> PasAuthorization:
        """Return the authorization that replaced another at last, or itself."""
        while found.closed_by:
            found = self.authorizations[found.closed_by]
        return found

    def _write(self, entry_type: str, **fields: Any) -> None:
        """Append an entry to the ledger and apply it."""
        self._apply(self.ledger.add(entry_type, _format_time(self.clock.now()), **fields))

    def _apply(self, entry: Entry) -> None:
        """Change the state as a ledger entry says."""
        match entry["what"]:
            case "authorization":
                self._open(entry)
            case "decision" | "revision":
                found = self.authorizations[entry["authorization"]]
                found.decision = Decision.model_validate(entry["decision"])
                found.revision += 1
                self.due_notifications[found.notification_id] = found
            case "callback":
                self.due_notifications.pop(entry["id"], None)

    def _open(self, entry: Entry) -> None:
        """Add the authorization of a ledger entry, and close the one that it replaces."""
        number = entry["authorization"]
        bundle = parse_exact(self.bundles.entries[number - 1]["text"].encode())
        opened = PasAuthorization(
            number=number,
            reference=entry["reference"],
            kind=entry["kind"],
            claim=parse_claim(bundle),
            bundle=bundle,
            decision=Decision.model_validate(entry["decision"]),
            verdicts=[rules.ItemVerdict.model_validate(each) for each in entry["verdicts"]],
        )
        self.authorizations[number] = opened
        self._by_claim.setdefault(_format_claim(opened.claim), []).append(opened)
        if opened.is_pended:
            heapq.heappush(self._due, (entry["decide_at"], number))
        if entry["former_number"]:
            self.authorizations[entry["former_number"]].closed_by = number


def _get_reference(bundle: Mapping[str, Any]) -> str:
    """Return the gateway's trace number on the Claim's first item; empty without one."""
    return next(_list_references(bundle), "")


def _list_references(bundle: Mapping[str, Any]) -> Iterator[str]:
    """Yield the gateway's trace numbers on the Claim's items."""
    for item in get_objects(bundle["entry"][0]["resource"], "item"):
        for each in get_objects(item, "extension"):
            if each.get("url") == ITEM_TRACE_NUMBER and each["valueIdentifier"].get("system") == PAGW_ID:
                yield each["valueIdentifier"]["value"]


def _drop_trace(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item of a response without trace numbers."""
    kept = [each for each in get_objects(item, "extension") if each.get("url") != ITEM_TRACE_NUMBER]
    return {**item, "extension": kept} if kept else {name: item[name] for name in item if name != "extension"}


def _to_requested_item(item: Any) -> rules.RequestedItem:
    """Return an item of a claim as the rules read it."""
    return rules.RequestedItem(
        sequence=item.sequence,
        code=item.code or "",
        system=item.system,
        quantity=item.quantity,
        info_cancelled=item.is_cancelled,
    )


def _format_claim(claim: ParsedClaim) -> str:
    """Return the identifier of a claim as text; empty without one."""
    named = claim.claim_identifier
    return "" if named is None else f"{named.system or ''}|{named.value}"


def _format_time(now: float) -> str:
    return rules.to_datetime(now).isoformat()


def _to_json(decision: Decision) -> dict[str, Any]:
    return decision.model_dump(mode="json", exclude_none=True)
