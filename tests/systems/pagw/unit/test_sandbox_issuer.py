"""The sandbox token issuer over real HTTP: its tokens pass a verifier, its flawed ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.clock import RunClock
from holdfast.core.errors import TokenRefused
from holdfast.web import serve_in_thread
from holdfast.web.tokens import open_token_verifier
from holdfast_demo.pagw.sandbox.issuer import (
    AUDIENCE,
    ISSUER,
    KEYS_FILE,
    IssuerSandbox,
    build_issuer_app,
    get_secret,
)

NOW = 1_700_000_000.0
FORM = {
    "grant_type": "client_credentials",
    "client_id": "acme-client",
    "client_secret": get_secret("acme-client"),
}


def make_sandbox(folder: Path) -> IssuerSandbox:
    return IssuerSandbox(RunClock(folder / "clock", start=NOW), folder)


async def verify_token(sandbox: IssuerSandbox, token: str) -> dict[str, Any]:
    """Verify the token with the routes' verifier and the keys published over HTTP."""
    with serve_in_thread(build_issuer_app(sandbox)) as url:
        verifier = open_token_verifier(
            f"{url}/.well-known/jwks.json", issuer=ISSUER, audience=AUDIENCE, clock=sandbox.clock
        )
        return dict((await verifier.verify(token)).claims)


def request_token(sandbox: IssuerSandbox, form: dict[str, str], **options: Any) -> httpx2.Response:
    """Request a token from the sandbox over HTTP, and return the response."""
    with serve_in_thread(build_issuer_app(sandbox)) as url:
        return httpx2.post(f"{url}/token", data=form, **options)


@pytest.mark.parametrize("by_header", [False, True])
async def test_gives_a_client_a_token_that_verifies(tmp_path: Path, by_header: bool) -> None:
    sandbox = make_sandbox(tmp_path)
    form = {**FORM, "scope": "system/Claim.write"}
    auth = (form.pop("client_id"), form.pop("client_secret")) if by_header else None
    answer = request_token(sandbox, form, auth=auth).json()
    assert (answer["token_type"], answer["expires_in"], answer["sandbox"]) == ("bearer", 900, True)
    claims = await verify_token(sandbox, answer["access_token"])
    assert (claims["tenant"], claims["sub"], claims["scope"]) == ("acme", "acme-client", "system/Claim.write")
    assert claims["sandbox"] is True


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"client_secret": "guessed"}, 401, "invalid_client"),
        ({"client_id": "other-client"}, 401, "invalid_client"),
        ({"client_id": "a:b-client", "client_secret": get_secret("a:b-client")}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"scope": "system/*.*"}, 400, "invalid_scope"),
    ],
)
def test_refuses_an_unknown_client_grant_type_or_scope(
    tmp_path: Path, changes: dict[str, str], status: int, error: str
) -> None:
    answer = request_token(make_sandbox(tmp_path), {**FORM, **changes})
    assert (answer.status_code, answer.json()["error"]) == (status, error)


@pytest.mark.parametrize(
    ("flaw", "code"),
    [
        ("expired", "TokenExpired"),
        ("early", "TokenEarly"),
        ("forged", "TokenForged"),
        ("unknown_key", "TokenForged"),
        ("other_issuer", "IssuerWrong"),
        ("other_audience", "AudienceWrong"),
    ],
)
async def test_mints_flawed_tokens_that_are_refused(tmp_path: Path, flaw: Any, code: str) -> None:
    sandbox = make_sandbox(tmp_path)
    with pytest.raises(TokenRefused) as raised:
        await verify_token(sandbox, sandbox.mint_token("acme", flaw=flaw))
    assert raised.value.code == code


async def test_token_expires_by_the_run_clock(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)
    token = sandbox.mint_token("acme", lifetime_s=60)
    await verify_token(sandbox, token)
    RunClock(tmp_path / "clock").advance(91)
    with pytest.raises(TokenRefused, match="expired"):
        await verify_token(sandbox, token)


async def test_old_key_stays_valid_until_it_is_withdrawn(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)
    old = sandbox.mint_token("acme")
    sandbox.rotate()
    assert (await verify_token(sandbox, old))["tenant"] == "acme"
    assert (await verify_token(sandbox, sandbox.mint_token("acme")))["tenant"] == "acme"
    sandbox.rotate(withdraw=True)
    with pytest.raises(TokenRefused, match="does not publish"):
        await verify_token(sandbox, old)


async def test_private_key_is_owner_only_and_shared_between_processes(tmp_path: Path) -> None:
    first, second = make_sandbox(tmp_path), make_sandbox(tmp_path)
    first.rotate()
    assert (await verify_token(first, second.mint_token("acme")))["tenant"] == "acme"
    assert (tmp_path / KEYS_FILE).stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["clock", KEYS_FILE]
    assert '"d"' not in json.dumps(first.jwks)


def test_is_controlled_over_http(tmp_path: Path) -> None:
    sandbox = make_sandbox(tmp_path)
    with serve_in_thread(build_issuer_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        given = http.post("/sandbox/tokens", json={"tenant": "acme", "scope": "x"}).json()
        assert given["sandbox"] is True
        assert given["access_token"].count(".") == 2
        kid = http.post("/sandbox/rotate").json()["kid"]
        published = http.get("/.well-known/jwks.json")
        assert [each["kid"] for each in published.json()["keys"]][-1] == kid
        assert published.headers["x-sandbox"] == "holdfast-pagw-issuer"
        http.post("/sandbox/faults", json={"failed_before": 1.0})
        assert http.get("/.well-known/jwks.json").status_code == 503
