"""A payer that speaks PAS, over real HTTP: nothing of its answer is lost, and nothing is sent twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.core.errors import ExternalServiceFailed, RetryLater
from holdfast.runtime import open_secrets
from holdfast.web import serve_in_thread
from holdfast.web.demo_env import patch_environ
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.pagw.sample.bundles import build_cancel_bundle, build_request_bundle, build_update_bundle
from holdfast_demo.pagw.sandbox import (
    PAS_CALLBACK_SECRET,
    PAS_CALLBACK_SECRET_NAME,
    PAS_CREDENTIALS_NAME,
    PAS_PAYER_ID,
    build_pas_payer_row,
    get_secret_variable,
)
from holdfast_demo.pagw.sandbox.pas_payer import PasPayerSandbox, build_pas_payer_app
from holdfast_demo.pagw.sandbox.payer_rules import DENIED, PENDED_APPROVED
from pagw.domain.fhir.exact_json import dump_exact, parse_exact
from pagw.domain.fhir.responses.notifications import build_handshake, build_notification
from pagw.domain.fhir.responses.response_bundles import to_inquiry_response
from pagw.domain.statuses import Stage, Status
from pagw.model import files, patterns
from pagw.model.audit import Actor
from pagw.model.lookup import RequestLookup
from pagw.workers.payer_notifications import PayerNotifications
from pagw.workers.payer_polling import build_inquiry_message
from pagw.workers.responses import ResponseReader
from tests.systems.pagw.contract.pipeline import CLIENT_SECRET, FAR_S, Pipeline, run_scenario

SECRETS = {
    get_secret_variable(PAS_CREDENTIALS_NAME): CLIENT_SECRET,
    get_secret_variable(PAS_CALLBACK_SECRET_NAME): PAS_CALLBACK_SECRET,
}
ANN = Actor("user", "ann")
PasScenario = Callable[[Pipeline, PasPayerSandbox], Awaitable[None]]


@asynccontextmanager
async def add_pas_payer(pipeline: Pipeline, **settings: Any) -> AsyncIterator[PasPayerSandbox]:
    """Serve a PAS payer and register it at the gateway."""
    sandbox = PasPayerSandbox(
        clock=pipeline.clock,
        client_id="pagw",
        client_secret=CLIENT_SECRET,
        decide_after_s=FAR_S,
        **settings,
    )
    with patch_environ(SECRETS), serve_in_thread(build_pas_payer_app(sandbox)) as url:
        await pipeline.stores.run(patterns.put_payer(build_pas_payer_row(url)))
        yield sandbox


async def run_pas_scenario(scenario: PasScenario, **settings: Any) -> None:
    """Run a scenario on a pipeline with a PAS payer."""

    async def run(pipeline: Pipeline) -> None:
        async with add_pas_payer(pipeline, **settings) as sandbox:
            await scenario(pipeline, sandbox)

    await run_scenario(run)


def build_bundle(reference: str, *codes: str) -> dict[str, Any]:
    return build_request_bundle(reference=reference, payer=PAS_PAYER_ID, items=codes or ("99213",))


async def submit(pipeline: Pipeline, bundle: dict[str, Any]) -> str:
    """Submit a bundle under its own key, run the stages and return the request's id."""
    key = bundle["identifier"]["value"]
    pagw_id = await pipeline.submit_bundle(bundle, "acme", key)
    await pipeline.settle()
    return pagw_id


async def notify(pipeline: Pipeline, sandbox: PasPayerSandbox, pagw_id: str) -> list[str]:
    """Send the payer's notification about a request to the gateway, and run the stages."""
    found = sandbox.state.find(pagw_id)
    assert found is not None
    bundle = build_notification(
        found.build_response(with_traces=sandbox.returns_traces),
        subscription_url="http://payer.example/Subscription/1",
        event_number=1,
        at=pipeline.now,
        id=found.notification_id,
    )
    recorded = await build_receiver(pipeline).receive(PAS_PAYER_ID, dump_exact(bundle))
    await pipeline.settle()
    return recorded


def build_receiver(pipeline: Pipeline) -> PayerNotifications:
    stores, secrets = pipeline.stores.for_component("payer-callbacks"), open_secrets()
    return PayerNotifications(stores, secrets, RequestLookup(secrets))


async def read_response(pipeline: Pipeline, pagw_id: str, *, inquiry: bool = False) -> dict[str, Any]:
    """Return the response as the provider reads it."""
    reader = ResponseReader(pipeline.stores.for_component("api"))
    return await reader.read_response(await pipeline.request(pagw_id), ANN, inquiry=inquiry)


def list_acted(sandbox: PasPayerSandbox) -> list[str]:
    """Return the references of the requests that the payer acted on, in order."""
    return [each["reference"] for each in sandbox.ledger if each["what"] == "authorization"]


async def test_payers_bundle_reaches_the_provider_byte_for_byte() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        pagw_id = await submit(pipeline, build_bundle("P-1", DENIED))
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "denied")
        found = sandbox.state.find(pagw_id)
        assert found is not None
        sent = dump_exact(found.build_response(with_traces=True))
        assert b"1200.10" in sent and b"benefit-left" in sent and b'"contained"' in sent
        stored = await pipeline.stores.run(files.response(request.created_at, pagw_id))
        assert stored.body == sent
        assert dump_exact(await read_response(pipeline, pagw_id)) == sent
        asked = dump_exact(await read_response(pipeline, pagw_id, inquiry=True))
        assert asked == dump_exact(to_inquiry_response(parse_exact(sent)))
        assert b"1200.10" in asked and b'"versionId":"1"' in asked

    await run_pas_scenario(scenario)


async def test_payer_receives_the_providers_bundle_with_one_trace_number_more() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        bundle = build_bundle("P-1", "99213", "99214")
        body = json.dumps(bundle).replace('"value": 1,', '"value": 1.50,').encode()
        pagw_id = await pipeline.submit_bundle(json.loads(body), "acme", "k")
        created = (await pipeline.request(pagw_id)).created_at
        # The client's own bytes: the harness would lose the digits.
        await pipeline.stores.run(files.bundle(created, pagw_id))
        await pipeline.settle()
        found = sandbox.state.find(pagw_id)
        assert found is not None
        received = found.bundle
        for item in received["entry"][0]["resource"]["item"]:
            trace = item["extension"].pop()
            assert trace["valueIdentifier"] == {"system": "urn:pagw:request", "value": pagw_id}
        assert json.loads(dump_exact(received)) == json.loads(body)

    await run_pas_scenario(scenario)


@pytest.mark.parametrize("guide", ["2.0.1", "2.2.1"])
@pytest.mark.parametrize("returns_traces", [True, False], ids=["with traces", "without traces"])
async def test_lost_answer_is_found_by_inquiry_and_not_sent_again(guide: str, returns_traces: bool) -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        sandbox.faults = Faults(failed_after=1.0)
        pagw_id = await pipeline.submit_bundle(build_bundle("P-1"), "acme", "k")
        with pytest.raises((ExternalServiceFailed, RetryLater)):
            await pipeline.settle()
        assert list_acted(sandbox) == [pagw_id]
        sandbox.faults = Faults()
        pipeline.clock.advance(minutes=2)
        await pipeline.settle()
        assert list_acted(sandbox) == [pagw_id]
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "approved")

    await run_pas_scenario(scenario, guide=guide, returns_traces=returns_traces)


async def test_lost_answer_to_an_update_is_found_by_inquiry() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        first = build_bundle("P-1", PENDED_APPROVED)
        former = await submit(pipeline, first)
        sandbox.faults = Faults(failed_after=1.0)
        second = build_update_bundle(first, reference="P-2", added=("99213",))
        update = await pipeline.submit_bundle(second, "acme", "k")
        with pytest.raises((ExternalServiceFailed, RetryLater)):
            await pipeline.settle()
        sandbox.faults = Faults()
        pipeline.clock.advance(minutes=2)
        await pipeline.settle()
        assert list_acted(sandbox) == [former, update]
        assert (await pipeline.request(update)).status is Status.PENDED

    await run_pas_scenario(scenario)


async def test_request_that_never_arrived_is_sent_again() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        # Another request under the same identifier of the Claim is not mistaken for this one.
        first = await submit(pipeline, build_bundle("P-1"))
        sandbox.faults = Faults(failed_before=1.0)
        again = build_bundle("P-1")
        second = await pipeline.submit_bundle(again, "acme", "another-key")
        with pytest.raises((ExternalServiceFailed, RetryLater)):
            await pipeline.settle()
        sandbox.faults = Faults()
        pipeline.clock.advance(minutes=2)
        await pipeline.settle()
        assert list_acted(sandbox) == [first, second]

    await run_pas_scenario(scenario)


async def test_unclear_answer_of_a_payer_without_trace_numbers_is_not_sent_again() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        first = await submit(pipeline, build_bundle("P-1"))
        pipeline.clock.advance(minutes=30)
        sandbox.faults = Faults(failed_before=1.0)
        second = await pipeline.submit_bundle(build_bundle("P-1"), "acme", "another-key")
        with pytest.raises((ExternalServiceFailed, RetryLater)):
            await pipeline.settle()
        sandbox.faults = Faults()
        pipeline.clock.advance(minutes=2)
        with pytest.raises(ExternalServiceFailed, match="cannot say whether it has the request"):
            await pipeline.settle()
        assert list_acted(sandbox) == [first]
        assert (await pipeline.request(second)).status is Status.CONVERTED

    await run_pas_scenario(scenario, returns_traces=False)


@pytest.mark.parametrize("returns_traces", [True, False], ids=["with traces", "without traces"])
async def test_pended_request_is_decided_by_a_notification_once(returns_traces: bool) -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        pagw_id = await submit(pipeline, build_bundle("P-1", PENDED_APPROVED))
        assert (await pipeline.request(pagw_id)).status is Status.PENDED
        sandbox.state.decide(pagw_id)
        assert await notify(pipeline, sandbox, pagw_id) == [pagw_id]
        assert await notify(pipeline, sandbox, pagw_id) == [pagw_id]
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "approved")
        assert list(request.metadata["callbacks"]) == ["001"]
        assert b"1200.10" in dump_exact(await read_response(pipeline, pagw_id))

    await run_pas_scenario(scenario, returns_traces=returns_traces)


async def test_pended_request_is_decided_by_polling() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        pagw_id = await submit(pipeline, build_bundle("P-1", PENDED_APPROVED))
        sandbox.state.decide(pagw_id)
        request = await pipeline.request(pagw_id)
        stores = pipeline.stores.for_component("operator")
        await stores.transact(build_inquiry_message(stores, request, "inquiry-1"))
        await pipeline.settle()
        assert (await pipeline.request(pagw_id)).decision == "approved"

    await run_pas_scenario(scenario)


async def test_notification_needs_the_secret_and_a_known_request() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        from holdfast.core.errors import CallerRefused, InvalidRequest, NotFound

        receiver = build_receiver(pipeline)
        await receiver.admit(PAS_PAYER_ID, f"Bearer {PAS_CALLBACK_SECRET}")
        for proof in (None, "Bearer wrong", PAS_CALLBACK_SECRET, "Basic abc"):
            with pytest.raises(CallerRefused):
                await receiver.admit(PAS_PAYER_ID, proof)
        with pytest.raises(NotFound):
            await receiver.admit("ACME-HEALTH", f"Bearer {PAS_CALLBACK_SECRET}")
        shake = build_handshake(subscription_url="http://p.example/S/1", at=pipeline.now, id="h")
        assert await receiver.receive(PAS_PAYER_ID, dump_exact(shake)) == []
        for nonsense in (b"{}", b"[]", b"no JSON", b'{"resourceType":"Bundle","entry":[]}'):
            with pytest.raises(InvalidRequest):
                await receiver.receive(PAS_PAYER_ID, nonsense)
        pagw_id = await submit(pipeline, build_bundle("P-1", PENDED_APPROVED))
        pipeline.execute("UPDATE pagw.request_tracker SET payer_id = 'ACME-HEALTH'")
        with pytest.raises(NotFound, match="no request"):
            await notify(pipeline, sandbox, pagw_id)

    await run_pas_scenario(scenario)


async def test_update_ends_the_pended_request_that_it_replaces() -> None:
    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        first = build_bundle("P-1", PENDED_APPROVED)
        former = await submit(pipeline, first)
        second = build_update_bundle(first, reference="P-2", cancelled=(1,), added=("99213",))
        update = await submit(pipeline, second)
        assert (await pipeline.request(update)).decision == "approved"
        ended = await pipeline.request(former)
        assert (ended.status, ended.metadata["cancelledBy"]) == (Status.CANCELLED, update)
        cancel = await submit(pipeline, build_cancel_bundle(second, reference="P-3"))
        assert (await pipeline.request(cancel)).decision == "cancelled"
        assert (await pipeline.request(update)).status is Status.CANCELLED
        again = await submit(pipeline, build_cancel_bundle(second, reference="P-4"))
        refused = await pipeline.request(again)
        assert (refused.status, refused.error_code) == (Status.FAILED, "422")
        assert "business-rule" in (refused.error_message or "")
        assert list_acted(sandbox) == [former, update, cancel]

    await run_pas_scenario(scenario)


async def test_payers_error_is_returned_as_it_was_sent_and_can_still_be_decided() -> None:
    answer: dict[str, Any] = {
        "resourceType": "ClaimResponse",
        "status": "active",
        "use": "preauthorization",
        "outcome": "error",
        "error": [{"code": {"coding": [{"system": "urn:x", "code": "33"}], "text": "Quillfeather"}}],
        "extension": [{"url": "urn:y", "valueDecimal": 1}],
    }
    body = json.dumps(
        {"resourceType": "Bundle", "type": "collection", "entry": [{"fullUrl": "urn:z", "resource": answer}]}
    ).replace('"valueDecimal": 1', '"valueDecimal": 1.000')

    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        pagw_id = await pipeline.submit_bundle(build_bundle("P-1"), "acme", "k")
        created = (await pipeline.request(pagw_id)).created_at
        await pipeline.settle(until=Stage.api_connector)
        await pipeline.stores.run(files.keep_payer_response(body.encode(), created, pagw_id))
        await pipeline.settle()
        request = await pipeline.request(pagw_id)
        assert (request.status, request.error_code) == (Status.FAILED, "PAYER_ERROR")
        assert "33" in (request.error_message or "") and "Quill" not in (request.error_message or "")
        assert b"1.000" in dump_exact(await read_response(pipeline, pagw_id))
        assert await notify(pipeline, sandbox, pagw_id) == [pagw_id]
        request = await pipeline.request(pagw_id)
        assert (request.status, request.decision) == (Status.COMPLETED, "approved")
        assert b"1200.10" in dump_exact(await read_response(pipeline, pagw_id))

    await run_pas_scenario(scenario)


async def test_notification_of_the_payer_arrives_over_http() -> None:
    # The payer subscribes the gateway, and sends the header that the subscription names.
    received: list[dict[str, str]] = []

    async def scenario(pipeline: Pipeline, sandbox: PasPayerSandbox) -> None:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route

        from pagw.integrations.payers.http_clients import open_http_clients
        from pagw.ops.payers import Payers

        async def take(request: Request) -> Response:
            received.append(dict(request.headers))
            return JSONResponse({})

        path = f"/payer-callbacks/{PAS_PAYER_ID}/notifications"
        with serve_in_thread(Starlette(routes=[Route(path, take, methods=["POST"])])) as url:
            async with open_http_clients() as clients:
                payers = Payers(pipeline.operator, clients, open_secrets())
                created = await payers.subscribe(PAS_PAYER_ID, "1993000003", url, ANN)
        assert created == {"id": "subscription-1", "status": "active"}
        assert received[0]["authorization"] == f"Bearer {PAS_CALLBACK_SECRET}"
        assert pipeline.rows("SELECT event_subtype FROM pagw.audit_log WHERE event_type = 'REGISTRY'") == [
            ("subscribed",)
        ]

    await run_pas_scenario(scenario)


def test_decimals_keep_their_digits() -> None:
    text = b'{"a":1.10,"b":100.0,"c":12345678901234567890.12345678901234567890,"d":[1,-0.0,true,null]}'
    assert dump_exact(parse_exact(text)) == text
    for nonsense in (b"[" * 100_000, b'{"a":', b"1e99999999999999999999", b"\xff"):
        with pytest.raises(ValueError, match="not JSON"):
            parse_exact(nonsense)
