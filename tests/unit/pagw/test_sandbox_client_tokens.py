"""The stand-in for the issuer: what it gives is believed by a real verifier, and what it spoils is refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.clock import RunClock
from holdfast.core.errors import TokenRefused
from holdfast.web import serve_in_thread
from holdfast.web.tokens import open_token_verifier
from pagw.demo.sandbox.issuer import AUDIENCE, ISSUER, KEYS_FILE, IssuerSandbox, build_issuer_app, get_secret

NOW = 1_700_000_000.0
FORM = {
    "grant_type": "client_credentials",
    "client_id": "acme-client",
    "client_secret": get_secret("acme-client"),
}


def made(folder: Path) -> IssuerSandbox:
    return IssuerSandbox(RunClock(folder / "clock", start=NOW), folder)


def verified(sandbox: IssuerSandbox, token: str) -> dict[str, Any]:
    """By what stands before the routes, with the keys as they are published over HTTP."""
    with serve_in_thread(build_issuer_app(sandbox)) as url:
        verifier = open_token_verifier(
            f"{url}/.well-known/jwks.json", issuer=ISSUER, audience=AUDIENCE, clock=sandbox.clock
        )
        return dict(asyncio.run(verifier.verify(token)).claims)


def asked(sandbox: IssuerSandbox, form: dict[str, str], **options: Any) -> httpx2.Response:
    with serve_in_thread(build_issuer_app(sandbox)) as url:
        return httpx2.post(f"{url}/token", data=form, **options)


@pytest.mark.parametrize("by_header", [False, True])
def test_gives_the_client_of_a_tenant_a_token_that_is_believed(tmp_path: Path, by_header: bool) -> None:
    sandbox = made(tmp_path)
    form = {**FORM, "scope": "system/Claim.write"}
    auth = (form.pop("client_id"), form.pop("client_secret")) if by_header else None
    answer = asked(sandbox, form, auth=auth).json()

    assert (answer["token_type"], answer["expires_in"], answer["sandbox"]) == ("bearer", 900, True)
    claims = verified(sandbox, answer["access_token"])
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
def test_refuses_who_is_not_a_client(
    tmp_path: Path, changes: dict[str, str], status: int, error: str
) -> None:
    answer = asked(made(tmp_path), {**FORM, **changes})

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
def test_gives_tokens_that_must_be_refused(tmp_path: Path, flaw: Any, code: str) -> None:
    sandbox = made(tmp_path)
    with pytest.raises(TokenRefused) as raised:
        verified(sandbox, sandbox.mint_token("acme", flaw=flaw))

    assert raised.value.code == code


def test_a_token_ends_by_the_run_clock(tmp_path: Path) -> None:
    sandbox = made(tmp_path)
    token = sandbox.mint_token("acme", lifetime_s=60)
    verified(sandbox, token)

    RunClock(tmp_path / "clock").advance(91)
    with pytest.raises(TokenRefused, match="expired"):
        verified(sandbox, token)


def test_a_new_key_signs_and_the_old_one_holds_until_it_is_withdrawn(tmp_path: Path) -> None:
    sandbox = made(tmp_path)
    old = sandbox.mint_token("acme")
    sandbox.rotate()
    assert verified(sandbox, old)["tenant"] == "acme"
    assert verified(sandbox, sandbox.mint_token("acme"))["tenant"] == "acme"

    sandbox.rotate(withdraw=True)
    with pytest.raises(TokenRefused, match="does not publish"):
        verified(sandbox, old)


def test_its_key_is_kept_for_its_owner_and_shared_by_all_processes_on_the_folder(tmp_path: Path) -> None:
    first, second = made(tmp_path), made(tmp_path)
    first.rotate()

    assert verified(first, second.mint_token("acme"))["tenant"] == "acme"
    assert (tmp_path / KEYS_FILE).stat().st_mode & 0o077 == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["clock", KEYS_FILE]
    assert '"d"' not in json.dumps(first.jwks)


def test_is_driven_by_its_doors(tmp_path: Path) -> None:
    sandbox = made(tmp_path)
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
