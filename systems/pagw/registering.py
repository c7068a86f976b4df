"""Providers and payers, as an operator registers them: checked, written, audited, and forgotten by the cache.

Whoever has one of them in its cache would go on with the former for five minutes; so the entry is dropped, and with it the
payer's token, whose credentials may be others now.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import Pattern, Rate, SqlRows, Stores, pattern
from holdfast.errors import InvalidRequest
from pagw import patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.fhir.npi import is_npi
from pagw.model import PayerRow, Provider, pagw
from pagw.payers.config import payer_config
from pagw.registries import PAYERS, PROVIDERS, TOKENS

SERVICE: Final = "operator"
LISTED: Final = 1000
NAME_CHARS_MAX: Final = 255
TYPE_CHARS_MAX: Final = 50
LOOK: Final = Rate(per="look of an operator")


@pattern("M30", "All providers", rate=LOOK, example=())
def providers(after: str = "", limit: int = LISTED) -> SqlRows[Provider]:
    return pagw.rows(
        Provider,
        "SELECT {columns} FROM pagw.provider_registry WHERE npi > %(after)s ORDER BY npi LIMIT %(limit)s",
        after=after,
        limit=limit,
    )


@pattern("M31", "All payers", rate=LOOK, example=())
def payers(after: str = "", limit: int = LISTED) -> SqlRows[PayerRow]:
    return pagw.rows(
        PayerRow,
        "SELECT {columns} FROM pagw.payer_config WHERE payer_id > %(after)s ORDER BY payer_id LIMIT %(limit)s",
        after=after,
        limit=limit,
    )


READS: Final = (providers, payers)
WRITES: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.put_provider,
    patterns.put_payer,
    *PROVIDERS.writes,
    *PAYERS.writes,
    *TOKENS.writes,
)


async def register_provider(stores: Stores, provider: Provider, actor: Actor) -> Provider:
    """A new one, or a change. Raises `InvalidRequest` for a number that is no NPI."""
    if not is_npi(provider.npi):
        raise InvalidRequest(
            f"{provider.npi!r} is no NPI: it has ten digits, the last of which follows from the others. "
            "Look for a digit that is wrong or two that are exchanged."
        )
    if not 0 < len(provider.name) <= NAME_CHARS_MAX or len(provider.type or "") > TYPE_CHARS_MAX:
        raise InvalidRequest(
            f"A provider has a name of 1 to {NAME_CHARS_MAX} characters, and a type of {TYPE_CHARS_MAX} at most."
        )
    await stores.transact(
        patterns.put_provider(provider), *audited(stores, _event("provider", provider.npi, actor))
    )
    await PROVIDERS.forget(stores, npi=provider.npi)
    return provider


async def register_payer(stores: Stores, payer: PayerRow, actor: Actor) -> PayerRow:
    """A new one, or a change. Raises `SettingsError` with the column that is wrong."""
    payer_config(payer.model_dump())
    await stores.transact(patterns.put_payer(payer), *audited(stores, _event("payer", payer.payer_id, actor)))
    await PAYERS.forget(stores, payer_id=payer.payer_id)
    await TOKENS.forget(stores, payer_id=payer.payer_id)
    return payer


def secrets_of(payer: PayerRow) -> dict[str, str]:
    """The names of the secrets that a payer needs, each with what it is for."""
    config = payer_config(payer.model_dump())
    wanted: dict[str, Any] = {
        config.credentials_name: f"credentials at {payer.payer_id}",
        config.callback_secret_name: f"signature of callbacks from {payer.payer_id}",
    }
    return {name: purpose for name, purpose in wanted.items() if name}


def _event(kind: str, id: str, actor: Actor) -> AuditEvent:
    return AuditEvent(
        type="REGISTRY",
        subtype="put",
        actor=actor,
        service=SERVICE,
        resource_type=kind,
        resource_id=id,
    )
