"""Finding a request by what must not be stored: a member's id, a claim's identifier, an authorization's number.

Rows hold a keyed hash of it (HMAC-SHA256, the key a secret, the tenant and the kind mixed in). Who reads the database
cannot tell a member's id from it, nor whether two tenants know the same member.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from holdfast import Secrets, SqlChange, open_secrets
from pagw import patterns

KEY: Final = "pagw/lookup-key"

MEMBER: Final = "member"
CLAIM: Final = "claim"
AUTHORIZATION: Final = "authorization"


@dataclass(frozen=True)
class Findable:
    """Makes the hashes. One per process; a rotated key would find nothing of before, so that it is never rotated."""

    secrets: Secrets

    @classmethod
    def open(cls) -> Findable:
        return cls(open_secrets())

    def hash(self, tenant: str, kind: str, value: str) -> str:
        key = self.secrets.get(KEY).current.encode()
        text = "\x1f".join((tenant, kind, value.strip())).encode()
        return hmac.new(key, text, hashlib.sha256).hexdigest()

    def made(self, tenant: str, pagw_id: str, **values: str | None) -> list[SqlChange]:
        """The writes that make a request findable by each value that there is."""
        return [
            patterns.make_findable(tenant, kind, self.hash(tenant, kind, value), pagw_id)
            for kind, value in values.items()
            if value
        ]


def claim_name(system: str | None, value: str) -> str:
    """As what a claim's identifier is hashed: the same value of two systems is two identifiers."""
    return f"{system or ''}|{value.strip()}"
