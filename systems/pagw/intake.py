"""The way in: orchestrator, parser and business validator, in the caller's own time.

    known key? → the bundle read and checked → key claimed → the bundle as an object, create-only → tracker,
    findability, inbox, audit and the message to the first stage in one SQL transaction → key completed

Nothing is stored of what is refused but its audit. The id of a request is minted before its key is claimed and stands in
the claim: whoever takes over after a crash goes on with the same id, finds the same objects under the same keys, and the
transaction that was committed before is not made twice.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Stores, Ulids
from holdfast.correlation import correlation_id
from holdfast.errors import IdempotencyMismatch, InProgress
from holdfast.guarantees import Claim, Done, OnceStatus, fingerprint
from pagw import files, patterns
from pagw.attachments import attachments_in
from pagw.auditing import Actor, AuditEvent, audited
from pagw.clocks import due_at
from pagw.fhir.claims import ParsedClaim, parsed
from pagw.fhir.outcomes import BAD_REQUEST, FhirRefused, error, refuse_errors
from pagw.fhir.pas_rules import check_request
from pagw.fhir.reading import read_bundle
from pagw.fhir.structure import load_models
from pagw.findable import Findable
from pagw.formers import Formers, name_of
from pagw.model import (
    QUEUES,
    IdempotencyRecord,
    NewRequest,
    StageMessage,
    original_bundle,
    requests_bucket,
)
from pagw.payers.formats import is_built
from pagw.registries import payer_of, provider_of
from pagw.settings import PagwSettings
from pagw.statuses import Stage, Status

SERVICE: Final = "pasorchestrator"
ACCEPTED: Final = 202
# What is larger is checked in a thread, so that others are answered meanwhile.
LARGE_BYTES: Final = 200_000
# A request is worked on for some milliseconds while its key is claimed: whoever repeats it need not wait for the lease.
RETRY_AFTER_S: Final = 1.0
# What is shorter may stand in any key by chance.
MEMBER_CHARS_MIN: Final = 6


@dataclass(frozen=True)
class Submission:
    """What a client asks: a bundle under its key. `key` is None where the client gave none and none is needed."""

    tenant: str
    key: str | None
    body: bytes = field(repr=False)
    actor: Actor = field(default=Actor("system", SERVICE))
    callback_url: str | None = None
    # Where no key is given, the identifier of the bundle is one (PAS has it name the transaction).
    is_named_by_bundle: bool = False


@dataclass(frozen=True)
class Accepted:
    """A request that is tracked. `replayed` says that it was before, and that nothing was done now."""

    pagw_id: str
    replayed: bool = False


@dataclass(frozen=True)
class Checked:
    """A bundle that may be accepted."""

    bundle: Mapping[str, Any] = field(repr=False)
    claim: ParsedClaim = field(repr=False)
    former: str | None


class Intake:
    """One per process."""

    def __init__(self, stores: Stores, settings: PagwSettings, findable: Findable) -> None:
        self.stores, self.settings, self.findable = stores, settings, findable
        self._ids = Ulids(stores.clock)
        self._formers = Formers(stores, findable)
        # One large bundle at a time, so that a few of them do not take the process from everybody else.
        self._large = asyncio.Semaphore(1)
        # Now, while nobody waits.
        load_models()

    async def accept(self, asked: Submission) -> Accepted:
        """Tracks the request, or finds that it is tracked.

        Raises `FhirRefused` for what cannot be accepted, `InProgress` while another call with the same key is under way,
        `IdempotencyMismatch` for another bundle under the same key.
        """
        bundle = await self._off_loop(asked.body, lambda: self._read(asked.body))
        if asked.key is None and asked.is_named_by_bundle:
            asked = replace(asked, key=_named_key(bundle))
        sha256 = fingerprint(bundle)
        if known := await self._known(asked, sha256):
            return known
        checked = await self._checked(asked, bundle)
        if asked.key is None or not self.settings.idempotency:
            pagw_id, at = self._minted(), self._now()
            await self._track(asked, checked, pagw_id, at)
            return Accepted(pagw_id)
        taken = await self._claimed(self._record(asked, asked.key, sha256))
        if isinstance(taken, Done):
            return Accepted(taken.record.pagw_id, replayed=True)
        return await self._under_claim(asked, checked, taken)

    # --- what is known -------------------------------------------------------------------------------------------

    async def _known(self, asked: Submission, sha256: str) -> Accepted | None:
        """A repeat is answered without another look at what it asks: registries may have changed since."""
        if asked.key is None or not self.settings.idempotency:
            return None
        found = await self.stores.run(patterns.submission(key_of(asked.tenant, asked.key)))
        if (
            found is None
            or found.status is not OnceStatus.PROCESSED
            or found.has_ended(self.stores.clock.now())
        ):
            return None
        if found.payload_sha256 != sha256:
            raise IdempotencyMismatch(
                "The idempotency key was used before with another bundle: use a new key for a new request."
            )
        return Accepted(found.pagw_id, replayed=True)

    # --- parser and validator ------------------------------------------------------------------------------------

    def _read(self, body: bytes) -> dict[str, Any]:
        return read_bundle(body, bytes_max=self.settings.bundle_bytes_max)

    async def _checked(self, asked: Submission, bundle: dict[str, Any]) -> Checked:
        claim = await self._off_loop(asked.body, lambda: _validated(bundle))
        _refuse_told_patient(asked, claim)
        payer = await payer_of(self.stores, claim.payer_id)
        if payer is None:
            raise FhirRefused(
                [error("not-found", "The payer is not one that this gateway knows.", "Claim.insurer")]
            )
        if not is_built(payer.format):
            wrong = "The payer is asked in a format that this gateway does not speak yet."
            raise FhirRefused([error("not-supported", wrong, "Claim.insurer")])
        if await provider_of(self.stores, claim.provider_npi) is None:
            raise FhirRefused(
                [error("not-found", "The provider is not one that this gateway knows.", "Claim.provider")]
            )
        former = None if claim.intent == "submit" else await self._formers.of(asked.tenant, claim)
        return Checked(bundle, claim, former)

    async def _off_loop(self, body: bytes, work: Any) -> Any:
        if len(body) <= LARGE_BYTES:
            return work()
        async with self._large:
            return await asyncio.to_thread(work)

    # --- orchestrator --------------------------------------------------------------------------------------------

    def _record(self, asked: Submission, key: str, sha256: str) -> IdempotencyRecord:
        ends = self._now() + timedelta(hours=self.settings.idempotency_hours)
        return IdempotencyRecord(
            idempotency_key=key_of(asked.tenant, key),
            pagw_id=self._minted(),
            payload_sha256=sha256,
            expires_at=ends,
        )

    async def _claimed(self, record: IdempotencyRecord) -> Claim[IdempotencyRecord] | Done[IdempotencyRecord]:
        try:
            return await patterns.SUBMISSIONS.claim(self.stores, record)
        except InProgress as running:
            raise InProgress(running.message, retry_after_s=RETRY_AFTER_S) from running

    async def _under_claim(
        self, asked: Submission, checked: Checked, claim: Claim[IdempotencyRecord]
    ) -> Accepted:
        pagw_id = claim.record.pagw_id
        created = claim.record.created_at or self._now()
        async with claim.kept():
            try:
                await self._track(asked, checked, pagw_id, created)
            except BaseException:
                # Whoever repeats it shall not have to wait for the lease.
                await asyncio.shield(claim.release())
                raise
            await claim.complete(result={"pagwId": pagw_id}, status_code=ACCEPTED)
        return Accepted(pagw_id)

    async def _track(self, asked: Submission, checked: Checked, pagw_id: str, created: datetime) -> None:
        """Objects first; then the rows, which point at them."""
        await self.stores.run(files.keep_bundle(asked.body, created, pagw_id))
        rows = self._rows(asked, checked, pagw_id, created)
        if await patterns.INBOX.once(self.stores, SERVICE, pagw_id, *rows):
            return
        # The inbox knows it: the transaction was committed by a try before, or the sweeper has the place for a moment.
        if await self.stores.run(patterns.request(asked.tenant, pagw_id)) is None:
            raise InProgress(
                "The files of this request are being cleared away: come again.", retry_after_s=1.0
            )

    def _rows(self, asked: Submission, checked: Checked, pagw_id: str, created: datetime) -> list[Any]:
        claim, tenant = checked.claim, asked.tenant
        metadata: dict[str, Any] = {}
        if asked.key is not None and self.settings.idempotency:
            metadata["idempotencyKey"] = key_of(tenant, asked.key)
        if asked.callback_url is not None:
            metadata["callbackUrl"] = asked.callback_url
        identifier = claim.claim_identifier
        message = StageMessage(pagw_id=pagw_id, tenant=tenant, stage=Stage.request_enricher)
        return [
            patterns.create_request(
                NewRequest(
                    pagw_id=pagw_id,
                    tenant=tenant,
                    correlation_id=correlation_id(),
                    s3_bucket=requests_bucket.physical_name(self.stores.environment),
                    s3_request_key=original_bundle.key(created_at=created, pagw_id=pagw_id),
                    provider_npi=claim.provider_npi,
                    payer_id=claim.payer_id,
                    created_at=created,
                    due_at=due_at(created, claim.urgency),
                    kind=claim.intent,
                    replaces=checked.former,
                    urgency=claim.urgency,
                    metadata=metadata,
                )
            ),
            *self.findable.made(
                tenant,
                pagw_id,
                member=claim.member_id,
                claim=None if identifier is None else name_of(identifier),
            ),
            *audited(self.stores, self._event(asked, checked, pagw_id)),
            patterns.OUTBOX.message(self.stores, pagw_id, QUEUES[Stage.request_enricher], message),
        ]

    def _event(self, asked: Submission, checked: Checked, pagw_id: str) -> AuditEvent:
        return AuditEvent(
            type="STATUS",
            subtype=Status.VALIDATED,
            actor=asked.actor,
            service=SERVICE,
            tenant=asked.tenant,
            pagw_id=pagw_id,
            resource_type="request",
            resource_id=pagw_id,
            details={
                "through": [Status.RECEIVED, Status.PARSED, Status.VALIDATED],
                "kind": checked.claim.intent,
                "payer": checked.claim.payer_id,
                "bytes": len(asked.body),
            },
        )

    def _minted(self) -> str:
        return f"PAGW-{self._ids.new()}"

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.stores.clock.now(), UTC)


def key_of(tenant: str, key: str) -> str:
    """`tenant:key`. No tenant has a colon in its name, so that no two pairs make the same."""
    return f"{tenant}:{key}"


def key_in(bundle: Mapping[str, Any]) -> str | None:
    """A key made of the bundle's identifier; hashed, as nobody knows what a sender puts into one."""
    named = bundle.get("identifier")
    if (
        not isinstance(named, Mapping)
        or not isinstance(named.get("value"), str)
        or not named["value"].strip()
    ):
        return None
    text = f"{named.get('system')}|{named['value']}"
    return f"bundle:{hashlib.sha256(text.encode()).hexdigest()}"


def _named_key(bundle: Mapping[str, Any]) -> str:
    key = key_in(bundle)
    if key is None:
        wrong = "Neither X-Idempotency-Key nor Bundle.identifier names this request: without a name it could be done twice."
        raise FhirRefused([error("required", wrong, "Bundle.identifier")], BAD_REQUEST)
    return key


def _refuse_told_patient(asked: Submission, claim: ParsedClaim) -> None:
    """A key and an address to call stand in rows, where nothing may tell whom a request is about."""
    told = f"{asked.key or ''} {asked.callback_url or ''}".casefold()
    if any(each.casefold() in told for each in claim.member_ids if len(each) >= MEMBER_CHARS_MIN):
        wrong = "X-Idempotency-Key or X-Callback-Url has the member's id in it: name the request without the patient."
        raise FhirRefused([error("value", wrong)])


def _validated(bundle: dict[str, Any]) -> ParsedClaim:
    """Structure, PAS's rules and what is attached; what it refuses is told without a word of what was in it."""
    refuse_errors(check_request(bundle))
    attachments_in(bundle)
    return parsed(bundle)
