"""The proof of an erasure: what was deleted, what remains and until when, and a hash over all of it.

The proof does not name the subject. It has the hash of its id, which a reader who knows the id can verify.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.guarantees.privacy.retention.periods import format_time
from holdfast.guarantees.privacy.retention.remainders import Remainder


@dataclass(frozen=True)
class Erasure:
    """The result of an erasure.

    Counts are per table, bucket or queue (`deleted`), per table (`log_records`) and per backup
    (`backup_items`).
    """

    system: str
    environment: str
    kind: str
    subject_sha256: str
    at: float
    is_dry_run: bool
    deleted: Mapping[str, int]
    log_records: Mapping[str, int]
    backup_items: Mapping[str, int]
    remains: tuple[Remainder, ...]

    @property
    def proof(self) -> dict[str, Any]:
        """The erasure as JSON-like data, with a SHA-256 over all of it."""
        content = {
            "system": self.system,
            "environment": self.environment,
            "subject": {"kind": self.kind, "sha256": self.subject_sha256},
            "at": format_time(self.at),
            "dry_run": self.is_dry_run,
            "deleted": dict(self.deleted),
            "log_records": dict(self.log_records),
            "backup_items": dict(self.backup_items),
            "remains": [asdict(each) for each in self.remains],
        }
        return {**content, "sha256": _hash(content)}


def is_proof_intact(proof: Mapping[str, Any]) -> bool:
    """Return True if the proof's hash matches its content."""
    content = {name: value for name, value in proof.items() if name != "sha256"}
    return proof.get("sha256") == _hash(content)


def _hash(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content as sorted JSON, in hex."""
    spelled = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(spelled.encode()).hexdigest()
