"""The payer client over real HTTP: what each failure means, and no patient data in any of them."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    SettingsError,
)
from holdfast.runtime import Secret
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.pagw.sandbox.payer import build_payer_app
from pagw.domain.fhir.decisions import Outcome
from pagw.integrations.payers.client import PayerResponse
from pagw.integrations.payers.connection import make_client
from pagw.integrations.payers.json_client import JsonPayerClient
from pagw.integrations.payers.oauth import AccessToken, fetch_token, get_api_key
from tests.systems.pagw.unit.payers.payer_harness import (
    CLIENT_SECRET,
    CREDENTIALS,
    MEMBER,
    PATIENT,
    ManualClock,
    TokenCache,
    list_acted_references,
    make_body,
    make_config,
    make_sandbox,
    open_payer,
    open_payer_at,
    parse_decision,
)

REFERENCE = "PAGW-01J0000000000000000000000A"
BODY = make_body(REFERENCE)


def parse_outcome(answer: PayerResponse | None) -> Outcome:
    """Return the outcome of an answer, which must not be None."""
    assert answer is not None
    return parse_decision(answer.body).outcome


async def test_submitted_request_is_acted_on_and_found_by_reference() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        assert await payer.find(REFERENCE) is None
        answer = await payer.submit(REFERENCE, BODY)
        assert (answer.status, parse_outcome(answer)) == ("final", Outcome.APPROVED)
        assert await payer.find(REFERENCE) == answer
        assert await payer.submit(REFERENCE, BODY) == answer
    assert list_acted_references(sandbox) == [REFERENCE]


@pytest.mark.parametrize(
    "faults",
    [Faults(failed_after=1.0), Faults(silent_after=1.0, silence_s=0.8)],
    ids=["5xx after acting", "silence after acting"],
)
async def test_lost_answer_is_found_by_lookup_and_acted_on_once(faults: Faults) -> None:
    sandbox = make_sandbox(faults=faults)
    async with open_payer(sandbox, answer_s=0.4) as payer:
        with pytest.raises(ExternalServiceFailed) as lost:
            await payer.submit(REFERENCE, BODY)
        assert lost.value.may_be_done
        found = await payer.find(REFERENCE)
    assert parse_outcome(found) is Outcome.APPROVED
    assert list_acted_references(sandbox) == [REFERENCE]


async def test_too_many_requests_report_retry_after_and_no_effect() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        await payer.get_token()
        sandbox.faults = Faults(too_many=1.0, retry_after_s=7)
        with pytest.raises(ExternalServiceFailed) as refused:
            await payer.submit(REFERENCE, BODY)
    error = refused.value
    assert (error.may_be_done, error.retry_after_s, list_acted_references(sandbox)) == (False, 7.0, [])


async def test_server_error_before_acting_is_uncertain_until_lookup() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        await payer.get_token()
        sandbox.faults = Faults(failed_before=1.0)
        with pytest.raises(ExternalServiceFailed) as failed:
            await payer.submit(REFERENCE, BODY)
        assert failed.value.may_be_done
        with pytest.raises(ExternalServiceFailed) as unread:
            await payer.find(REFERENCE)
        assert not unread.value.may_be_done
        sandbox.faults = Faults()
        assert await payer.find(REFERENCE) is None
    assert list_acted_references(sandbox) == []


async def test_refuses_another_request_under_the_same_reference() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        await payer.submit(REFERENCE, BODY)
        with pytest.raises(ExternalServiceRefused) as refused:
            await payer.submit(REFERENCE, make_body(REFERENCE, "15820"))
    assert refused.value.code == "reference_conflict"
    assert list_acted_references(sandbox) == [REFERENCE]


async def test_cancels_and_updates_under_separate_references() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        await payer.submit("R-1", make_body("R-1", "70551"))
        update = make_body("R-2", "99213", kind="update", former_reference="R-1")
        updated = await payer.update("R-1", "R-2", update)
        assert (parse_outcome(updated), await payer.find("R-2")) == (Outcome.APPROVED, updated)
        assert parse_outcome(await payer.find("R-1")) is Outcome.CANCELLED
        cancel = make_body("R-3", "99213", kind="cancel", former_reference="R-2")
        gone = await payer.cancel("R-2", "R-3", cancel)
        assert await payer.cancel("R-2", "R-3", cancel) == gone
        assert parse_outcome(gone) is parse_outcome(await payer.find("R-2")) is Outcome.CANCELLED
        for former, code in (("R-2", "not_changeable"), ("R-9", "unknown_authorization")):
            with pytest.raises(ExternalServiceRefused) as refused:
                await payer.cancel(former, "R-4", make_body("R-4", kind="cancel", former_reference=former))
            assert refused.value.code == code
    assert list_acted_references(sandbox) == ["R-1", "R-2", "R-3"]


@pytest.mark.proves("PG-37")
async def test_token_is_reused_until_shortly_before_it_expires() -> None:
    sandbox = make_sandbox(token_life_s=300.0)
    clock = sandbox.clock
    assert isinstance(clock, ManualClock)
    counted = []
    with serve_in_thread(build_payer_app(sandbox)) as url:
        async with open_payer_at(url, clock) as (payer, tokens):
            for wait in (0, 239, 2, 120):
                clock.at += wait
                await payer.find(REFERENCE)
                counted.append(tokens.fetch_count)
    assert counted == [1, 1, 2, 2]


async def test_refused_token_is_replaced_once() -> None:
    sandbox = make_sandbox()
    with serve_in_thread(build_payer_app(sandbox)) as url:
        async with open_payer_at(url, sandbox.clock) as (payer, tokens):
            await payer.find(REFERENCE)
            await payer.http.delete(f"{url}/sandbox/tokens")
            await payer.submit(REFERENCE, BODY)
            assert tokens.fetch_count == 2
    assert list_acted_references(sandbox) == [REFERENCE]


async def test_second_refused_token_fails_without_effect() -> None:
    sandbox = make_sandbox()

    async def get_stale_token() -> str:
        return "stale"

    async with open_payer(sandbox) as payer:
        config, clock = payer.config, sandbox.clock
        unlucky = JsonPayerClient(payer.http, config, get_stale_token, payer.discard_token, clock)
        with pytest.raises(ExternalServiceFailed, match="credentials") as refused:
            await unlucky.submit(REFERENCE, BODY)
    assert not refused.value.may_be_done
    assert list_acted_references(sandbox) == []


async def test_sends_the_api_key_or_nothing_as_configured() -> None:
    sandbox = make_sandbox(client_id="", client_secret="", api_key="key-of-the-test")

    async def look_up_with_key(url: str, key: str, auth_type: str) -> PayerResponse | None:
        async def get_key() -> str:
            return get_api_key(config, Secret("pagw/payers/acme", key))

        async with make_client() as http:
            config = make_config(url, auth_type=auth_type)
            return await JsonPayerClient(http, config, get_key, clock=sandbox.clock).find(REFERENCE)

    with serve_in_thread(build_payer_app(sandbox)) as url:
        assert await look_up_with_key(url, "key-of-the-test\n", "api_key") is None
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            await look_up_with_key(url, "another", "api_key")
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            await look_up_with_key(url, "", "none")
        with pytest.raises(SettingsError, match="expected an API key"):
            await look_up_with_key(url, " ", "api_key")


@pytest.mark.proves("PG-56")
async def test_wrong_credentials_are_named_but_never_shown() -> None:
    sandbox = make_sandbox()

    async def fetch(url: str, value: str, **settings: Any) -> AccessToken:
        async with make_client() as http:
            config = make_config(url, **settings)
            return await fetch_token(
                http, config, Secret(config.credentials_name, value), clock=sandbox.clock
            )

    wrong = json.dumps({"client_id": "pagw-gateway", "client_secret": "wr0ng-s3cret"})
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:pagw/payers/acme-AbC123"
    with serve_in_thread(build_payer_app(sandbox)) as url:
        for value, error in (
            (wrong, ExternalServiceFailed),
            ("wr0ng-s3cret", SettingsError),
            ("[]", SettingsError),
        ):
            with pytest.raises(error, match="pagw/payers/acme") as refused:
                await fetch(url, value, credentials_arn=arn)
            assert "wr0ng-s3cret" not in "".join(traceback.format_exception(refused.value))
        token = await fetch(url, CREDENTIALS)
        assert (await fetch(url, CLIENT_SECRET, client_id="pagw-gateway")).expires_at == token.expires_at
    assert token.access_token not in repr(token)
    assert token.expires_at == sandbox.clock.now() + 3600


def make_answering_app(status: int, body: Any, headers: dict[str, str] | None = None) -> Starlette:
    """Make an app that gives this answer to every call of a payer."""

    async def answer(request: Request) -> Response:
        if isinstance(body, str):
            return Response(body, status_code=status, headers=headers)
        return JSONResponse(body, status_code=status, headers=headers)

    paths = ("/prior-authorizations", "/prior-authorizations/{former}/cancel", "/oauth/token")
    return Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])


async def get_failure(
    app: Starlette, ask: Callable[[JsonPayerClient], Awaitable[Any]], auth_type: str = "none"
) -> HoldfastError:
    """Run `ask` with a client of the app in memory, and return the error that it must raise."""

    config = make_config("http://127.0.0.1", auth_type=auth_type)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as http:
        tokens = TokenCache(http, config, ManualClock())
        with pytest.raises(HoldfastError) as raised:
            await ask(JsonPayerClient(http, config, tokens.get_token, tokens.forget))
    return raised.value


DECISION = {"outcome": "approved", "decided_at": "2026-02-04T10:30:00Z"}
DENIAL = {"outcome": "denied", "decided_at": "2026-02-04T10:30:00Z"}
GOOD = {"reference": REFERENCE, "payer_reference": "PA-1", "status": "final", "decision": DECISION}
# Status, body, text of the error, and `may_be_done` after a submit (None: the refusal is final).
INVALID_RESPONSES: list[tuple[int, Any, str, bool | None]] = [
    (200, "<html>", "not JSON", True),
    (200, [], "Invalid response", True),
    (200, {}, "reference: Field required", True),
    (200, GOOD | {"reference": "PAGW-OTHER"}, "another reference", True),
    (200, GOOD | {"status": "pended"}, "contradict", True),
    (200, GOOD | {"decision": DENIAL}, "a denial needs a reason", True),
    (200, GOOD | {"decision": DECISION | {"decided_at": "2026-02-04T10:30:00"}}, "time zone", True),
    (200, GOOD | {"decision": DECISION | {"outcome": PATIENT}}, "outcome: ", True),
    (200, GOOD | {"payer_reference": ""}, "payer_reference: ", True),
    (302, "", "redirect", True),
    (400, {"error": "invalid_request", "detail": PATIENT}, "invalid_request", None),
    (400, {"error": PATIENT}, "400", None),
    (403, {"error": PATIENT}, "credentials", False),
    (404, PATIENT, "404", None),
    (408, {"error": PATIENT}, "408", True),
    (409, {"error": PATIENT}, "409", False),
    (418, {"error": PATIENT}, "418", False),
    (422, [PATIENT], "422", None),
    (429, {"error": PATIENT}, "no more requests", False),
    (500, {"error": PATIENT}, "500", True),
]


@pytest.mark.parametrize(("status", "body", "said", "may_be_done"), INVALID_RESPONSES)
async def test_invalid_response_is_reported_without_patient_data(
    status: int, body: Any, said: str, may_be_done: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = make_answering_app(status, body)
    errors = [
        await get_failure(app, lambda payer: payer.submit(REFERENCE, BODY)),
        await get_failure(app, lambda payer: payer.cancel("R-1", REFERENCE, BODY)),
        await get_failure(app, lambda payer: payer.find(REFERENCE)),
    ]
    for error in errors[:2]:
        assert said in error.message
        assert getattr(error, "may_be_done", None) is may_be_done
    assert isinstance(errors[2], ExternalServiceFailed)
    assert not errors[2].may_be_done
    shown = "".join("".join(traceback.format_exception(error)) for error in errors) + caplog.text
    assert not any(word in shown for word in (PATIENT, MEMBER))


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        {},
        {"access_token": "t", "expires_in": 0, "token_type": "Bearer"},
        {"access_token": "t\n", "expires_in": 60, "token_type": "Bearer"},
        {"access_token": "t", "expires_in": 60, "token_type": "mac"},
    ],
)
async def test_invalid_token_response_fails_without_effect(body: Any) -> None:
    error = await get_failure(
        make_answering_app(200, body), lambda payer: payer.submit(REFERENCE, BODY), "oauth2"
    )
    assert isinstance(error, ExternalServiceFailed)
    assert "Invalid response from The token endpoint of the payer acme" in error.message
    assert not error.may_be_done


async def test_unreachable_payer_fails_without_effect() -> None:
    config = make_config("http://127.0.0.1:1", auth_type="none")
    async with make_client() as http:
        with pytest.raises(ExternalServiceFailed, match="not sent") as raised:
            await JsonPayerClient(http, config, TokenCache(http, config, ManualClock()).get_token).submit(
                REFERENCE, BODY
            )

    assert not raised.value.may_be_done


async def test_refuses_an_invalid_reference_before_any_call() -> None:
    sandbox = make_sandbox()
    async with open_payer(sandbox) as payer:
        for reference in ("", "a b", "../x", "x" * 65, "k\n"):
            calls: list[Awaitable[Any]] = [
                payer.submit(reference, BODY),
                payer.cancel(reference, REFERENCE, BODY),
                payer.find(reference),
            ]
            for call in calls:
                with pytest.raises(ExternalServiceRefused) as refused:
                    await call
                assert refused.value.code == "invalid_reference"
        with pytest.raises(ExternalServiceRefused):
            await payer.submit(REFERENCE, b"not json")
    assert list_acted_references(sandbox) == []
