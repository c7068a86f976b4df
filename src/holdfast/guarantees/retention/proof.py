"""An erasure written down: what was deleted, what remains and until when, and a hash over all of it.

The proof does not name the subject: it has the hash of its id, by which who knows the id can tell that it is theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.guarantees.retention.periods import moment
from holdfast.guarantees.retention.remains import Remainder


@dataclass(frozen=True)
class Erasure:
    """Counts are by table, bucket or queue (`deleted`), by table (`log_records`) and by backup (`backup_items`)."""

    system: str
    environment: str
    kind: str
    subject_sha256: str
    at: float
    is_trial: bool
    deleted: Mapping[str, int]
    log_records: Mapping[str, int]
    backup_items: Mapping[str, int]
    remains: tuple[Remainder, ...]

    @property
    def proof(self) -> dict[str, Any]:
        content = {
            "system": self.system,
            "environment": self.environment,
            "subject": {"kind": self.kind, "sha256": self.subject_sha256},
            "at": moment(self.at),
            "dry_run": self.is_trial,
            "deleted": dict(self.deleted),
            "log_records": dict(self.log_records),
            "backup_items": dict(self.backup_items),
            "remains": [asdict(each) for each in self.remains],
        }
        return {**content, "sha256": _hash(content)}


def is_intact(proof: Mapping[str, Any]) -> bool:
    """Whether a proof says what it said when it was written."""
    content = {name: value for name, value in proof.items() if name != "sha256"}
    return proof.get("sha256") == _hash(content)


def _hash(content: Mapping[str, Any]) -> str:
    spelled = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(spelled.encode()).hexdigest()
