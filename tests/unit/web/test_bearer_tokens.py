"""Bearer tokens in front of routes: the caller, its tenant and scopes, and refusals in a system's format."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi import APIRouter, FastAPI, Security
from jwt.algorithms import ECAlgorithm
from starlette.requests import Request

from holdfast.core.errors import HoldfastError, RateLimited, SettingsError
from holdfast.web.problems import ErrorFormat, ErrorReport, set_error_format
from holdfast.web.tokens import BearerGuard, Caller, LazyVerifier, open_token_verifier, require_bearer
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


def render_code(report: ErrorReport) -> dict[str, Any]:
    """Return the body of an error in the system's own format."""
    assert isinstance(report.error, HoldfastError)
    return {"code": report.error.code, "status": report.problem.status}


OWN_FORMAT = ErrorFormat(
    "application/json", render_code, schema_name="Refusal", schemas=lambda: {"Refusal": {"type": "object"}}
)


def make_app(guard: BearerGuard, *scopes: str) -> FastAPI:
    """Build an app whose route requires these scopes. Its errors have the system's own format."""
    router = APIRouter()

    @router.get("/claims")
    async def claims(caller: Annotated[Caller, Security(guard, scopes=scopes)]) -> dict[str, Any]:
        return {"tenant": caller.tenant, "client": caller.client_id, "scopes": sorted(caller.scopes)}

    # The token of the settings is for other routes.
    app = build_app(self_authenticated=[router], token="of-the-settings")
    set_error_format(app, OWN_FORMAT)
    return app


def test_route_receives_the_caller(tmp_path: Path) -> None:
    app = make_app(make_guard(tmp_path), "system/Claim.write")
    given = make_token(scope="system/Claim.write other", client_id="c-7")
    answer = call(app, "GET", "/claims", headers={"Authorization": f"bearer {given}"})

    assert answer.json() == {"tenant": "acme", "client": "c-7", "scopes": ["other", "system/Claim.write"]}


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
    tmp_path: Path, header: str | None, code: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = call(make_app(make_guard(tmp_path)), "GET", "/claims", headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (401, code)
    challenge = "Bearer" if code == "TokenMissing" else 'Bearer error="invalid_token"'
    assert answer.headers["www-authenticate"] == challenge


@pytest.mark.parametrize("scope", ["", "system/Claim.read", "system/Claim.writes", "SYSTEM/CLAIM.WRITE"])
def test_missing_scope_gets_403_and_is_named(tmp_path: Path, scope: str) -> None:
    app = make_app(make_guard(tmp_path), "system/Claim.write")
    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {make_token(scope=scope)}"})

    assert (answer.status_code, answer.json()["code"]) == (403, "InsufficientScope")
    assert (
        answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="system/Claim.write"'
    )


def test_unavailable_keys_give_503(tmp_path: Path) -> None:
    app = make_app(make_guard(tmp_path, keys=tmp_path / "none.json"))
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
        make_app(make_guard(tmp_path)),
        "GET",
        "/claims",
        headers={"Authorization": f"Bearer {given}"},
    )

    assert (answer.status_code, answer.json()["code"]) == (401, "ClaimMissing")


def test_tenant_may_be_in_another_claim(tmp_path: Path) -> None:
    app = make_app(make_guard(tmp_path, tenant_claim="https://api.test/org"))
    given = make_token(tenant="acme", **{"https://api.test/org": "other"})

    answer = call(app, "GET", "/claims", headers={"Authorization": f"Bearer {given}"})
    assert answer.json()["tenant"] == "other"


def test_rejects_two_tokens_in_one_request(tmp_path: Path) -> None:
    app = make_app(make_guard(tmp_path))
    headers = [
        ("Authorization", f"Bearer {make_token()}"),
        ("Authorization", f"Bearer {make_token(tenant='other')}"),
    ]

    assert call(app, "GET", "/claims", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_description_requires_a_token(tmp_path: Path) -> None:
    described = call(make_app(make_guard(tmp_path), "a", "b"), "GET", "/openapi.json").json()

    assert described["paths"]["/claims"]["get"]["security"] == [{"Bearer": ["a", "b"]}]
    scheme = described["components"]["securitySchemes"]["Bearer"]
    assert (scheme["scheme"], scheme["bearerFormat"]) == ("bearer", "JWT")


def test_counts_the_call_before_it_checks_the_scope(tmp_path: Path) -> None:
    counted: list[str] = []

    async def count_call(request: Request, caller: Caller) -> None:
        counted.append(caller.tenant)
        if len(counted) > 1:
            raise RateLimited("too many", retry_after_s=7)

    app = make_app(make_guard(tmp_path, on_caller=count_call), "system/Claim.write")
    headers = {"Authorization": f"Bearer {make_token()}"}
    first, second = call(app, "GET", "/claims", headers=headers), call(app, "GET", "/claims", headers=headers)

    assert (first.status_code, second.status_code, second.headers["retry-after"]) == (403, 429, "7")
    assert counted == ["acme", "acme"]


def test_verifier_without_settings_says_what_to_set_at_the_first_token() -> None:
    verifier = LazyVerifier("", issuer="", audience=None, clock=FixedClock(), missing="Set the issuer.")

    with pytest.raises(SettingsError, match="Set the issuer"):
        asyncio.run(verifier.verify("a.b.c"))
