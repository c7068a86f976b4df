"""`$inquire` returns the current request, and other tenants' requests only by their tenant's policy."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.errors import SettingsError
from holdfast_demo.pagw.sample.bundles import (
    PEOPLE,
    PROVIDER_NPIS,
    build_cancel_bundle,
    build_inquiry_bundle,
    build_request_bundle,
    build_update_bundle,
)
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.api.inquiries import Inquiries
from pagw.domain.fhir.inquiries import parse_inquiry
from pagw.domain.statuses import Status
from pagw.model.audit import Actor
from pagw.model.lookup import RequestLookup
from pagw.settings import PagwSettings
from tests.systems.pagw.contract.pipeline import Pipeline, run_scenario

ANN = Actor("user", "ann")


async def inquire(
    pipeline: Pipeline, tenant: str = "acme", shared: tuple[str, ...] = (), **by: Any
) -> list[str]:
    """Inquire and return the ids of the requests in the answer."""
    inquiries = Inquiries(pipeline.stores.for_component("api"), RequestLookup.open(), shared)
    answer = await inquiries.answer(tenant, parse_inquiry(build_inquiry_bundle(**by)), ANN)
    found = [each["resource"] for each in answer.get("parameter", []) if each["name"] == "responseBundle"]
    return [each["entry"][0]["resource"]["identifier"][0]["value"] for each in found]


async def submit(pipeline: Pipeline, bundle: dict[str, Any]) -> str:
    pagw_id = await pipeline.submit_bundle(bundle, "acme", bundle["identifier"]["value"])
    await pipeline.settle()
    return pagw_id


async def test_old_claim_and_authorization_number_lead_to_the_current_request() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        first = build_request_bundle(reference="A-1")
        await submit(pipeline, first)
        [(number,)] = pipeline.rows("SELECT count(*) FROM pagw.request_lookup WHERE kind = 'authorization'")
        assert number == 1
        second = build_update_bundle(first, reference="A-2", added=("99214",))
        await submit(pipeline, second)
        third = build_update_bundle(second, reference="A-3", added=(PENDED_APPROVED,))
        current = await submit(pipeline, third)
        for reference in ("A-1", "A-2", "A-3"):
            assert await inquire(pipeline, claim_reference=reference) == [current], reference
        assert await inquire(pipeline, authorization_number="AUTH0000001") == [current]
        # By member, the three are one.
        assert await inquire(pipeline) == [current]

    await run_scenario(scenario)


async def test_update_that_failed_or_was_taken_back_replaces_nothing() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        first = build_request_bundle(reference="A-1")
        former = await submit(pipeline, first)
        update = await submit(pipeline, build_update_bundle(first, reference="A-2", added=("99214",)))
        assert await inquire(pipeline, claim_reference="A-1") == [update]
        for status in (Status.FAILED, Status.CANCELLED):
            pipeline.execute("UPDATE pagw.request_tracker SET status = %s WHERE pagw_id = %s", status, update)
            assert await inquire(pipeline, claim_reference="A-1") == [former], status

    await run_scenario(scenario)


async def test_cancelled_update_is_the_current_state() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        first = build_request_bundle(reference="A-1")
        await submit(pipeline, first)
        second = build_update_bundle(first, reference="A-2", added=("99214",))
        update = await submit(pipeline, second)
        await submit(pipeline, build_cancel_bundle(second, reference="A-3"))
        assert (await pipeline.request(update)).status is Status.CANCELLED
        assert await inquire(pipeline, claim_reference="A-1") == [update]

    await run_scenario(scenario)


async def test_other_tenants_find_a_request_only_by_policy_member_and_provider() -> None:
    async def scenario(pipeline: Pipeline) -> None:
        pagw_id = await submit(pipeline, build_request_bundle(reference="A-1"))
        asked: dict[str, Any] = {"claim_reference": "A-1"}
        assert await inquire(pipeline, "zenith", **asked) == []
        assert await inquire(pipeline, "zenith", ("other",), **asked) == []
        for by in (asked, {"authorization_number": "AUTH0000001"}, {}):
            assert await inquire(pipeline, "zenith", ("acme",), **by) == [pagw_id]
            assert await inquire(pipeline, "zenith", ("acme",), member=PEOPLE[1], **by) == []
            assert await inquire(pipeline, "zenith", ("acme",), npi=PROVIDER_NPIS[4], **by) == []
        reads = pipeline.rows(
            "SELECT tenant, actor_id, details ->> 'byTenant' FROM pagw.audit_log "
            "WHERE event_type = 'PHI_READ'"
        )
        assert reads == [("acme", "ann", "zenith")] * 3

    await run_scenario(scenario)


def test_policy_names_tenants() -> None:
    settings = PagwSettings.load({"PAGW_SHARED_INQUIRIES": "acme, zenith"})
    assert settings.list_shared_tenants() == ("acme", "zenith")
    assert PagwSettings.load({}).list_shared_tenants() == ()
    with pytest.raises(SettingsError, match="PAGW_SHARED_INQUIRIES"):
        PagwSettings.load({"PAGW_SHARED_INQUIRIES": "Acme Health"})
