"""Hashes of values that must not be stored: member id, claim identifier, authorization number, and the
idempotency keys that clients choose.

Rows hold a keyed hash of the value (HMAC-SHA256 with a secret key, over tenant, kind and value). A reader of
the database can neither recover a member id nor see whether two tenants know the same member.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from holdfast.model.sql import SqlChange
from holdfast.runtime import Secrets, open_secrets
from pagw.model import patterns

KEY_SECRET: Final = "pagw/lookup-key"

MEMBER: Final = "member"
CLAIM: Final = "claim"
AUTHORIZATION: Final = "authorization"
IDEMPOTENCY_KEY: Final = "idempotency-key"
# Before the hash in the key of a record. Version 0.2 stored the client's key itself.
HASH_MARK: Final = "hmac-"
PAYER_CLAIM: Final = patterns.PAYER_CLAIM
# Stands for the tenant, which a payer does not know. No tenant's name has a dot.
PAYERS_TENANT: Final = patterns.PAYERS_TENANT


@dataclass(frozen=True)
class RequestLookup:
    """Computes the lookup hashes. One per process. The key is never rotated: a new key would not find earlier
    requests.
    """

    secrets: Secrets

    @classmethod
    def open(cls) -> RequestLookup:
        return cls(open_secrets())

    def hash(self, tenant: str, kind: str, value: str) -> str:
        """Return the keyed hash of a value of this kind, as hex."""
        key = self.secrets.get(KEY_SECRET).current.encode()
        text = "\x1f".join((tenant, kind, value.strip())).encode()
        return hmac.new(key, text, hashlib.sha256).hexdigest()

    def build_idempotency_key(self, tenant: str, key: str) -> str:
        """Return the key of the idempotency record of a client's key: `tenant:` and a keyed hash.

        A client may have put a patient's name into its key. Tenant names have no colon, so the result is
        unambiguous.
        """
        return f"{tenant}:{HASH_MARK}{self.hash(tenant, IDEMPOTENCY_KEY, key)}"

    def hash_payer_claim(self, payer_id: str, system: str | None, value: str) -> str:
        """Return the keyed hash by which a payer's notification finds a request: it names no tenant."""
        text = "\x1f".join((payer_id, format_claim_identifier(system, value)))
        return self.hash(PAYERS_TENANT, PAYER_CLAIM, text)

    def build_payer_claim_write(
        self, payer_id: str, pagw_id: str, system: str | None, value: str
    ) -> SqlChange:
        """Return the write that makes a request findable by its payer's notifications."""
        hash = self.hash_payer_claim(payer_id, system, value)
        return patterns.make_findable(PAYERS_TENANT, {PAYER_CLAIM: hash}, pagw_id)

    def build_writes(self, tenant: str, pagw_id: str, **values: str | None) -> list[SqlChange]:
        """Return the write that makes a request findable, or none. `values` maps a kind (`member`, `claim`,
        `authorization`) to its value; empty ones are left out.
        """
        hashes = {kind: self.hash(tenant, kind, value) for kind, value in values.items() if value}
        return [patterns.make_findable(tenant, hashes, pagw_id)] if hashes else []


def build_plain_key(tenant: str, key: str) -> str:
    """Return the key under which version 0.2 stored the record of a client's key."""
    return f"{tenant}:{key}"


def format_claim_identifier(system: str | None, value: str) -> str:
    """Return the text to hash for a claim identifier: the same value in two systems is two identifiers."""
    return f"{system or ''}|{value.strip()}"
