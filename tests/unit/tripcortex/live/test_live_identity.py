"""Who an employee is, by what a token of Clerk's shape says; and the stand-in that issues them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.errors import CallerForbidden, SettingsError, TokenRefused
from holdfast.web import serve_in_thread
from tripcortex.api.identity import Authenticator, Employee
from tripcortex.demo.sandbox.issuer import (
    AUDIENCE,
    AUTHORIZED_PARTY,
    ISSUER,
    ORGANISATION,
    IssuerSandbox,
    build_issuer_app,
    build_issuer_variables,
)
from tripcortex.settings import TripCortexSettings


class Then:
    def now(self) -> float:
        return 1_773_151_200.0


ALL = {
    "TRIPCORTEX_ORGANISATION": ORGANISATION,
    "TRIPCORTEX_AUTHORIZED_PARTIES": f"https://other.test, {AUTHORIZED_PARTY}",
}


@pytest.fixture
def issuer() -> IssuerSandbox:
    return IssuerSandbox(clock=Then())


def known(issuer: IssuerSandbox, folder: Path, token: str, environ: dict[str, str] | None = None) -> Employee:
    (folder / "jwks.json").write_text(json.dumps(issuer.jwks))
    told = {
        "TRIPCORTEX_JWKS_URL": str(folder / "jwks.json"),
        "TRIPCORTEX_TOKEN_ISSUER": ISSUER,
        "TRIPCORTEX_TOKEN_AUDIENCE": AUDIENCE,
    }
    settings = TripCortexSettings.load(told | (ALL if environ is None else environ))
    return asyncio.run(Authenticator(settings, Then()).authenticate(token))


@pytest.mark.proves("TC-57")
def test_an_employee_is_whom_the_token_says(issuer: IssuerSandbox, tmp_path: Path) -> None:
    found = known(issuer, tmp_path, issuer.mint_token("emp-42", time_zone="Asia/Kolkata", home_airport="HYD"))
    assert (found.employee_id, found.time_zone, found.home_airport) == ("emp-42", "Asia/Kolkata", "HYD")
    assert not found.is_admin and found.expires_at == Then().now() + 900
    assert found.traveller.time_zone == "Asia/Kolkata"
    with pytest.raises(CallerForbidden):
        found.require_admin()


def test_without_a_claim_of_its_own_the_employee_is_the_user(issuer: IssuerSandbox, tmp_path: Path) -> None:
    token = issuer.mint_token("emp-42", employee_id=None, sub="user_2abc", public_metadata=None)
    found = known(issuer, tmp_path, token)
    assert (found.employee_id, found.time_zone, found.home_airport) == ("user_2abc", "UTC", None)


def test_an_admin_is_one_in_the_organisation_that_is_served_and_nowhere_else(
    issuer: IssuerSandbox, tmp_path: Path
) -> None:
    token = issuer.mint_token("emp-1", is_admin=True)
    assert known(issuer, tmp_path, token).is_admin
    # Who may found an organisation is its admin.
    assert not known(issuer, tmp_path, token, {}).is_admin
    with pytest.raises(TokenRefused, match="another organisation"):
        known(issuer, tmp_path, token, {"TRIPCORTEX_ORGANISATION": "org_other"})


V2 = ALL | {"TRIPCORTEX_TOKEN_AUDIENCE": ""}


def test_the_organisation_of_a_token_of_version_2_stands_under_o(
    issuer: IssuerSandbox, tmp_path: Path
) -> None:
    token = issuer.mint_token("emp-1", is_admin=True, version=2)
    found = known(issuer, tmp_path, token, V2)
    assert found.is_admin and found.employee_id == "emp-1"
    assert not known(issuer, tmp_path, issuer.mint_token("emp-1", version=2), V2).is_admin
    whole = {"id": ORGANISATION, "rol": "org:admin"}
    assert known(issuer, tmp_path, issuer.mint_token("emp-1", version=2, o=whole), V2).is_admin
    # Without the setting nobody is an admin, here too.
    assert not known(issuer, tmp_path, token, V2 | {"TRIPCORTEX_ORGANISATION": ""}).is_admin


@pytest.mark.parametrize("nested", [{"id": "org_mine", "rol": "admin"}, {"rol": "admin"}, {}, [], "x", None])
def test_a_role_counts_in_the_organisation_it_was_given_in(
    issuer: IssuerSandbox, tmp_path: Path, nested: Any
) -> None:
    """Also where the token names ours in the manner of version 1 beside it."""
    beside: dict[str, Any] = {"org_id": ORGANISATION, "org_role": "org:admin"} if nested is not None else {}
    with pytest.raises(TokenRefused, match="another organisation"):
        known(issuer, tmp_path, issuer.mint_token("emp-1", version=2, o=nested, **beside), V2)


def test_without_an_audience_a_token_is_for_the_pages_that_are_named(
    issuer: IssuerSandbox, tmp_path: Path
) -> None:
    for flaw, code in [
        ("other_party", "web origin"),
        ("other_organisation", "another organisation"),
        ("other_audience", "another service"),
    ]:
        with pytest.raises(TokenRefused, match=code):
            known(issuer, tmp_path, issuer.mint_token("emp-1", version=2, flaw=flaw), V2)  # type: ignore[arg-type]
    with pytest.raises(TokenRefused, match="web origin"):
        known(issuer, tmp_path, issuer.mint_token("emp-1", version=2, azp=None), V2)
    # One without an audience is for nobody where one is asked for.
    with pytest.raises(TokenRefused, match="another service"):
        known(issuer, tmp_path, issuer.mint_token("emp-1", version=2))
    for parties in ("", " , "):
        settings = TripCortexSettings(token_audience=" ", authorized_parties=parties)
        with pytest.raises(SettingsError, match="TRIPCORTEX_AUTHORIZED_PARTIES"):
            Authenticator(settings, Then())


@pytest.mark.parametrize("place", ["Mars/Olympus", "../../etc/passwd", "", 7, ["UTC"]])
def test_a_zone_that_nobody_knows_counts_as_none(issuer: IssuerSandbox, tmp_path: Path, place: Any) -> None:
    metadata = {"time_zone": place, "home_airport": "Boston"}
    found = known(issuer, tmp_path, issuer.mint_token("emp-1", public_metadata=metadata))
    assert (found.time_zone, found.home_airport) == ("UTC", None)


def test_an_issuer_that_is_not_set_is_told_to_the_operator() -> None:
    with pytest.raises(SettingsError, match="TRIPCORTEX_JWKS_URL"):
        asyncio.run(Authenticator(TripCortexSettings(), Then()).authenticate("a.b.c"))


def test_the_issuer_publishes_public_keys_and_gives_tokens_over_http(tmp_path: Path) -> None:
    issuer = IssuerSandbox(clock=Then(), folder=tmp_path)
    with serve_in_thread(build_issuer_app(issuer)) as url:
        keys = httpx2.get(build_issuer_variables(url)["TRIPCORTEX_JWKS_URL"]).json()["keys"]
        assert len(keys) == 1 and "d" not in keys[0]
        token = httpx2.post(f"{url}/sandbox/tokens", json={"employee_id": "emp-7"}).json()["token"]
        assert known(issuer, tmp_path, token).employee_id == "emp-7"
        assert httpx2.post(f"{url}/sandbox/tokens", json={}).status_code == 400
        httpx2.post(f"{url}/sandbox/rotate", json={"withdraw": True})
        with pytest.raises(TokenRefused):
            known(issuer, tmp_path, token)
    # Another process on the same folder signs with the same key.
    assert IssuerSandbox(clock=Then(), folder=tmp_path).jwks == issuer.jwks
