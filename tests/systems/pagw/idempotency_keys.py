"""The key of a record in the idempotency table, as the gateway computes it with the tests' secret."""

from __future__ import annotations

from holdfast.security.secrets import EnvironmentSecrets, Secrets
from pagw.model.lookup import RequestLookup

# The secret of the gateways that the tests start.
VARIABLES = {"HOLDFAST_SECRET_PAGW_LOOKUP_KEY": "k" * 32}


def build_idempotency_key(tenant: str, key: str, variables: dict[str, str] | None = None) -> str:
    """Return the key of the record of a client's key."""
    lookup = RequestLookup(Secrets(EnvironmentSecrets(variables or VARIABLES)))
    return lookup.build_idempotency_key(tenant, key)
