"""The tokens of an issuer before routes: who calls, for which tenant and with which scopes, and how a refusal is told."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from jwt.algorithms import ECAlgorithm
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.core.errors import HoldfastError
from holdfast.web.tokens import BearerGuard, Caller, get_refusal_headers, open_token_verifier, require_bearer
from tests.unit.web.calling import app_of, call

NOW = 1_700_000_000.0
KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER, AUDIENCE = "https://issuer.test", "https://api.test"


class StandingClock:
    def now(self) -> float:
        return NOW


def token(**claims: Any) -> str:
    told = {"iss": ISSUER, "aud": AUDIENCE, "sub": "acme-client", "exp": NOW + 60, "tenant": "acme", **claims}
    return jwt.encode(told, KEY, algorithm="ES256", headers={"kid": "k"})


def guard_of(folder: Path, **options: Any) -> BearerGuard:
    jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk]}))
    keys = options.pop("keys", folder / "jwks.json")
    verifier = open_token_verifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=StandingClock())
    return require_bearer(verifier, **options)


def outcome_of(error: HoldfastError) -> Response:
    """As a system answers in a form of its own."""
    told = {"resourceType": "OperationOutcome", "code": error.code}
    return JSONResponse(told, error.http_status, headers=get_refusal_headers(error))


class OwnWords(APIRoute):
    """A route whose refusals, those of its dependencies too, are told in the system's own form."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await answer(request)
            except HoldfastError as error:
                return outcome_of(error)

        return told


def as_dependency(guard: BearerGuard) -> FastAPI:
    router = APIRouter(route_class=OwnWords)
    proved = Depends(guard)

    @router.get("/claims")
    async def claims(caller: Caller = proved) -> dict[str, Any]:
        return {"tenant": caller.tenant, "client": caller.client_id, "scopes": sorted(caller.scopes)}

    return app_of(router)


def as_direct_route(guard: BearerGuard) -> FastAPI:
    """A component whose callers prove who they are with every call is asked for no token of the settings."""
    router = APIRouter()

    def in_own_words(endpoint: Callable[[Request], Awaitable[Response]]) -> Any:
        @functools.wraps(endpoint)
        async def told(request: Request) -> Response:
            try:
                return await endpoint(request)
            except HoldfastError as error:
                return outcome_of(error)

        return told

    @router.get("/claims")
    @in_own_words
    async def claims(request: Request) -> Response:
        caller = await guard(request)
        told = {"tenant": caller.tenant, "client": caller.client_id, "scopes": sorted(caller.scopes)}
        return JSONResponse(told)

    return app_of(signed=[router], token="of-the-settings")


FORMS = pytest.mark.parametrize("form", [as_dependency, as_direct_route])


@FORMS
def test_a_route_learns_who_calls(form: Callable[[BearerGuard], FastAPI], tmp_path: Path) -> None:
    app = form(guard_of(tmp_path, scope="system/Claim.write"))
    given = token(scope="system/Claim.write other", client_id="c-7")
    answer = call(app, "GET", "/claims", headers={"Authorization": f"bearer {given}"})

    assert answer.json() == {"tenant": "acme", "client": "c-7", "scopes": ["other", "system/Claim.write"]}


@FORMS
@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "TokenMissing"),
        ("", "TokenMissing"),
        ("Bearer", "TokenMissing"),
        ("Bearer  ", "TokenMissing"),
        ("Basic YTpi", "TokenMissing"),
        ("Bearer two words", "TokenMalformed"),
        ("Bearer schl\u00fcssel", "TokenMalformed"),
        ("Bearer of-the-settings", "TokenMalformed"),
        ("Bearer " + token(exp=NOW - 60), "TokenExpired"),
        ("Bearer " + token(aud="https://else.test"), "AudienceWrong"),
    ],
)
def test_whoever_does_not_prove_who_it_is_gets_401_in_the_words_of_the_system(
    form: Callable[[BearerGuard], FastAPI], tmp_path: Path, header: str | None, code: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = call(form(guard_of(tmp_path)), "GET", "/claims", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, code)
    challenge = "Bearer" if code == "TokenMissing" else 'Bearer error="invalid_token"'
    assert answer.headers["www-authenticate"] == challenge


@FORMS
@pytest.mark.parametrize("scope", ["", "system/Claim.read", "system/Claim.writes", "SYSTEM/CLAIM.WRITE"])
def test_whoever_lacks_the_scope_gets_403_and_is_told_which(
    form: Callable[[BearerGuard], FastAPI], tmp_path: Path, scope: str
) -> None:
    app = form(guard_of(tmp_path, scope=["system/Claim.write"]))
    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {token(scope=scope)}"})

    assert (answer.status_code, answer.json()["code"]) == (403, "InsufficientScope")
    assert (
        answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="system/Claim.write"'
    )


@FORMS
def test_where_nobody_can_tell_the_answer_is_503(
    form: Callable[[BearerGuard], FastAPI], tmp_path: Path
) -> None:
    app = form(guard_of(tmp_path, keys=tmp_path / "none.json"))
    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {token()}"})

    assert answer.status_code == 503
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    "tenant",
    [None, "", 7, ["acme"], "acme:other", "acme/other", "Acme", "../acme", "-acme", "a" * 51, "acme\n"],
)
def test_refuses_a_token_whose_tenant_could_be_mistaken_for_another(tmp_path: Path, tenant: Any) -> None:
    given = token(tenant=tenant)
    answer = call(
        as_dependency(guard_of(tmp_path)), "GET", "/claims", headers={"Authorization": f"Bearer {given}"}
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "ClaimMissing")


def test_the_tenant_may_stand_in_another_claim(tmp_path: Path) -> None:
    app = as_dependency(guard_of(tmp_path, tenant_claim="https://api.test/org"))
    given = token(tenant="acme", **{"https://api.test/org": "other"})

    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {given}"})
    assert answer.json()["tenant"] == "other"


def test_two_tokens_in_one_request_are_none(tmp_path: Path) -> None:
    app = as_dependency(guard_of(tmp_path))
    headers = [("Authorization", f"Bearer {token()}"), ("Authorization", f"Bearer {token(tenant='other')}")]

    assert call(app, "GET", "/claims", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_the_description_says_that_a_token_is_asked_for(tmp_path: Path) -> None:
    described = call(as_dependency(guard_of(tmp_path)), "GET", "/openapi.json").json()

    assert described["paths"]["/claims"]["get"]["security"] == [{"Bearer": []}]
    scheme = described["components"]["securitySchemes"]["Bearer"]
    assert (scheme["scheme"], scheme["bearerFormat"]) == ("bearer", "JWT")
