"""Sign-in at an identity provider, over HTTP to a sandbox of one: what is believed, and what is refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from holdfast.config.settings import Settings
from holdfast.console.accounts import open_accounts
from holdfast.console.sign_in import attempts
from holdfast.core.errors import SecretMissing, SettingsError
from holdfast.security import tokens
from tests.sandbox_oidc_provider import CLIENT_ID, CLIENT_SECRET, SandboxProvider
from tests.unit.console.consoles import URL, Browser, ConsoleUnderTest, open_console


@pytest.fixture
def provider() -> Iterator[SandboxProvider]:
    sandbox = SandboxProvider()
    with sandbox.serve():
        yield sandbox


def build_settings(provider: SandboxProvider, **changes: Any) -> dict[str, Any]:
    return {
        "console_url": URL,
        "console_oidc_issuer": provider.issuer,
        "console_oidc_client_id": CLIENT_ID,
        "console_oidc_secret": "oidc",
    } | changes


@pytest.fixture
async def console(
    provider: SandboxProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ConsoleUnderTest]:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", CLIENT_SECRET)
    async with open_console(tmp_path, **build_settings(provider)) as opened:
        # The provider's clock is the machine's.
        opened.clock.moment = time.time()
        yield opened


async def go_to_provider(browser: Browser, next: str = "/") -> str:
    """Begin a sign-in, let the provider confirm it, and return the address that it leads back to."""
    began = await browser.client.get("/sign-in/oidc", params={"next": next})
    assert began.status_code == 303, began.text
    async with httpx.AsyncClient() as elsewhere:
        confirmed = await elsewhere.get(began.headers["location"])
    assert confirmed.status_code == 302, confirmed.text
    return confirmed.headers["location"]


async def sign_in(browser: Browser, status: int = 303) -> str:
    """Sign in and return the text of the last page; where it leads, if it is a redirect."""
    response = await browser.get(await go_to_provider(browser), status)
    return response.headers["location"] if status == 303 else response.text


async def test_a_user_of_the_provider_is_let_in_with_the_roles_it_names(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    response = await browser.get(await go_to_provider(browser, "/account"), 303)
    page = await browser.read("/account")

    assert response.headers["location"] == "/account"
    assert "signed in as <strong>grace</strong> at the identity provider" in page
    assert ">operator<" in page and "(pagw)" in page
    [entry] = await console.read_audit()
    assert (entry.user, entry.action) == ("grace", "sign-in")
    assert entry.parsed_payload["subject"] == "u-1" and entry.parsed_payload["method"] == "oidc"


async def test_the_page_leads_to_the_provider_with_a_link(console: ConsoleUnderTest) -> None:
    page = (await (await console.open_browser()).get("/sign-in?next=/account")).text

    assert 'href="/sign-in/oidc?next=%2Faccount"' in page
    assert "/sign-in/password" not in page and "/sign-in/demo" not in page


async def test_each_sign_in_has_its_own_state_nonce_and_challenge(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    asked = [
        parse_qs(urlsplit((await browser.get("/sign-in/oidc", 303)).headers["location"]).query)
        for _ in range(2)
    ]

    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name] and len(asked[0][name][0]) >= 43
    assert asked[0]["redirect_uri"] == [f"{URL}/sign-in/oidc/callback"]


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "ClaimMissing"),
        ({"aud": "another-client"}, "AudienceWrong"),
        ({"aud": ["another-client"]}, "AudienceWrong"),
        ({"aud": None}, "AudienceWrong"),
        ({"aud": [CLIENT_ID, "another-client"]}, "azp"),
        ({"aud": [CLIENT_ID, "another-client"], "azp": "another-client"}, "azp"),
        ({"azp": "another-client"}, "azp"),
        ({"iss": "https://evil.example"}, "IssuerWrong"),
        ({"exp": 1_700_000_000}, "TokenExpired"),
        ({"exp": None}, "ClaimMissing"),
        ({"iat": 9_000_000_000}, "TokenEarly"),
        ({"sub": ""}, "ClaimMissing"),
        ({"roles": []}, "no role"),
        ({"roles": None}, "no role"),
        ({"roles": ["Not A Role", 7, {"a": 1}]}, "no role"),
    ],
)
async def test_a_token_that_is_not_of_this_sign_in_is_refused_and_audited(
    console: ConsoleUnderTest, provider: SandboxProvider, claims: dict[str, Any], reason: str
) -> None:
    provider.claims = claims
    browser = await console.open_browser("192.0.2.9")
    page = await sign_in(browser, 403)

    assert 'class="notice problem"' in page
    assert not await browser.is_signed_in()
    [entry] = await console.read_audit()
    assert (entry.user, entry.action) == ("(not signed in)", "sign-in refused")
    assert entry.parsed_payload == {"reason": reason, "address": "192.0.2.9"}


async def test_a_token_for_several_clients_names_this_one(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    provider.claims = {"aud": ["another-client", CLIENT_ID], "azp": CLIENT_ID}
    browser = await console.open_browser()
    await sign_in(browser)

    assert await browser.is_signed_in()


async def test_a_token_of_another_key_is_refused(
    console: ConsoleUnderTest, provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    forged, sign = generate_private_key(SECP256R1()), provider.sign
    monkeypatch.setattr(provider, "sign", lambda claims: sign(claims, forged))
    browser = await console.open_browser()
    await sign_in(browser, 403)

    assert not await browser.is_signed_in()


async def test_a_token_without_a_signature_is_refused(
    console: ConsoleUnderTest, provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "sign", lambda claims: jwt.encode(claims, "", "none"))
    browser = await console.open_browser()
    await sign_in(browser, 403)

    assert not await browser.is_signed_in()


async def test_a_rotated_key_is_fetched_and_the_old_one_is_not_believed(
    console: ConsoleUnderTest, provider: SandboxProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "FETCH_PAUSE_S", 0.0)
    assert console.console.accounts.provider is not None
    keys = (await console.console.accounts.provider._discover()).verifier._keys
    keys._pause_s = 0.0
    await sign_in(await console.open_browser())
    old = provider._key
    provider.rotate_keys()
    await sign_in(await console.open_browser())
    sign = provider.sign
    monkeypatch.setattr(provider, "sign", lambda claims: sign(claims, old))

    await sign_in(await console.open_browser(), 403)
    assert provider.requests.count("discover") == 1


@pytest.mark.parametrize("state", ["", "x", "x" * 43])
async def test_an_invented_state_is_refused(console: ConsoleUnderTest, state: str) -> None:
    browser = await console.open_browser()
    page = await browser.read(f"/sign-in/oidc/callback?code=x&state={state}", 403)

    assert "began in another browser" in page


async def test_an_answer_counts_only_in_the_browser_that_began(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    """An attacker's own sign-in cannot be finished in the browser of a victim, nor a stolen one elsewhere."""
    browser, other = await console.open_browser(), await console.open_browser()
    address = await go_to_provider(browser)
    await other.get("/sign-in/oidc", 303)
    await other.get(address, 403)

    assert not await other.is_signed_in()
    assert "redeem" not in provider.requests


async def test_a_replayed_answer_is_refused(console: ConsoleUnderTest, provider: SandboxProvider) -> None:
    browser = await console.open_browser()
    address = await go_to_provider(browser)
    cookies = dict(browser.client.cookies)
    await browser.get(address, 303)
    again = await console.open_browser()
    again.client.cookies.update(cookies)
    await again.get(address, 403)

    assert not await again.is_signed_in()
    assert provider.requests.count("redeem") == 1


async def test_a_replayed_code_is_refused_by_the_provider_and_reported(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    browser = await console.open_browser()
    first = parse_qs(urlsplit(await go_to_provider(browser)).query)["code"][0]
    provider._codes.pop(first)
    provider.answer = {"code": first}
    page = await sign_in(browser, 403)

    assert "did not confirm the sign-in (invalid_grant)" in page


async def test_an_answer_after_ten_minutes_is_refused(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    address = await go_to_provider(browser)
    console.clock.moment += 601

    assert "has expired" in await browser.read(address, 403)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"error": "access_denied"}, "refused the sign-in (access_denied)"),
        ({"error": "<script>"}, "refused the sign-in (error)"),
        ({"iss": "https://evil.example"}, "not from the identity provider"),
        ({"code": "invented"}, "invalid_grant"),
    ],
)
async def test_a_refusal_of_the_provider_is_shown(
    console: ConsoleUnderTest, provider: SandboxProvider, answer: dict[str, str], says: str
) -> None:
    provider.answer = answer
    page = await sign_in(await console.open_browser(), 403)

    assert says in page and "<script>" not in page.replace('<script src="', "").replace("<script defer", "")


async def test_a_wrong_secret_is_refused(
    provider: SandboxProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", "wrong")
    async with open_console(tmp_path, **build_settings(provider)) as console:
        console.clock.moment = time.time()
        page = await sign_in(await console.open_browser(), 403)

    assert "invalid_client" in page and "wrong" not in page


async def test_the_secret_may_be_sent_in_the_body_if_the_provider_wants_that(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    await sign_in(await console.open_browser())

    assert provider.token_bodies[0]["client_secret"] == CLIENT_SECRET


async def test_a_client_without_a_secret_is_known_by_its_verifier(
    provider: SandboxProvider, tmp_path: Path
) -> None:
    provider.has_secret = False
    async with open_console(tmp_path, **build_settings(provider, console_oidc_secret="")) as console:
        console.clock.moment = time.time()
        await sign_in(await console.open_browser())

    assert provider.token_bodies[0]["client_id"] == CLIENT_ID
    assert "client_secret" not in provider.token_bodies[0]


async def test_a_provider_that_is_down_is_retried_later(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    provider.is_down = True
    browser = await console.open_browser()
    page = await browser.read("/sign-in/oidc", 503)
    provider.is_down = False

    assert "cannot be used at the moment" in page and "Retry later" in page
    await sign_in(browser)


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": "http://[/"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
)
async def test_a_discovery_that_cannot_be_trusted_is_refused(
    console: ConsoleUnderTest, provider: SandboxProvider, discovery: dict[str, Any]
) -> None:
    provider.discovery = discovery

    assert "cannot be used at the moment" in await (await console.open_browser()).read("/sign-in/oidc", 503)


async def test_attempts_at_the_provider_are_limited_from_an_address(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    for _ in range(100):
        await browser.get("/sign-in/oidc/callback?code=x&state=y", 403)

    await browser.get("/sign-in/oidc/callback?code=x&state=y", 429)
    await browser.get("/sign-in/oidc", 303)


async def test_beginning_at_the_provider_is_not_an_attempt(console: ConsoleUnderTest) -> None:
    browser = await console.open_browser()
    for _ in range(101):
        await browser.get("/sign-in/oidc", 303)

    await browser.get("/sign-in/oidc/callback?code=x&state=y", 403)


async def test_an_address_cannot_fill_the_cache_with_beginnings(
    console: ConsoleUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MAX_BEGINNINGS_PER_ADDRESS", 3)
    browser = await console.open_browser()
    for _ in range(3):
        await browser.get("/sign-in/oidc", 303)

    await browser.get("/sign-in/oidc", 429)
    await (await console.open_browser("192.0.2.9")).get("/sign-in/oidc", 303)


@pytest.mark.parametrize(
    ("name", "claims", "expected"),
    [
        ("roles", {"roles": "operator viewer"}, {"operator", "viewer"}),
        ("https://example.org/roles", {"https://example.org/roles": ["viewer"]}, {"viewer"}),
        ("realm_access.roles", {"realm_access": {"roles": ["viewer", "Other One"]}}, {"viewer"}),
    ],
)
async def test_reads_roles_from_the_claim_of_the_settings(
    provider: SandboxProvider, tmp_path: Path, name: str, claims: dict[str, Any], expected: set[str]
) -> None:
    provider.has_secret = False
    provider.user = {"sub": "u-1"} | claims
    settings = build_settings(provider, console_oidc_secret="", console_oidc_roles=name)
    async with open_console(tmp_path, **settings) as console:
        console.clock.moment = time.time()
        browser = await console.open_browser()
        await sign_in(browser)
        page = await browser.read("/account")

    assert "signed in as <strong>u-1</strong>" in page
    assert {role for role in ("operator", "viewer", "other") if f">{role}<" in page} == expected


async def test_users_of_both_kinds_are_never_confused(provider: SandboxProvider, tmp_path: Path) -> None:
    """A user of the provider who is called like a local one has another name here, and other sign-ins."""
    provider.has_secret = False
    provider.user = {"sub": "u-7", "preferred_username": "ada", "roles": ["viewer"]}
    settings = build_settings(provider, console_oidc_secret="")
    async with open_console(tmp_path, users={"ada": ["admin"]}, **settings) as console:
        console.clock.moment = time.time()
        local, other = await console.sign_in("ada"), await console.open_browser()
        await sign_in(other)
        page = await other.read("/account")
        await other.get("/admin/users", 403)
        await local.post("/account/sign-out-everywhere")

        assert "ada (identity provider)" in page
        assert await other.is_signed_in() and not await local.is_signed_in()


async def test_a_name_cannot_contain_invisible_characters(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    provider.user["preferred_username"] = "gra\u202ece\n" + "x" * 500
    browser = await console.open_browser()
    await sign_in(browser)
    [entry] = await console.read_audit()

    assert entry.user == "gra ce " + "x" * 93


async def test_another_provider_or_client_ends_the_sessions_of_this_one(
    console: ConsoleUnderTest, provider: SandboxProvider
) -> None:
    browser = await console.open_browser()
    await sign_in(browser)
    assert await browser.is_signed_in()
    assert console.console.accounts.provider is not None
    console.console.accounts.provider.client_id = "another"

    assert not await browser.is_signed_in()


def test_a_missing_secret_is_reported_at_the_start(provider: SandboxProvider) -> None:
    with pytest.raises(SecretMissing, match="HOLDFAST_SECRET_OIDC"):
        open_accounts(Settings(**build_settings(provider)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"console_oidc_issuer": "https://i.example"}, "needs console_oidc_client_id and console_url"),
        ({"console_oidc_client_id": "x"}, "console_oidc_client_id needs console_oidc_issuer"),
        ({"console_oidc_secret": "x"}, "console_oidc_secret needs console_oidc_issuer"),
        ({"console_url": "console.example.org"}, "Invalid console_url='console.example.org'"),
        ({"console_url": "https://console.example.org/x"}, "without a path"),
    ],
)
def test_incomplete_settings_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Settings(**settings)._check()  # type: ignore[arg-type]


def test_a_provider_without_tls_is_refused() -> None:
    settings = Settings(
        console_url=URL, console_oidc_issuer="http://login.example.org", console_oidc_client_id="x"
    )

    with pytest.raises(SettingsError, match="Invalid console_oidc_issuer: expected https"):
        open_accounts(settings)
