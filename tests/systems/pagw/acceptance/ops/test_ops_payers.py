"""Onboarding of a payer by command: configuration, connection test, sample, limits and clocks."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import AlreadyExists, InvalidRequest, NotFound, RateLimited, SettingsError
from holdfast.web.demo_env import patch_environ
from holdfast_demo.pagw.sample.bundles import build_cancel_bundle
from holdfast_demo.pagw.sandbox import PAS_CALLBACK_SECRET_NAME, PAS_CREDENTIALS_NAME, PAS_PAYER_ID
from holdfast_demo.pagw.sandbox.pas_payer import PasPayerSandbox
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, PENDED_APPROVED
from pagw.domain.fhir.outcomes import FhirRefused
from pagw.domain.statuses import Status
from pagw.model import patterns
from pagw.model.registries import PAYERS
from tests.systems.pagw.acceptance.ops.test_ops_views import run_command
from tests.systems.pagw.acceptance.test_pas_payer import build_bundle, list_acted, run_pas_scenario
from tests.systems.pagw.contract.pipeline import Pipeline

OPTIONS = {"client_id": "pagw", "callback_secret": PAS_CALLBACK_SECRET_NAME}


async def get_url(pipeline: Pipeline) -> str:
    row = await pipeline.stores.run(patterns.payer(PAS_PAYER_ID))
    assert row is not None
    return row.api_endpoint


async def set_options(pipeline: Pipeline, **options: Any) -> None:
    """Set limits and clocks of the PAS payer."""
    row = await pipeline.stores.run(patterns.payer(PAS_PAYER_ID))
    assert row is not None
    await pipeline.stores.run(patterns.put_payer(row.model_copy(update={"options": options})))
    await PAYERS.invalidate(pipeline.stores, payer_id=PAS_PAYER_ID)


async def test_payer_is_added_tested_and_shown() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        url = await get_url(pipeline)
        options = {**OPTIONS, "max_per_minute": 60, "standard_hours": 120}
        added = await run_command(
            pipeline,
            "payers add",
            "NEW-PAS",
            "New payer",
            url,
            credentials=PAS_CREDENTIALS_NAME,
            options=options,
        )
        assert added["ok"] is True
        assert [each["step"] for each in added["steps"]] == [
            "configuration",
            "secrets",
            "connection",
        ]
        shown = await run_command(pipeline, "payers show", "NEW-PAS")
        assert (shown["format"], shown["max_per_minute"], shown["standard_hours"]) == ("fhir-pas", 60, 120)
        assert shown["token_url"] == f"{url}/oauth/token"
        assert PAS_CREDENTIALS_NAME in shown["secrets"]
        assert shown["requests"] == {
            "accepted": 0,
            "decided": 0,
            "failed": 0,
            "waiting_to_be_sent": 0,
            "pended": 0,
            "retries": 0,
            "last_decision_at": None,
        }
        with pytest.raises(AlreadyExists, match="payers put"):
            await run_command(pipeline, "payers add", "NEW-PAS", "Again", url, credentials="x")
        with pytest.raises(InvalidRequest, match="Unknown payer options surprise"):
            await run_command(pipeline, "payers add", "P2", "P", url, options={"surprise": 1})
        with pytest.raises(SettingsError, match="max_per_minute"):
            await run_command(
                pipeline, "payers put", "P2", "P", url, credentials="x", options={"max_per_minute": 0}
            )
        with pytest.raises(NotFound, match="payers list"):
            await run_command(pipeline, "payers show", "NOBODY")
        assert list_acted(sandbox) == []

    await run_pas_scenario(scenario)


async def test_connection_test_names_the_step_that_fails() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        async def find_failure() -> tuple[str, str]:
            found = await run_command(pipeline, "payers test", PAS_PAYER_ID)
            last = found["steps"][-1]
            assert found["ok"] is last["ok"]
            return ("", "") if last["ok"] else (last["step"], last["detail"])

        assert await find_failure() == ("", "")
        with patch_environ({}, without=["HOLDFAST_SECRET_PAGW_CALLBACKS_PAS_SANDBOX"]):
            step, detail = await find_failure()
            assert step == "secrets" and "pas-sandbox" in detail
        sandbox.tokens.forget()
        sandbox.tokens.client_secret = "changed"
        step, detail = await find_failure()
        assert step == "connection" and "Fix the secret" in detail
        events = pipeline.rows(
            "SELECT details ->> 'ok', details ->> 'step' FROM pagw.audit_log WHERE event_subtype = 'tested'"
        )
        assert events == [("true", "connection"), ("false", "secrets"), ("false", "connection")]

    await run_pas_scenario(scenario)


async def test_sample_is_submitted_looked_up_and_leaves_no_request(tmp_path: Path) -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        bundle = build_bundle("SAMPLE-1", DENIED)
        file = tmp_path / "bundle.json"
        file.write_text(json.dumps(bundle))
        shown = await run_command(pipeline, "payers sample", PAS_PAYER_ID, str(file))
        assert (shown["status"], shown["decision"], shown["found_by_lookup"]) == ("final", "denied", True)
        assert list_acted(sandbox) == [shown["reference"]]
        assert pipeline.rows("SELECT count(*) FROM pagw.request_tracker") == [(0,)]
        audit = json.dumps(pipeline.rows("SELECT details FROM pagw.audit_log"))
        assert "denied" in audit and "Quillfeather" not in audit and "MZQ" not in audit
        file.write_text(json.dumps(build_cancel_bundle(bundle, reference="C")))
        with pytest.raises(InvalidRequest, match="a new request"):
            await run_command(pipeline, "payers sample", PAS_PAYER_ID, str(file))
        file.write_text("{}")
        with pytest.raises(FhirRefused):
            await run_command(pipeline, "payers sample", PAS_PAYER_ID, str(file))
        with pytest.raises(InvalidRequest, match="Cannot read"):
            await run_command(pipeline, "payers sample", PAS_PAYER_ID, str(tmp_path / "none"))
        assert len(list_acted(sandbox)) == 1

    await run_pas_scenario(scenario)


async def test_payers_limit_delays_requests_and_loses_none() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        await set_options(pipeline, max_per_minute=2)
        ids = [
            await pipeline.submit_bundle(build_bundle(f"L-{number}"), "acme", f"l-{number}")
            for number in range(3)
        ]
        with pytest.raises(RateLimited):
            await pipeline.settle()
        assert len(list_acted(sandbox)) == 2
        pipeline.clock.advance(minutes=3)
        await pipeline.settle()
        assert sorted(list_acted(sandbox)) == sorted(ids)

    await run_pas_scenario(scenario)


async def test_payers_clocks_replace_the_laws_if_they_are_shorter() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        async def submit(number: int) -> Any:
            bundle = build_bundle(f"C-{number}", PENDED_APPROVED)
            pagw_id = await pipeline.submit_bundle(bundle, "acme", f"c-{number}")
            await pipeline.settle()
            request = await pipeline.request(pagw_id)
            assert request.status is Status.PENDED
            [(inquire_at,)] = pipeline.rows(
                "SELECT inquire_at FROM pagw.request_tracker WHERE pagw_id = %s", pagw_id
            )
            return request.due_at - request.created_at, inquire_at - pipeline.now

        assert await submit(1) == (timedelta(days=7), timedelta(hours=1))
        await set_options(pipeline, standard_hours=48, inquire_minutes=10)
        assert await submit(2) == (timedelta(hours=48), timedelta(minutes=10))
        await set_options(pipeline, expedited_hours=1)
        assert await submit(3) == (timedelta(days=7), timedelta(hours=1))

    await run_pas_scenario(scenario)
