"""The intake of requests: orchestrator, parser and business validator, synchronously in the client's call.

    the bundle parsed and checked → key claimed, or found completed → the bundle as an object, create-only →
    tracker, lookups, inbox, audit and the message to the first stage in one SQL statement → key completed

A refused request leaves only an audit event; a completed key is looked up before a refusal, because the
registries may have changed since. The request id is minted before the key is claimed and is part
of the claim: after a crash, a retry continues with the same id, finds the same objects under the same keys,
and does not repeat a committed transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from holdfast import Stores
from holdfast.core.correlation import get_correlation_id
from holdfast.core.errors import IdempotencyMismatch, InProgress
from holdfast.guarantees import Claim, Completion, OnceStatus
from holdfast.model.ulids import UlidGenerator
from pagw.domain.attachments import extract_attachments, may_have_attachments
from pagw.domain.deadlines import compute_due_at
from pagw.domain.fhir.claims import ParsedClaim, parse_claim
from pagw.domain.fhir.outcomes import BAD_REQUEST, FhirRefused, build_error, refuse_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.domain.profiles import LATEST, GuideVersion, find_version, load_profiles
from pagw.domain.statuses import PIPELINE, Status
from pagw.integrations.payers.formats import is_supported
from pagw.model import files, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import (
    QUEUES,
    IdempotencyRecord,
    NewRequest,
    StageMessage,
    original_bundle,
    requests_bucket,
)
from pagw.model.lookup import RequestLookup
from pagw.model.registries import get_payer, get_provider
from pagw.settings import PagwSettings
from pagw.workers.plain_keys import RecordKeys
from pagw.workers.related_requests import RelatedRequests, format_identifier

SERVICE: Final = "pasorchestrator"
FIRST_STAGE: Final = PIPELINE[0].stage
ACCEPTED: Final = 202
# Larger bundles are checked in a thread, so that the event loop stays responsive.
LARGE_BYTES: Final = 200_000
# A shorter member id may occur in any key by chance.
MIN_MEMBER_CHARS: Final = 6


@dataclass(frozen=True)
class Submission:
    """A client's bundle with its idempotency key. `key` is None if none was given or required."""

    tenant: str
    key: str | None
    body: bytes = field(repr=False)
    actor: Actor = field(default=Actor("system", SERVICE))
    callback_url: str | None = None
    # Without a key, use Bundle.identifier as the key (in PAS it identifies the transaction).
    key_from_bundle: bool = False
    # The version of the PAS guide that the client's base URL serves; None for the one that the Bundle names.
    version: GuideVersion | None = None


@dataclass(frozen=True)
class Accepted:
    """A tracked request. `replayed` is True if an earlier call had already submitted it."""

    pagw_id: str
    replayed: bool = False


@dataclass(frozen=True)
class CheckedBundle:
    """A valid bundle, its claim, and the id of the request that it updates or cancels."""

    bundle: Mapping[str, Any] = field(repr=False)
    claim: ParsedClaim = field(repr=False)
    related_pagw_id: str | None


class Intake:
    """Accepts submissions. One per process."""

    def __init__(self, stores: Stores, settings: PagwSettings, lookup: RequestLookup) -> None:
        self.stores, self.settings, self.lookup = stores, settings, lookup
        self._ids = UlidGenerator(stores.clock)
        self._related_requests = RelatedRequests(stores, lookup)
        self._record_keys = RecordKeys(stores, lookup)
        # One large bundle at a time, so that large ones do not starve the other calls.
        self._large_bundles = asyncio.Semaphore(1)
        # Load the profiles at startup, not in the first call.
        load_profiles()

    async def accept(self, submission: Submission) -> Accepted:
        """Track the request, or find the one tracked earlier under the same key.

        Raise `FhirRefused` or `AttachmentRefused` for an invalid bundle, `IdempotencyMismatch` for another
        bundle under the same key, and `InProgress`, with the rest of the lease, while another call with the
        same key is running or has crashed.
        """
        bundle = await self._run_off_loop(submission.body, lambda: self._parse(submission.body))
        if submission.key is None and submission.key_from_bundle:
            submission = replace(submission, key=_require_bundle_key(bundle))
        record_key = await self._find_record_key(submission)
        sha256 = _hash_bundle(bundle)
        try:
            checked = await self._check(submission, bundle)
        except Exception:
            known = await self._find_earlier(record_key, sha256)
            if known is None:
                raise
            if known.status is OnceStatus.PROCESSED:
                return Accepted(known.pagw_id, replayed=True)
            # A claimed key shows that the same bundle passed the checks, perhaps those of an earlier release.
            checked = await self._check(submission, bundle, was_checked=True)
        if record_key is None:
            pagw_id, at = self._mint_id(), self._get_now()
            await self._track(submission, checked, pagw_id, at, None)
            return Accepted(pagw_id)
        record = self._build_record(record_key, sha256)
        taken = await patterns.SUBMISSIONS.claim(self.stores, record)
        if isinstance(taken, Completion):
            return Accepted(taken.record.pagw_id, replayed=True)
        return await self._track_claimed(submission, checked, taken)

    # --- repeated submissions -------------------------------------------------------------------------------

    async def _find_record_key(self, submission: Submission) -> str | None:
        """Return the key of the submission's idempotency record; None without a key."""
        if submission.key is None or not self.settings.idempotency:
            return None
        return await self._record_keys.find(submission.tenant, submission.key)

    async def _find_earlier(self, record_key: str | None, sha256: str) -> IdempotencyRecord | None:
        """Return the record of an earlier submission of this bundle that still counts, or None. Raise
        `IdempotencyMismatch` if the key was completed with another bundle.
        """
        if record_key is None:
            return None
        found = await self.stores.run(patterns.submission(record_key))
        if found is None or found.has_expired(self.stores.clock.now()):
            return None
        if found.payload_sha256 == sha256:
            return found
        if found.status is not OnceStatus.PROCESSED:
            return None
        raise IdempotencyMismatch(
            "The idempotency key was used before with another bundle. Use a new key for a new request."
        )

    # --- parser and validator -------------------------------------------------------------------------------

    def _parse(self, body: bytes) -> dict[str, Any]:
        return parse_bundle(body, max_bytes=self.settings.bundle_bytes_max)

    async def _check(
        self, submission: Submission, bundle: dict[str, Any], *, was_checked: bool = False
    ) -> CheckedBundle:
        """Check the bundle, unless it was, and that payer and provider are registered. Find the related
        request. Raise `FhirRefused` or `AttachmentRefused`.
        """
        validate = parse_claim if was_checked else lambda bundle: _validate(bundle, submission)
        claim = await self._run_off_loop(submission.body, lambda: validate(bundle))
        _refuse_member_id(submission, claim)
        payer = await get_payer(self.stores, claim.payer_id)
        if payer is None:
            raise FhirRefused(
                [
                    build_error(
                        "not-found",
                        "Unknown payer: the insurer is not registered with this gateway.",
                        "Claim.insurer",
                    )
                ]
            )
        if not is_supported(payer.format):
            wrong = "The payer uses a message format that this gateway does not support yet."
            raise FhirRefused([build_error("not-supported", wrong, "Claim.insurer")])
        if await get_provider(self.stores, claim.provider_npi) is None:
            raise FhirRefused(
                [
                    build_error(
                        "not-found",
                        "Unknown provider: the NPI is not registered with this gateway.",
                        "Claim.provider",
                    )
                ]
            )
        former = (
            None if claim.intent == "submit" else await self._related_requests.find(submission.tenant, claim)
        )
        return CheckedBundle(bundle, claim, former)

    async def _run_off_loop(self, body: bytes, work: Any) -> Any:
        """Return the result of `work`. Run it in a thread, one at a time, if the body is large."""
        if len(body) <= LARGE_BYTES:
            return work()
        async with self._large_bundles:
            return await asyncio.to_thread(work)

    # --- orchestrator ---------------------------------------------------------------------------------------

    def _build_record(self, record_key: str, sha256: str) -> IdempotencyRecord:
        """Build the idempotency record that claims a key for a newly minted request id."""
        ends = self._get_now() + timedelta(hours=self.settings.idempotency_hours)
        return IdempotencyRecord(
            idempotency_key=record_key,
            pagw_id=self._mint_id(),
            payload_sha256=sha256,
            expires_at=ends,
        )

    async def _track_claimed(
        self, submission: Submission, checked: CheckedBundle, claim: Claim[IdempotencyRecord]
    ) -> Accepted:
        """Track the request under its claimed key and complete the key. Release the claim after a failure."""
        pagw_id = claim.record.pagw_id
        created = claim.record.created_at or self._get_now()
        async with claim.keep_renewed():
            try:
                await self._track(submission, checked, pagw_id, created, claim.record.idempotency_key)
            except BaseException:
                # Release the claim, so that a retry need not wait for the lease.
                await asyncio.shield(claim.release())
                raise
            await claim.complete(result={"pagwId": pagw_id}, status_code=ACCEPTED)
        return Accepted(pagw_id)

    async def _track(
        self,
        submission: Submission,
        checked: CheckedBundle,
        pagw_id: str,
        created: datetime,
        record_key: str | None,
    ) -> None:
        """Store the bundle, then write the rows that point at it, once. Raise `InProgress` while the sweeper
        removes files of the same request.
        """
        await self.stores.run(files.keep_bundle(submission.body, created, pagw_id))
        rows = self._build_rows(submission, checked, pagw_id, created, record_key)
        # Each write has a table of its own.
        if await patterns.INBOX.run_once(self.stores, SERVICE, pagw_id, *rows, are_independent=True):
            return
        # An inbox row exists: an earlier attempt committed, or the sweeper holds the row for a moment.
        if await self.stores.run(patterns.request(submission.tenant, pagw_id)) is None:
            raise InProgress("This request is being cleaned up. Retry in a second.", retry_after_s=1.0)

    def _build_rows(
        self,
        submission: Submission,
        checked: CheckedBundle,
        pagw_id: str,
        created: datetime,
        record_key: str | None,
    ) -> list[Any]:
        """Build the writes of a tracked request: row, lookups, audit event and the first stage's message."""
        claim, tenant = checked.claim, submission.tenant
        metadata: dict[str, Any] = {}
        if record_key is not None:
            metadata["idempotencyKey"] = record_key
        if submission.callback_url is not None:
            metadata["callbackUrl"] = submission.callback_url
        identifier = claim.claim_identifier
        message = StageMessage(pagw_id=pagw_id, tenant=tenant, stage=FIRST_STAGE)
        return [
            patterns.create_request(
                NewRequest(
                    pagw_id=pagw_id,
                    tenant=tenant,
                    correlation_id=get_correlation_id(),
                    s3_bucket=requests_bucket.physical_name(self.stores.environment),
                    s3_request_key=original_bundle.build_key(created_at=created, pagw_id=pagw_id),
                    provider_npi=claim.provider_npi,
                    payer_id=claim.payer_id,
                    created_at=created,
                    due_at=compute_due_at(created, claim.urgency),
                    kind=claim.intent,
                    replaces=checked.related_pagw_id,
                    urgency=claim.urgency,
                    metadata=metadata,
                )
            ),
            *self.lookup.build_writes(
                tenant,
                pagw_id,
                member=claim.member_id,
                claim=None if identifier is None else format_identifier(identifier),
            ),
            *build_audit_writes(
                self.stores,
                self._build_event(submission, checked, pagw_id),
                (message, QUEUES[FIRST_STAGE]),
            ),
        ]

    def _build_event(self, submission: Submission, checked: CheckedBundle, pagw_id: str) -> AuditEvent:
        """Build the audit event of an accepted request."""
        return AuditEvent(
            type="STATUS",
            subtype=Status.VALIDATED,
            actor=submission.actor,
            service=SERVICE,
            tenant=submission.tenant,
            pagw_id=pagw_id,
            resource_type="request",
            resource_id=pagw_id,
            details={
                "through": [Status.RECEIVED, Status.PARSED, Status.VALIDATED],
                "kind": checked.claim.intent,
                "payer": checked.claim.payer_id,
                "bytes": len(submission.body),
            },
        )

    def _mint_id(self) -> str:
        return f"PAGW-{self._ids.new()}"

    def _get_now(self) -> datetime:
        return self.stores.now()


def derive_key(bundle: Mapping[str, Any]) -> str | None:
    """Derive a key from Bundle.identifier, hashed because it may contain PHI. Return None without one."""
    named = bundle.get("identifier")
    if (
        not isinstance(named, Mapping)
        or not isinstance(named.get("value"), str)
        or not named["value"].strip()
    ):
        return None
    text = f"{named.get('system')}|{named['value']}"
    return f"bundle:{hashlib.sha256(text.encode()).hexdigest()}"


def _require_bundle_key(bundle: Mapping[str, Any]) -> str:
    """Return the key derived from Bundle.identifier. Raise `FhirRefused` (400) without one."""
    key = derive_key(bundle)
    if key is None:
        wrong = (
            "Missing idempotency key: without it, a retry could submit the request twice. "
            "Set X-Idempotency-Key or Bundle.identifier."
        )
        raise FhirRefused([build_error("required", wrong, "Bundle.identifier")], BAD_REQUEST)
    return key


def _refuse_member_id(submission: Submission, claim: ParsedClaim) -> None:
    """Raise `FhirRefused` for a key or callback address that contains the member id: both are stored in rows,
    which must hold no PHI.
    """
    stored = f"{submission.key or ''} {submission.callback_url or ''}".casefold()
    if any(each.casefold() in stored for each in claim.member_ids if len(each) >= MIN_MEMBER_CHARS):
        wrong = "X-Idempotency-Key or X-Callback-Url contains the member id. Remove it: it is PHI."
        raise FhirRefused([build_error("value", wrong)])


def _validate(bundle: dict[str, Any], submission: Submission) -> ParsedClaim:
    """Check profiles, PAS rules and attachments, and parse the claim. Raise `FhirRefused` or
    `AttachmentRefused`, which quote no content.
    """
    refuse_errors(check_request(bundle, submission.version or find_version(bundle) or LATEST))
    if may_have_attachments(submission.body):
        extract_attachments(bundle)
    return parse_claim(bundle)


def _hash_bundle(bundle: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a parsed bundle, whatever the order of its fields.

    It is the library's `fingerprint` in a sixth of the time, because the names of parsed JSON are texts. Only
    numbers with an exponent are written in another way.
    """
    return hashlib.sha256(msgspec.json.encode(bundle, order="sorted")).hexdigest()
