"""A payer asked over real HTTP: what each failure means, and that nothing of a request stands in one."""

from __future__ import annotations

import asyncio
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

from holdfast import Secret
from holdfast.core.errors import (
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    NotFound,
    SettingsError,
)
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from pagw.demo.sandbox.payer import build_payer_app
from pagw.domain.fhir.decisions import Outcome
from pagw.integrations.payers.client import PayerAnswer, PayerClient, make_client
from pagw.integrations.payers.formats import JsonFormat
from pagw.integrations.payers.oauth import AccessToken, fetch_token, get_api_key
from tests.unit.pagw.payer_play import (
    CLIENT_SECRET,
    CREDENTIALS,
    MEMBER,
    PATIENT,
    HandClock,
    Tokens,
    acted,
    asked,
    make_body,
    make_config,
    make_sandbox,
    with_payer,
)

REFERENCE = "PAGW-01J0000000000000000000000A"
BODY = make_body(REFERENCE)


def outcome(answer: PayerAnswer | None) -> Outcome:
    assert answer is not None
    return JsonFormat().parse_decision(answer.body).outcome


def test_a_submit_is_acted_on_and_found_under_its_reference() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> None:
        assert await payer.look_up(REFERENCE) is None
        with pytest.raises(NotFound, match=REFERENCE):
            await payer.inquire(REFERENCE)
        answer = await payer.submit(REFERENCE, BODY)
        assert (answer.status, outcome(answer)) == ("final", Outcome.APPROVED)
        assert await payer.look_up(REFERENCE) == answer == await payer.inquire(REFERENCE)
        assert await payer.submit(REFERENCE, BODY) == answer

    asked(sandbox, ask)
    assert acted(sandbox) == [REFERENCE]


@pytest.mark.parametrize(
    "faults",
    [Faults(failed_after=1.0), Faults(silent_after=1.0, silence_s=0.8)],
    ids=["5xx after acting", "silence after acting"],
)
def test_a_lost_answer_may_be_done_and_the_look_up_finds_it_so_nothing_is_done_twice(faults: Faults) -> None:
    sandbox = make_sandbox(faults=faults)

    async def ask(payer: PayerClient) -> PayerAnswer | None:
        with pytest.raises(ExternalServiceFailed) as lost:
            await payer.submit(REFERENCE, BODY)
        assert lost.value.may_be_done
        return await payer.look_up(REFERENCE)

    assert outcome(asked(sandbox, ask, answer_s=0.4)) is Outcome.APPROVED
    assert acted(sandbox) == [REFERENCE]


def test_too_many_requests_say_when_to_come_again_and_that_nothing_was_done() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> ExternalServiceFailed:
        await payer.get_token()
        sandbox.faults = Faults(too_many=1.0, retry_after_s=7)
        with pytest.raises(ExternalServiceFailed) as refused:
            await payer.submit(REFERENCE, BODY)
        return refused.value

    error = asked(sandbox, ask)
    assert (error.may_be_done, error.retry_after_s, acted(sandbox)) == (False, 7.0, [])


def test_a_5xx_before_acting_may_be_done_for_all_we_know_and_the_look_up_says_that_it_is_not() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> PayerAnswer | None:
        await payer.get_token()
        sandbox.faults = Faults(failed_before=1.0)
        with pytest.raises(ExternalServiceFailed) as failed:
            await payer.submit(REFERENCE, BODY)
        assert failed.value.may_be_done
        with pytest.raises(ExternalServiceFailed) as unread:
            await payer.look_up(REFERENCE)
        assert not unread.value.may_be_done
        sandbox.faults = Faults()
        return await payer.look_up(REFERENCE)

    assert asked(sandbox, ask) is None
    assert acted(sandbox) == []


def test_another_request_under_the_same_reference_is_refused_for_good() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> ExternalServiceRefused:
        await payer.submit(REFERENCE, BODY)
        with pytest.raises(ExternalServiceRefused) as refused:
            await payer.submit(REFERENCE, make_body(REFERENCE, "15820"))
        return refused.value

    assert asked(sandbox, ask).code == "reference_conflict"
    assert acted(sandbox) == [REFERENCE]


def test_a_request_is_cancelled_and_updated_under_references_of_their_own() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> None:
        await payer.submit("R-1", make_body("R-1", "70551"))
        update = make_body("R-2", "99213", kind="update", former_reference="R-1")
        updated = await payer.update("R-1", "R-2", update)
        assert (outcome(updated), await payer.look_up("R-2")) == (Outcome.APPROVED, updated)
        assert outcome(await payer.look_up("R-1")) is Outcome.CANCELLED
        cancel = make_body("R-3", "99213", kind="cancel", former_reference="R-2")
        gone = await payer.cancel("R-2", "R-3", cancel)
        assert await payer.cancel("R-2", "R-3", cancel) == gone
        assert outcome(gone) is outcome(await payer.look_up("R-2")) is Outcome.CANCELLED
        for former, code in (("R-2", "not_changeable"), ("R-9", "unknown_authorization")):
            with pytest.raises(ExternalServiceRefused) as refused:
                await payer.cancel(former, "R-4", make_body("R-4", kind="cancel", former_reference=former))
            assert refused.value.code == code

    asked(sandbox, ask)
    assert acted(sandbox) == ["R-1", "R-2", "R-3"]


@pytest.mark.proves("PG-37")
def test_a_token_is_used_until_shortly_before_its_end_and_then_fetched_anew() -> None:
    sandbox = make_sandbox(token_life_s=300.0)
    clock = sandbox.clock
    assert isinstance(clock, HandClock)

    async def ask(payer: PayerClient, tokens: Tokens) -> list[int]:
        counted = []
        for wait in (0, 239, 2, 120):
            clock.at += wait
            await payer.look_up(REFERENCE)
            counted.append(tokens.fetched)
        return counted

    with serve_in_thread(build_payer_app(sandbox)) as url:
        assert asyncio.run(with_payer(url, clock, ask)) == [1, 1, 2, 2]


def test_a_token_that_is_refused_is_thrown_away_and_fetched_once_more() -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient, tokens: Tokens) -> int:
        await payer.look_up(REFERENCE)
        await payer.http.delete(f"{payer.config.api_endpoint}/sandbox/tokens")
        await payer.submit(REFERENCE, BODY)
        return tokens.fetched

    with serve_in_thread(build_payer_app(sandbox)) as url:
        assert asyncio.run(with_payer(url, sandbox.clock, ask)) == 2
    assert acted(sandbox) == [REFERENCE]


def test_a_new_token_that_is_refused_too_ends_it_and_nothing_was_done() -> None:
    sandbox = make_sandbox(token_life_s=0.0001)
    clock = sandbox.clock
    assert isinstance(clock, HandClock)

    async def ask(payer: PayerClient, tokens: Tokens) -> ExternalServiceFailed:
        stale_one = AccessToken(access_token="stale", expires_at=clock.now() + 999)

        async def stale() -> str:
            tokens.kept, tokens.until = stale_one, stale_one.expires_at
            return await tokens.token()

        unlucky = PayerClient(payer.http, payer.config, stale, tokens.forget, clock)
        with pytest.raises(ExternalServiceFailed, match="credentials") as refused:
            await unlucky.submit(REFERENCE, BODY)
        return refused.value

    with serve_in_thread(build_payer_app(sandbox)) as url:
        assert not asyncio.run(with_payer(url, clock, ask)).may_be_done
    assert acted(sandbox) == []


def test_an_api_key_or_nothing_goes_with_a_request_as_the_payer_is_configured() -> None:
    sandbox = make_sandbox(client_id="", client_secret="", api_key="key-of-the-test")

    async def with_key(url: str, key: str, auth_type: str) -> PayerAnswer | None:
        async def token() -> str:
            return get_api_key(config, Secret("pagw/payers/acme", key))

        async with make_client() as http:
            config = make_config(url, auth_type=auth_type)
            return await PayerClient(http, config, token, clock=sandbox.clock).look_up(REFERENCE)

    with serve_in_thread(build_payer_app(sandbox)) as url:
        assert asyncio.run(with_key(url, "key-of-the-test\n", "api_key")) is None
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            asyncio.run(with_key(url, "another", "api_key"))
        with pytest.raises(ExternalServiceFailed, match="credentials"):
            asyncio.run(with_key(url, "", "none"))
        with pytest.raises(SettingsError, match="expected an API key"):
            asyncio.run(with_key(url, " ", "api_key"))
        with pytest.raises(SettingsError, match="auth_type mtls, which is not supported"):
            asyncio.run(with_key(url, "", "mtls"))


@pytest.mark.proves("PG-56")
def test_credentials_that_are_wrong_are_named_by_their_reference_and_never_shown() -> None:
    sandbox = make_sandbox()

    async def fetched(url: str, value: str, **settings: Any) -> AccessToken:
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
                asyncio.run(fetched(url, value, credentials_arn=arn))
            assert "wr0ng-s3cret" not in "".join(traceback.format_exception(refused.value))
        token = asyncio.run(fetched(url, CREDENTIALS))
        assert (
            asyncio.run(fetched(url, CLIENT_SECRET, client_id="pagw-gateway")).expires_at == token.expires_at
        )
    assert token.access_token not in repr(token)
    assert token.expires_at == sandbox.clock.now() + 3600


def answering(status: int, body: Any, headers: dict[str, str] | None = None) -> Starlette:
    async def answer(request: Request) -> Response:
        if isinstance(body, str):
            return Response(body, status_code=status, headers=headers)
        return JSONResponse(body, status_code=status, headers=headers)

    paths = ("/prior-authorizations", "/prior-authorizations/{former}/cancel", "/oauth/token")
    return Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])


def failure_of(
    app: Starlette, ask: Callable[[PayerClient], Awaitable[Any]], auth_type: str = "none"
) -> HoldfastError:
    async def run() -> HoldfastError:
        config = make_config("http://127.0.0.1", auth_type=auth_type)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as http:
            tokens = Tokens(http, config, HandClock())
            with pytest.raises(HoldfastError) as raised:
                await ask(PayerClient(http, config, tokens.token, tokens.forget))
        return raised.value

    return asyncio.run(run())


DECISION = {"outcome": "approved", "decided_at": "2026-02-04T10:30:00Z"}
DENIAL = {"outcome": "denied", "decided_at": "2026-02-04T10:30:00Z"}
GOOD = {"reference": REFERENCE, "payer_reference": "PA-1", "status": "final", "decision": DECISION}
# status, body, the error's words, and whether a submit that is answered so may be done: None is refused for good.
NONSENSE: list[tuple[int, Any, str, bool | None]] = [
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


@pytest.mark.parametrize(("status", "body", "said", "may_be_done"), NONSENSE)
def test_an_answer_that_makes_no_sense_is_named_without_a_word_of_the_request(
    status: int, body: Any, said: str, may_be_done: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    app = answering(status, body)
    errors = [
        failure_of(app, lambda payer: payer.submit(REFERENCE, BODY)),
        failure_of(app, lambda payer: payer.cancel("R-1", REFERENCE, BODY)),
        failure_of(app, lambda payer: payer.look_up(REFERENCE)),
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
def test_a_token_endpoint_that_answers_nonsense_is_named_and_nothing_was_done(body: Any) -> None:
    error = failure_of(answering(200, body), lambda payer: payer.submit(REFERENCE, BODY), "oauth2")
    assert isinstance(error, ExternalServiceFailed)
    assert "Invalid response from The token endpoint of the payer acme" in error.message
    assert not error.may_be_done


def test_a_payer_that_is_not_there_was_not_asked() -> None:
    async def run() -> ExternalServiceFailed:
        config = make_config("http://127.0.0.1:1", auth_type="none")
        async with make_client() as http:
            with pytest.raises(ExternalServiceFailed, match="not sent") as raised:
                await PayerClient(http, config, Tokens(http, config, HandClock()).token).submit(
                    REFERENCE, BODY
                )
        return raised.value

    assert not asyncio.run(run()).may_be_done


@pytest.mark.parametrize("reference", ["", "a b", "../x", "x" * 65, "k\n"])
def test_a_reference_that_no_header_holds_is_refused_before_anything_is_asked(reference: str) -> None:
    sandbox = make_sandbox()

    async def ask(payer: PayerClient) -> None:
        calls: list[Awaitable[Any]] = [
            payer.submit(reference, BODY),
            payer.cancel(reference, REFERENCE, BODY),
            payer.look_up(reference),
        ]
        for call in calls:
            with pytest.raises(ExternalServiceRefused) as refused:
                await call
            assert refused.value.code == "invalid_reference"
        with pytest.raises(ExternalServiceRefused):
            await payer.submit(REFERENCE, b"not json")

    asked(sandbox, ask)
    assert acted(sandbox) == []
