"""Onboarding of payers: a connection test, a sample submission, subscriptions, and the gateway's keys.

The commands (`api/payer_commands.py`) show what these functions return. None of them shows a secret, and
none stores anything of an answer: a sample's answer is parsed and reduced to its decision.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast import Stores
from holdfast.core.errors import HoldfastError, InvalidRequest, NotFound, SecretMissing, error_label
from holdfast.core.rng import make_uuid
from holdfast.runtime import Secret, Secrets
from pagw.domain.fhir.claims import parse_claim
from pagw.domain.fhir.exact_json import parse_exact
from pagw.domain.fhir.outcomes import refuse_errors
from pagw.domain.fhir.parser import parse_bundle
from pagw.domain.fhir.rules.pas_rules import check_request
from pagw.domain.fhir.subscriptions import SubscriptionRequest, build_subscription_resource
from pagw.domain.fhir.urls import TOPIC
from pagw.integrations.payers.client import PayerCall, PayerClient
from pagw.integrations.payers.config import AuthType, PayerConfig, TokenAuth, parse_payer_config
from pagw.integrations.payers.formats import get_format
from pagw.integrations.payers.http_clients import PayerHttpClients
from pagw.integrations.payers.pas_client import PasPayerClient
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.model.entities import PayerRow
from pagw.model.registries import build_payer_client, get_payer
from pagw.ops import registry

SERVICE: Final = "operator"


@dataclass(frozen=True)
class PayerCheck:
    """One step of a connection test."""

    step: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class Payers:
    """Tests and subscribes to payers. `clients` are the HTTP clients of payers."""

    stores: Stores
    clients: PayerHttpClients
    secrets: Secrets

    async def test_connection(self, payer_id: str, actor: Actor) -> list[PayerCheck]:
        """Check the configuration, the secrets, the credentials and a call without effect, in this order; end
        with the first failure. Raise `NotFound` for an unknown payer.
        """
        row = await load_payer(self.stores, payer_id)
        steps: dict[str, Callable[[], Awaitable[str]]] = {
            "configuration": lambda: _check_configuration(row),
            "secrets": lambda: self._check_secrets(row),
            "connection": lambda: self._check_connection(row),
        }
        found: list[PayerCheck] = []
        for step, check in steps.items():
            found.append(await _run_check(step, check))
            if not found[-1].ok:
                break
        await self._audit(payer_id, "tested", actor, {"ok": found[-1].ok, "step": found[-1].step})
        return found

    async def send_sample(self, payer_id: str, body: bytes, actor: Actor) -> dict[str, Any]:
        """Submit a Bundle to the payer outside of any client's requests, and return its decision.

        The payer acts on it: use a member and a provider that it knows as test data. Raise `FhirRefused` for
        an invalid Bundle.
        """
        row = await load_payer(self.stores, payer_id)
        config, call = parse_payer_config(row.model_dump()), self._build_sample_call(row, body)
        answer = await self._build_client(row).send(call)
        parsed = get_format(config).parse_answer(answer.body)
        result = {
            "reference": call.reference,
            "status": answer.status,
            "decision": None if parsed.decision is None else str(parsed.decision.outcome),
            "errors": list(parsed.error_codes),
            "bytes": len(answer.body),
        }
        found = await self._build_client(row).look_up(call)
        result["found_by_lookup"] = found is not None
        await self._audit(payer_id, "sampled", actor, {**result})
        return result

    async def subscribe(
        self, payer_id: str, organization: str, public_url: str, actor: Actor
    ) -> dict[str, Any]:
        """Subscribe at a payer that speaks PAS to the decisions about an organization's requests. Return the
        id and status of the subscription.
        """
        row = await load_payer(self.stores, payer_id)
        config, client = parse_payer_config(row.model_dump()), self._build_client(row)
        if not isinstance(client, PasPayerClient) or not config.callback_secret_name:
            raise InvalidRequest(
                f"The payer {payer_id} cannot be subscribed to: expected the format fhir-pas and a "
                "callback_secret. Set both."
            )
        secret = self.secrets.get(config.callback_secret_name).current
        wanted = SubscriptionRequest(
            topic=TOPIC,
            organization=organization,
            endpoint=f"{public_url}/payer-callbacks/{payer_id}/notifications",
        )
        resource = build_subscription_resource(wanted, id="new", status="requested")
        del resource["id"]
        resource["channel"]["header"] = [f"Authorization: Bearer {secret}"]
        created = await client.subscribe(resource)
        await self._audit(payer_id, "subscribed", actor, {"organization": organization, **created})
        return created

    def _build_client(self, row: PayerRow) -> PayerClient:
        return build_payer_client(self.stores, self.clients, row, self.secrets)

    async def _check_secrets(self, row: PayerRow) -> str:
        """Return how many secrets there are. Raise `SecretMissing` if one is not set."""
        names = registry.get_required_secrets(row)
        for name in names:
            self.secrets.get(name)
        return f"{len(names)} secrets are set"

    async def _check_connection(self, row: PayerRow) -> str:
        """Make an authenticated call without effect."""
        await self._build_client(row).check()
        return f"{row.api_endpoint} answered as a payer with the format {row.format}"

    def _build_sample_call(self, row: PayerRow, body: bytes) -> PayerCall:
        """Return the call that submits a Bundle under a reference of its own."""
        bundle = parse_bundle(body)
        refuse_errors(check_request(bundle))
        claim = parse_claim(bundle)
        if claim.intent != "submit":
            raise InvalidRequest("Invalid sample: expected a new request, not an update or a cancellation.")
        reference = f"PAGW-SAMPLE-{make_uuid().hex}"
        enriched = {
            "reference": reference,
            "kind": "submit",
            **claim.model_dump(mode="json", exclude_none=True, exclude={"attachments"}),
            "bundle": parse_exact(body),
        }
        sent = get_format(parse_payer_config(row.model_dump())).convert(enriched)
        return PayerCall(reference, "submit", "", sent, self.stores.now())

    async def _audit(self, payer_id: str, subtype: str, actor: Actor, details: dict[str, Any]) -> None:
        """Record an audit event of the registry."""
        event = AuditEvent(
            type="REGISTRY",
            subtype=subtype,
            actor=actor,
            service=SERVICE,
            resource_type="payer",
            resource_id=payer_id,
            details=details,
        )
        await record_event(self.stores, event)


async def load_payer(stores: Stores, payer_id: str) -> PayerRow:
    """Return a payer. Raise `NotFound` if it is not configured."""
    row = await get_payer(stores, payer_id)
    if row is None:
        raise NotFound(f"Unknown payer {payer_id[:50]!r}. List them with `holdfast pagw payers list`.")
    return row


async def load_key_set(stores: Stores, secrets: Secrets) -> dict[str, Any]:
    """Return the public keys of all payers that verify signed assertions. A missing secret is left out."""
    from pagw.integrations.payers.client_assertion import build_key_set

    found: list[Secret] = []
    for row in await stores.run(registry.payers()):
        config = parse_payer_config(row.model_dump())
        if config.auth_type is AuthType.oauth2 and config.token_auth is TokenAuth.private_key_jwt:
            try:
                found.append(secrets.get(config.credentials_name))
            except SecretMissing:
                continue
    return build_key_set(found)


def describe_payer(row: PayerRow) -> dict[str, Any]:
    """Return a payer's configuration for an operator, with its limits and clocks."""
    config: PayerConfig = parse_payer_config(row.model_dump())
    shown = config.model_dump(mode="json", exclude_none=True)
    return {**shown, "token_url": config.token_address if config.auth_type is AuthType.oauth2 else None}


async def describe_health(stores: Stores, payer_id: str) -> dict[str, Any]:
    """Return the numbers of a payer's requests: those of the last day, and those that wait now."""
    found = await stores.run(registry.payer_health(payer_id, stores.now() - timedelta(days=1)))
    return {} if found is None else found.model_dump(mode="json")


async def _check_configuration(row: PayerRow) -> str:
    """Return the format and authentication. Raise `SettingsError` if the row is invalid."""
    config = parse_payer_config(row.model_dump())
    get_format(config)
    return f"format {config.format}, authentication {config.auth_type}"


async def _run_check(step: str, check: Callable[[], Awaitable[str]]) -> PayerCheck:
    """Run one step and return its result."""
    try:
        return PayerCheck(step, True, await check())
    except HoldfastError as error:
        return PayerCheck(step, False, getattr(error, "message", "") or error_label(error))
