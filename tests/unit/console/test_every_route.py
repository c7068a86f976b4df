"""What holds for every route of the console. Routes of later pages are found here by themselves.

The console of these tests shows every installed system. A route that fails here lacks a guard:

- it is included without `Depends(require_user)`: see `console/app.py`;
- it changes something and has no `dependencies=[require_role(…)]`;
- it belongs to a system, and its path does not name it `{system}`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.console.users import ROLES
from holdfast.core.http.hosts import SAFE_METHODS
from holdfast.model.system import load_systems
from tests.unit.console.consoles import Browser, ConsoleUnderTest, open_console

SEEN = "skymarshal"
USERS = {
    "everything": list(ROLES),
    # Sees every system, and may do nothing there.
    "walker": ["viewer"],
    "pia": [f"{SEEN}:viewer"],
}
# What answers without a session. `/metrics` answers only this machine.
PUBLIC = {
    "/sign-in",
    "/sign-in/demo",
    "/sign-in/password",
    "/sign-in/oidc",
    "/sign-in/oidc/callback",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
}
# What every user may do with their own sign-in.
OWN = {"/sign-out", "/account/sign-out-everywhere"}
# What everybody may do who sees the system: it changes nothing but what the console shows.
OF_VIEWERS = {"/cost/{system}/measure"}
# Paths with a parameter that is not of a system.
NOT_OF_A_SYSTEM: set[str] = set()

# Handlers that post and need no intent: a reveal and a sign-out have no effect but their own; an edit of an
# item is written with its entry, or inside of `follow_effect`, by `browser/edits.py`.
WITHOUT_EFFECT = {"reveal", "sign_out", "submit_form", "submit_deletion"}
AUDITED = re.compile(r"async with (audit_effect|_audit_\w+)\(")

PARAMETER = re.compile(r"\{(\w+)(:\w+)?\}")


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleUnderTest]:
    async with open_console(tmp_path, *load_systems().values(), users=USERS) as opened:
        yield opened


def list_routes(site: ConsoleUnderTest) -> list[tuple[str, str]]:
    """Return the method and the path of each route, without mounted apps (the assets)."""
    found = {
        (method.upper(), path) for path, methods in site.app.openapi()["paths"].items() for method in methods
    }
    return sorted(found, key=lambda each: (each[1], each[0]))


def iterate_declared(routes: Any) -> Iterator[Any]:
    """Yield every route of the routers inside of routers."""
    for each in routes:
        router = getattr(each, "original_router", None)
        if router is None:
            yield each
        else:
            yield from iterate_declared(router.routes)


def fill(path: str, system: str = SEEN) -> str:
    """Return an address of the path."""
    return PARAMETER.sub(lambda found: system if found[1] == "system" else "x", path)


async def send(browser: Browser, method: str, path: str, **headers: str) -> Any:
    return await browser.client.request(method, path, headers=headers)


async def read_token(browser: Browser) -> str:
    return (await browser.client.get("/account")).text.split('name="csrf" value="')[1].split('"')[0]


def test_the_walk_finds_every_route(console: ConsoleUnderTest) -> None:
    """No route is hidden from it, except the old name of a health check."""
    declared = [each for each in iterate_declared(console.app.routes) if hasattr(each, "include_in_schema")]
    hidden = [each.path for each in declared if not each.include_in_schema]
    paths = {path for _, path in list_routes(console)}

    assert hidden == ["/health"]
    assert {each.path for each in declared if "{" not in each.path} >= OWN | PUBLIC
    assert paths >= (PUBLIC - {"/health"}) | OWN | {"/", "/live", "/account", "/admin/users", "/admin/audit"}


async def test_without_a_session_only_the_sign_in_and_health_answer(console: ConsoleUnderTest) -> None:
    stranger = await console.open_browser()
    answered = []
    for method, path in list_routes(console):
        if path in PUBLIC:
            continue
        response = await send(stranger, method, fill(path))
        fragment = await send(stranger, method, fill(path), **{"HX-Request": "true"})
        leads_to_sign_in = (
            response.status_code == 303
            and response.headers["location"].startswith("/sign-in")
            and fragment.status_code == 401
            and not response.content + fragment.content
        )
        if not leads_to_sign_in:
            answered.append((method, path, response.status_code, fragment.status_code))

    assert answered == []


async def test_without_a_session_unknown_paths_and_systems_look_alike(console: ConsoleUnderTest) -> None:
    stranger = await console.open_browser()
    for path in ("/apps/agenticpm/inbox", "/apps/nothing/inbox", "/nothing", "/systems/pagw", "/systems/x"):
        response = await stranger.get(path, 303)
        assert response.headers["location"] == f"/sign-in?next={path}"


async def test_every_change_needs_the_token_of_its_session(console: ConsoleUnderTest) -> None:
    browser = await console.sign_in("everything")
    accepted = []
    for method, path in list_routes(console):
        if method in SAFE_METHODS or path in PUBLIC:
            continue
        response = await send(browser, method, fill(path))
        if response.status_code != 403 or "belongs to another sign-in" not in response.text:
            accepted.append((method, path, response.status_code))

    assert accepted == []


async def test_every_change_needs_a_role(console: ConsoleUnderTest) -> None:
    browser = await console.sign_in("walker")
    token = await read_token(browser)
    accepted = []
    for method, path in list_routes(console):
        if method in SAFE_METHODS or path in PUBLIC | OWN | OF_VIEWERS:
            continue
        response = await send(browser, method, fill(path), **{"X-CSRF-Token": token})
        if response.status_code != 403 or "This needs the role" not in response.text:
            accepted.append((method, path, response.status_code))

    assert accepted == []
    refusals = [each for each in await console.list_actions() if each == ("walker", "refused")]
    assert refusals


def test_every_effect_is_recorded_before_it_happens(console: ConsoleUnderTest) -> None:
    """A handler that posts acts inside of `audit_effect`, or is in a list of this module with the reason."""
    acting = []
    for each in iterate_declared(console.app.routes):
        if "POST" not in (getattr(each, "methods", None) or ()) or each.path in PUBLIC | OF_VIEWERS:
            continue
        source = inspect.getsource(each.endpoint)
        if each.endpoint.__name__ not in WITHOUT_EFFECT and not AUDITED.search(source):
            acting.append(each.endpoint.__qualname__)

    assert acting == []


async def test_a_system_does_not_exist_for_users_without_a_role_for_it(console: ConsoleUnderTest) -> None:
    browser = await console.sign_in("pia")
    token = await read_token(browser)
    visible, without_system = [], []
    others = [each.name for each in console.console.systems if each.name != SEEN]
    for method, path in list_routes(console):
        own_pages = path.startswith("/apps/")
        if "{" in path and not own_pages and "{system}" not in path and path not in NOT_OF_A_SYSTEM:
            without_system.append(path)
        if not own_pages and "{system}" not in path:
            continue
        hidden = [path.split("/")[2]] if own_pages else [*others, "nothing"]
        for system in hidden:
            if system == SEEN:
                continue
            response = await send(browser, method, fill(path, system), **{"X-CSRF-Token": token})
            if response.status_code != 404 or f"No system &#39;{system}&#39; here" not in response.text:
                visible.append((method, fill(path, system), response.status_code))

    assert without_system == []
    assert visible == []


async def test_no_page_names_a_system_that_the_user_may_not_see(console: ConsoleUnderTest) -> None:
    browser = await console.sign_in("pia")
    others = [each for each in console.console.systems if each.name != SEEN]
    words = {each.name for each in others} | {each.title for each in others if each.title}
    named = []
    for method, path in list_routes(console):
        if method != "GET" or "{" in path or path in PUBLIC | {"/live"} or path.startswith("/apps/"):
            continue
        page = await browser.client.get(path)
        assert page.status_code < 500, (path, page.text[:2000])
        named += [(path, word) for word in words if word in page.text]

    assert named == []


async def test_topics_of_hidden_systems_cannot_be_followed(console: ConsoleUnderTest) -> None:
    browser = await console.sign_in("pia")
    topics = console.console.live._topics.values()
    hidden = [each for each in topics if each.system not in (None, SEEN)]
    for topic in hidden:
        await browser.get(f"/live?topic={topic.name}", 404)

    assert hidden
    # Beginning with the name of a system and not being scoped to it would be an oversight.
    names = {each.name for each in console.console.systems}
    assert [each.name for each in topics if each.system is None and each.name.split("-")[0] in names] == []
