"""Registration of providers and payers by an operator: checked, written, audited and evicted from the cache.

Without the eviction, processes would use the old entry for five minutes. The payer's token is evicted too,
because its credentials may have changed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import InvalidRequest
from holdfast.model.sql import SqlOne, SqlRow, SqlRows
from pagw.domain.fhir.npi import is_npi
from pagw.integrations.payers.config import parse_payer_config
from pagw.model import patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import PayerRow, Provider, pagw
from pagw.model.registries import PAYERS, PROVIDERS, TOKENS

SERVICE: Final = "operator"
PAGE_SIZE: Final = 1000
MAX_NAME_CHARS: Final = 255
MAX_TYPE_CHARS: Final = 50
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
PER_OPERATOR_QUERY: Final = Rate(per="look of an operator")


@pattern("M30", "Registered providers", rate=PER_OPERATOR_QUERY, example=())
def providers(after: str = "", limit: int = PAGE_SIZE) -> SqlRows[Provider]:
    return pagw.rows(
        Provider,
        "SELECT {columns} FROM pagw.provider_registry WHERE npi > %(after)s ORDER BY npi LIMIT %(limit)s",
        after=after,
        limit=limit,
    )


@pattern("M31", "Registered payers", rate=PER_OPERATOR_QUERY, example=())
def payers(after: str = "", limit: int = PAGE_SIZE) -> SqlRows[PayerRow]:
    return pagw.rows(
        PayerRow,
        "SELECT {columns} FROM pagw.payer_config WHERE payer_id > %(after)s ORDER BY payer_id LIMIT "
        "%(limit)s",
        after=after,
        limit=limit,
    )


class PayerHealth(SqlRow):
    """The requests to a payer: accepted since a time, and waiting now."""

    accepted: int
    decided: int
    failed: int
    waiting_to_be_sent: int
    pended: int
    retries: int
    last_decision_at: datetime | None


@pattern("M32", "The requests to a payer", rate=PER_OPERATOR_QUERY, example=("sandbox-payer", _NOW))
def payer_health(payer_id: str, since: datetime) -> SqlOne[PayerHealth]:
    """Count the requests that were accepted after `since`, and those that wait."""
    return pagw.one(
        PayerHealth,
        """SELECT count(*) FILTER (WHERE created_at >= %(since)s) AS accepted,
               count(*) FILTER (WHERE decided_at >= %(since)s) AS decided,
               count(*) FILTER (WHERE status = 'FAILED' AND completed_at >= %(since)s) AS failed,
               count(*) FILTER (WHERE status = 'CONVERTED') AS waiting_to_be_sent,
               count(*) FILTER (WHERE status = 'PENDED') AS pended,
               coalesce(sum(retry_count) FILTER (WHERE created_at >= %(since)s), 0)::bigint AS retries,
               max(decided_at) AS last_decision_at
           FROM pagw.request_tracker WHERE payer_id = %(payer_id)s""",
        payer_id=payer_id,
        since=since,
    ).on_reader()


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    providers,
    payers,
    payer_health,
    patterns.put_provider,
    patterns.put_payer,
    patterns.payer,
    *PROVIDERS.writes,
    *PAYERS.patterns,
    *TOKENS.patterns,
)


async def register_provider(stores: Stores, provider: Provider, actor: Actor) -> Provider:
    """Register or update a provider, audit it and evict it from the cache. Raise `InvalidRequest` for an
    invalid NPI, name or type.
    """
    if not is_npi(provider.npi):
        raise InvalidRequest(
            f"Invalid NPI {provider.npi!r}: expected ten digits, the last of which is a check digit. "
            "Look for a wrong or swapped digit."
        )
    if not 0 < len(provider.name) <= MAX_NAME_CHARS or len(provider.type or "") > MAX_TYPE_CHARS:
        raise InvalidRequest(
            f"Invalid provider: expected a name of 1 to {MAX_NAME_CHARS} and a type of at most "
            f"{MAX_TYPE_CHARS} "
            "characters."
        )
    await stores.transact(
        patterns.put_provider(provider),
        *build_audit_writes(stores, _build_event("provider", provider.npi, actor)),
    )
    await PROVIDERS.invalidate(stores, npi=provider.npi)
    return provider


async def register_payer(stores: Stores, payer: PayerRow, actor: Actor) -> PayerRow:
    """Register or update a payer, audit it, and evict it and its token from the cache. Raise `SettingsError`
    with the name of an invalid column.
    """
    parse_payer_config(payer.model_dump())
    await stores.transact(
        patterns.put_payer(payer), *build_audit_writes(stores, _build_event("payer", payer.payer_id, actor))
    )
    await PAYERS.invalidate(stores, payer_id=payer.payer_id)
    await TOKENS.invalidate(stores, payer_id=payer.payer_id)
    return payer


def get_required_secrets(payer: PayerRow) -> dict[str, str]:
    """Return the names of the secrets that a payer needs, each with its purpose."""
    config = parse_payer_config(payer.model_dump())
    certificate, authority = config.certificate_names
    wanted: dict[str, Any] = {
        config.credentials_name: f"credentials at {payer.payer_id}",
        certificate: f"client certificate at {payer.payer_id}",
        authority: f"authorities that sign the certificate of {payer.payer_id}",
        config.callback_secret_name: f"signature of callbacks from {payer.payer_id}",
    }
    return {name: purpose for name, purpose in wanted.items() if name}


def _build_event(kind: str, id: str, actor: Actor) -> AuditEvent:
    return AuditEvent(
        type="REGISTRY",
        subtype="put",
        actor=actor,
        service=SERVICE,
        resource_type=kind,
        resource_id=id,
    )
