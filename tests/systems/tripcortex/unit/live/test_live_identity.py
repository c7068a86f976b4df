"""Tests of employee authentication by Clerk tokens of the sandbox issuer, and of the issuer itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.errors import CallerForbidden, SettingsError, TokenRefused
from holdfast.web import serve_in_thread
from holdfast_demo.tripcortex.sandbox.issuer import (
    AUDIENCE,
    AUTHORIZED_PARTY,
    ISSUER,
    ORGANISATION,
    IssuerSandbox,
    build_issuer_app,
    build_issuer_variables,
)
from tests.cases import all_cases
from tripcortex.api.identity import Authenticator, Employee
from tripcortex.settings import TripCortexSettings


class FixedClock:
    def now(self) -> float:
        return 1_773_151_200.0


ALL = {
    "TRIPCORTEX_ORGANISATION": ORGANISATION,
    "TRIPCORTEX_AUTHORIZED_PARTIES": f"https://other.test, {AUTHORIZED_PARTY}",
}


@pytest.fixture
def issuer() -> IssuerSandbox:
    return IssuerSandbox(clock=FixedClock())


async def identify(
    issuer: IssuerSandbox, folder: Path, token: str, environ: dict[str, str] | None = None
) -> Employee:
    """Authenticate the token with the issuer's keys and these settings; return the employee."""
    (folder / "jwks.json").write_text(json.dumps(issuer.jwks))
    variables = {
        "TRIPCORTEX_JWKS_URL": str(folder / "jwks.json"),
        "TRIPCORTEX_TOKEN_ISSUER": ISSUER,
        "TRIPCORTEX_TOKEN_AUDIENCE": AUDIENCE,
    }
    settings = TripCortexSettings.load(variables | (ALL if environ is None else environ))
    return await Authenticator(settings, FixedClock()).authenticate(token)


@pytest.mark.proves("TC-57")
async def test_token_identifies_the_employee(issuer: IssuerSandbox, tmp_path: Path) -> None:
    found = await identify(
        issuer, tmp_path, issuer.mint_token("emp-42", time_zone="Asia/Kolkata", home_airport="HYD")
    )
    assert (found.employee_id, found.time_zone, found.home_airport) == ("emp-42", "Asia/Kolkata", "HYD")
    assert not found.is_admin and found.expires_at == FixedClock().now() + 900
    assert found.traveller.time_zone == "Asia/Kolkata"
    with pytest.raises(CallerForbidden):
        found.require_admin()


async def test_employee_defaults_to_the_user_id(issuer: IssuerSandbox, tmp_path: Path) -> None:
    token = issuer.mint_token("emp-42", employee_id=None, sub="user_2abc", public_metadata=None)
    found = await identify(issuer, tmp_path, token)
    assert (found.employee_id, found.time_zone, found.home_airport) == ("user_2abc", "UTC", None)


async def test_admin_role_applies_to_the_served_organisation_only(
    issuer: IssuerSandbox, tmp_path: Path
) -> None:
    token = issuer.mint_token("emp-1", is_admin=True)
    assert (await identify(issuer, tmp_path, token)).is_admin
    # The founder of an organisation is its admin.
    assert not (await identify(issuer, tmp_path, token, {})).is_admin
    with pytest.raises(TokenRefused, match="another organisation"):
        await identify(issuer, tmp_path, token, {"TRIPCORTEX_ORGANISATION": "org_other"})


V2 = ALL | {"TRIPCORTEX_TOKEN_AUDIENCE": ""}


async def test_version_2_token_has_its_organisation_under_o(issuer: IssuerSandbox, tmp_path: Path) -> None:
    token = issuer.mint_token("emp-1", is_admin=True, version=2)
    found = await identify(issuer, tmp_path, token, V2)
    assert found.is_admin and found.employee_id == "emp-1"
    assert not (await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2), V2)).is_admin
    whole = {"id": ORGANISATION, "rol": "org:admin"}
    assert (await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2, o=whole), V2)).is_admin
    # Without the setting there are no admins, as in version 1.
    assert not (await identify(issuer, tmp_path, token, V2 | {"TRIPCORTEX_ORGANISATION": ""})).is_admin


@all_cases("nested", [{"id": "org_mine", "rol": "admin"}, {"rol": "admin"}, {}, [], "x", None])
async def test_refuses_a_version_2_token_whose_organisation_is_not_ours(
    issuer: IssuerSandbox, tmp_path: Path, nested: Any
) -> None:
    """Also if the token names our organisation in the claims of version 1."""
    beside: dict[str, Any] = {"org_id": ORGANISATION, "org_role": "org:admin"} if nested is not None else {}
    with pytest.raises(TokenRefused, match="another organisation"):
        await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2, o=nested, **beside), V2)


async def test_token_without_audience_requires_an_authorized_origin(
    issuer: IssuerSandbox, tmp_path: Path
) -> None:
    for flaw, code in [
        ("other_party", "web origin"),
        ("other_organisation", "another organisation"),
        ("other_audience", "another service"),
    ]:
        with pytest.raises(TokenRefused, match=code):
            await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2, flaw=flaw), V2)  # type: ignore[arg-type]
    with pytest.raises(TokenRefused, match="web origin"):
        await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2, azp=None), V2)
    # A token without an audience is invalid where one is required.
    with pytest.raises(TokenRefused, match="another service"):
        await identify(issuer, tmp_path, issuer.mint_token("emp-1", version=2))
    for parties in ("", " , "):
        settings = TripCortexSettings(token_audience=" ", authorized_parties=parties)
        with pytest.raises(SettingsError, match="TRIPCORTEX_AUTHORIZED_PARTIES"):
            Authenticator(settings, FixedClock())


@all_cases("place", ["Mars/Olympus", "../../etc/passwd", "", 7, ["UTC"]])
async def test_invalid_time_zone_and_airport_are_ignored(
    issuer: IssuerSandbox, tmp_path: Path, place: Any
) -> None:
    metadata = {"time_zone": place, "home_airport": "Boston"}
    found = await identify(issuer, tmp_path, issuer.mint_token("emp-1", public_metadata=metadata))
    assert (found.time_zone, found.home_airport) == ("UTC", None)


async def test_missing_issuer_setting_is_reported() -> None:
    with pytest.raises(SettingsError, match="TRIPCORTEX_JWKS_URL"):
        await Authenticator(TripCortexSettings(), FixedClock()).authenticate("a.b.c")


async def test_issuer_serves_public_keys_and_tokens_over_http(tmp_path: Path) -> None:
    issuer = IssuerSandbox(clock=FixedClock(), folder=tmp_path)
    with serve_in_thread(build_issuer_app(issuer)) as url:
        keys = httpx2.get(build_issuer_variables(url)["TRIPCORTEX_JWKS_URL"]).json()["keys"]
        assert len(keys) == 1 and "d" not in keys[0]
        token = httpx2.post(f"{url}/sandbox/tokens", json={"employee_id": "emp-7"}).json()["token"]
        assert (await identify(issuer, tmp_path, token)).employee_id == "emp-7"
        assert httpx2.post(f"{url}/sandbox/tokens", json={}).status_code == 400
        httpx2.post(f"{url}/sandbox/rotate", json={"withdraw": True})
        with pytest.raises(TokenRefused):
            await identify(issuer, tmp_path, token)
    # Another process on the same folder signs with the same key.
    assert IssuerSandbox(clock=FixedClock(), folder=tmp_path).jwks == issuer.jwks
