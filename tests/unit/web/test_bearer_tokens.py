"""Bearer tokens in front of routes: the caller, its tenant and scopes, and refusals in a system's format."""

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
from tests.unit.web.app_client import build_app, call

NOW = 1_700_000_000.0
KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER, AUDIENCE = "https://issuer.test", "https://api.test"


class FixedClock:
    def now(self) -> float:
        return NOW


def make_token(**claims: Any) -> str:
    """Return a signed token with valid default claims."""
    payload = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "acme-client",
        "exp": NOW + 60,
        "tenant": "acme",
        **claims,
    }
    return jwt.encode(payload, KEY, algorithm="ES256", headers={"kid": "k"})


def make_guard(folder: Path, **options: Any) -> BearerGuard:
    """Return a guard that verifies tokens with a key file in the folder."""
    jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk]}))
    keys = options.pop("keys", folder / "jwks.json")
    verifier = open_token_verifier(keys, issuer=ISSUER, audience=AUDIENCE, clock=FixedClock())
    return require_bearer(verifier, **options)


def make_outcome(error: HoldfastError) -> Response:
    """Build an error response in the system's own format."""
    body = {"resourceType": "OperationOutcome", "code": error.code}
    return JSONResponse(body, error.http_status, headers=get_refusal_headers(error))


class OwnFormatRoute(APIRoute):
    """Route whose refusals, including those of its dependencies, have the system's own format."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await answer(request)
            except HoldfastError as error:
                return make_outcome(error)

        return handle


def build_app_with_dependency(guard: BearerGuard) -> FastAPI:
    """Build an app whose route takes the guard as a dependency."""
    router = APIRouter(route_class=OwnFormatRoute)
    proved = Depends(guard)

    @router.get("/claims")
    async def claims(caller: Caller = proved) -> dict[str, Any]:
        return {"tenant": caller.tenant, "client": caller.client_id, "scopes": sorted(caller.scopes)}

    return build_app(router)


def build_app_with_direct_route(guard: BearerGuard) -> FastAPI:
    """Build an app whose signed route awaits the guard itself; the app also has a shared token."""
    router = APIRouter()

    def in_own_format(endpoint: Callable[[Request], Awaitable[Response]]) -> Any:
        @functools.wraps(endpoint)
        async def handle(request: Request) -> Response:
            try:
                return await endpoint(request)
            except HoldfastError as error:
                return make_outcome(error)

        return handle

    @router.get("/claims")
    @in_own_format
    async def claims(request: Request) -> Response:
        caller = await guard(request)
        body = {"tenant": caller.tenant, "client": caller.client_id, "scopes": sorted(caller.scopes)}
        return JSONResponse(body)

    return build_app(self_authenticated=[router], token="of-the-settings")


FORMS = pytest.mark.parametrize("form", [build_app_with_dependency, build_app_with_direct_route])


@FORMS
def test_route_receives_the_caller(form: Callable[[BearerGuard], FastAPI], tmp_path: Path) -> None:
    app = form(make_guard(tmp_path, scope="system/Claim.write"))
    given = make_token(scope="system/Claim.write other", client_id="c-7")
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
        ("Bearer " + make_token(exp=NOW - 60), "TokenExpired"),
        ("Bearer " + make_token(aud="https://else.test"), "AudienceWrong"),
    ],
)
def test_unauthenticated_caller_gets_401_in_the_systems_format(
    form: Callable[[BearerGuard], FastAPI], tmp_path: Path, header: str | None, code: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = call(form(make_guard(tmp_path)), "GET", "/claims", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, code)
    challenge = "Bearer" if code == "TokenMissing" else 'Bearer error="invalid_token"'
    assert answer.headers["www-authenticate"] == challenge


@FORMS
@pytest.mark.parametrize("scope", ["", "system/Claim.read", "system/Claim.writes", "SYSTEM/CLAIM.WRITE"])
def test_missing_scope_gets_403_and_is_named(
    form: Callable[[BearerGuard], FastAPI], tmp_path: Path, scope: str
) -> None:
    app = form(make_guard(tmp_path, scope=["system/Claim.write"]))
    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {make_token(scope=scope)}"})

    assert (answer.status_code, answer.json()["code"]) == (403, "InsufficientScope")
    assert (
        answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="system/Claim.write"'
    )


@FORMS
def test_unavailable_keys_give_503(form: Callable[[BearerGuard], FastAPI], tmp_path: Path) -> None:
    app = form(make_guard(tmp_path, keys=tmp_path / "none.json"))
    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {make_token()}"})

    assert answer.status_code == 503
    assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize(
    "tenant",
    [None, "", 7, ["acme"], "acme:other", "acme/other", "Acme", "../acme", "-acme", "a" * 51, "acme\n"],
)
def test_rejects_a_missing_or_malformed_tenant(tmp_path: Path, tenant: Any) -> None:
    given = make_token(tenant=tenant)
    answer = call(
        build_app_with_dependency(make_guard(tmp_path)),
        "GET",
        "/claims",
        headers={"Authorization": f"Bearer {given}"},
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "ClaimMissing")


def test_tenant_may_be_in_another_claim(tmp_path: Path) -> None:
    app = build_app_with_dependency(make_guard(tmp_path, tenant_claim="https://api.test/org"))
    given = make_token(tenant="acme", **{"https://api.test/org": "other"})

    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {given}"})
    assert answer.json()["tenant"] == "other"


def test_rejects_two_tokens_in_one_request(tmp_path: Path) -> None:
    app = build_app_with_dependency(make_guard(tmp_path))
    headers = [
        ("Authorization", f"Bearer {make_token()}"),
        ("Authorization", f"Bearer {make_token(tenant='other')}"),
    ]

    assert call(app, "GET", "/claims", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_description_requires_a_token(tmp_path: Path) -> None:
    described = call(build_app_with_dependency(make_guard(tmp_path)), "GET", "/openapi.json").json()

    assert described["paths"]["/claims"]["get"]["security"] == [{"Bearer": []}]
    scheme = described["components"]["securitySchemes"]["Bearer"]
    assert (scheme["scheme"], scheme["bearerFormat"]) == ("bearer", "JWT")
