"""What a run of the gateway has left in its four stores and at the outside parties, and whether it is as it must be.

For `test_pagw_killed.py`. Everything is read when nobody works any more. Each judgement says what it is about; none of
them trusts another store's word for its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from holdfast import ListObjects, Stores
from holdfast.guarantees import OnceStatus, scan_files
from holdfast.operations.objects import GetObject
from pagw.model import IdempotencyRecord, audit_events_bucket, requests_bucket
from pagw.sample_bundles import PEOPLE, person
from pagw.sandbox.client import Received
from pagw.sandbox.payer_desk import AUTHORIZATION, CALLBACK, DECISION

from .pagw_parties import REPEATED
from .pagw_stage import Stage
from .pagw_traffic import Asked

# The status steps of a request, as its audit has them: each once, in order.
BEGIN: Final = "VALIDATED ENRICHED ATTACHMENTS_PROCESSED CONVERTED"
PAYER: Final = "( SUBMITTED| PENDED( PENDED)? SUBMITTED)"
END: Final = " RESPONSE_BUILT CALLBACK_SENT COMPLETED"
WHOLE: Final = re.compile(f"{BEGIN}{PAYER}{END}")
FAILED: Final = re.compile(f"{BEGIN} FAILED( FAILED)?")
CANCELLED: Final = re.compile(f"{BEGIN}({PAYER}| PENDED( PENDED)?)?( RESPONSE_BUILT( CALLBACK_SENT( COMPLETED)?)?)? CANCELLED")
PATHS: Final = {"COMPLETED": WHOLE, "FAILED": FAILED, "CANCELLED": CANCELLED}
NOT_CHANGEABLE: Final = "not_changeable"
GIVEN_UP: Final = "given_up"


@dataclass
class Findings:
    requests: dict[str, dict[str, Any]]
    audit: list[dict[str, Any]]
    deliveries: dict[str, dict[str, Any]]
    lookups: int
    records: dict[str, IdempotencyRecord]
    # By bucket: what is under each key.
    request_files: dict[str, bytes] = field(repr=False)
    audit_files: dict[str, bytes] = field(repr=False)
    ledger: list[dict[str, Any]] = field(repr=False)
    received: dict[str, Received] = field(repr=False)

    def steps(self, pagw_id: str) -> list[dict[str, Any]]:
        return [
            each for each in self.audit if each["pagw_id"] == pagw_id and each["event_type"] == "STATUS"
        ]

    def entries(self, what: str) -> dict[str, list[dict[str, Any]]]:
        """The payer's, by reference."""
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in self.ledger:
            if each["what"] == what:
                found[each["reference"]].append(each)
        return found


async def found(stage: Stage, stores: Stores) -> Findings:
    records = [each async for each in stores.each(IdempotencyRecord.scan(reason="A test looks at all of them"))]
    received = stage.ask("client", "/sandbox/received")["received"]
    return Findings(
        requests={each["pagw_id"]: each for each in stage.rows("SELECT * FROM pagw.request_tracker")},
        audit=stage.rows("SELECT * FROM pagw.audit_log ORDER BY id"),
        deliveries={each["delivery_id"]: each for each in stage.rows("SELECT * FROM pagw.deliveries")},
        lookups=len(stage.rows("SELECT 1 FROM pagw.request_lookup")),
        records={each.idempotency_key: each for each in records},
        request_files=await _files(stores, requests_bucket.physical_name(stores.environment)),
        audit_files=await _files(stores, audit_events_bucket.physical_name(stores.environment)),
        ledger=stage.ask("payer", "/sandbox/ledger")["ledger"],
        received={each["id"]: Received(**each) for each in received},
    )
