"""Sessions over HTTP: an id replaces the token on reads; losing the cache only requires a new login."""

from __future__ import annotations

import httpx2
import pytest

from holdfast.guarantees import SessionRecord
from pagw.model.sessions import SESSIONS
from tests.systems.pagw.acceptance.gateway import Gateway, expect_outcome


def log_in(gateway: Gateway, tenant: str = "acme") -> httpx2.Response:
    """Start a session and return the response."""
    answer = httpx2.post(f"{gateway.url}/sessions", headers=gateway.headers(tenant))
    assert answer.status_code == 201, answer.text
    return answer


@pytest.mark.proves("PG-55")
def test_session_authenticates_reads_until_it_ends(idle_gateway: Gateway) -> None:
    pagw_id = idle_gateway.submit_accepted()
    answer = log_in(idle_gateway)
    session, path = answer.json()["session"], f"{idle_gateway.url}/pas/requests/{pagw_id}"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert idle_gateway.headers()["authorization"].split()[1] not in answer.text

    named, kept = {"authorization": f"Session {session}"}, {"pagw_session": session}
    assert httpx2.get(path, headers=named).json()["pagwId"] == pagw_id
    assert httpx2.get(path, cookies=kept).status_code == 200
    expect_outcome(httpx2.post(f"{path}/cancel", headers=named), 401, "login")
    expect_outcome(httpx2.post(f"{path}/cancel", cookies=kept), 401, "login")
    # A header takes precedence: a valid cookie does not rescue a refused token.
    forged = idle_gateway.headers(flaw="forged")
    expect_outcome(httpx2.get(path, headers=forged, cookies=kept), 401, "login")

    current = f"{idle_gateway.url}/sessions/current"
    expect_outcome(httpx2.delete(current), 401, "login")
    assert httpx2.delete(current, headers=named).status_code == 204
    refused = httpx2.get(path, headers=named)
    expect_outcome(refused, 401, "expired")
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.proves("PG-55", "PG-42")
def test_losing_the_cache_only_requires_a_new_login(idle_gateway: Gateway) -> None:
    pagw_id = idle_gateway.submit_accepted()
    session = log_in(idle_gateway).json()["session"]
    path, named = f"{idle_gateway.url}/pas/requests/{pagw_id}", {"authorization": f"Session {session}"}
    assert httpx2.get(path, headers=named).status_code == 200

    tenant, _, id = session.partition(".")
    idle_gateway.run(idle_gateway.stores.run(SESSIONS.cached.delete(tenant=tenant, id=id)))
    expect_outcome(httpx2.get(path, headers=named), 401, "expired")
    again = log_in(idle_gateway).json()["session"]
    assert httpx2.get(path, headers={"authorization": f"Session {again}"}).json()["pagwId"] == pagw_id


def test_session_keeps_the_tokens_scopes_but_not_the_token(idle_gateway: Gateway) -> None:
    narrow = idle_gateway.headers(scope="system/Subscription.read")
    session = httpx2.post(f"{idle_gateway.url}/sessions", headers=narrow).json()["session"]
    named = {"authorization": f"Session {session}"}
    expect_outcome(httpx2.get(f"{idle_gateway.url}/pas/requests", headers=named), 403, "forbidden")
    assert httpx2.get(f"{idle_gateway.url}/fhir/Subscription", headers=named).status_code == 200
    tenant, _, id = session.partition(".")
    kept = idle_gateway.run(idle_gateway.stores.run(SESSIONS.cached.get(tenant=tenant, id=id)))
    assert isinstance(kept, SessionRecord)
    assert kept.value.model_dump(exclude={"ends_at"}) == {
        "subject": "acme-client",
        "client_id": "acme-client",
        "scopes": ("system/Subscription.read",),
    }


@pytest.mark.proves("PG-55")
def test_session_expires_no_later_than_its_token(idle_gateway: Gateway) -> None:
    session = log_in(idle_gateway).json()["session"]
    named = {"authorization": f"Session {session}"}
    path = f"{idle_gateway.url}/pas/requests"
    assert httpx2.get(path, headers=named).status_code == 200
    tenant, _, id = session.partition(".")
    place = {"tenant": tenant, "id": id}
    kept = idle_gateway.run(idle_gateway.stores.run(SESSIONS.cached.get(**place)))
    assert kept is not None and 0 < kept.value.ends_at - idle_gateway.stores.clock.now() <= 3600
    # As if the token had expired meanwhile.
    over = kept.value.model_copy(update={"ends_at": idle_gateway.stores.clock.now() - 1})
    idle_gateway.run(
        idle_gateway.stores.run(SESSIONS.cached.put(kept.model_copy(update={"value": over}), **place))
    )
    expect_outcome(httpx2.get(path, headers=named), 401, "expired")
    assert idle_gateway.run(idle_gateway.stores.run(SESSIONS.cached.get(**place))) is None


def test_refuses_a_session_for_an_expired_token_or_one_without_a_read_scope(idle_gateway: Gateway) -> None:
    # Calls accept a token for some seconds after its expiry, because clocks differ.
    ended = idle_gateway.headers(lifetime_s=-10)
    assert httpx2.get(f"{idle_gateway.url}/pas/requests", headers=ended).status_code == 200
    expect_outcome(httpx2.post(f"{idle_gateway.url}/sessions", headers=ended), 401, "expired")
    writer = idle_gateway.headers(scope="system/Claim.write")
    expect_outcome(httpx2.post(f"{idle_gateway.url}/sessions", headers=writer), 403, "forbidden")


def test_session_start_and_end_are_audited(idle_gateway: Gateway) -> None:
    known = len(idle_gateway.read_audit("SESSION"))
    session = log_in(idle_gateway).json()["session"]
    named = {"authorization": f"Session {session}"}
    assert httpx2.delete(f"{idle_gateway.url}/sessions/current", headers=named).status_code == 204
    expect_outcome(httpx2.delete(f"{idle_gateway.url}/sessions/current", headers=named), 401, "expired")
    events = idle_gateway.rows(
        "SELECT event_subtype, actor_id FROM pagw.audit_log WHERE event_type = 'SESSION' ORDER BY id OFFSET "
        "%s",
        known,
    )
    assert events == [("begun", "acme-client"), ("ended", "acme-client")]
    assert not idle_gateway.rows("SELECT 1 FROM pagw.audit_log WHERE details::text LIKE %s", f"%{session}%")


@pytest.mark.parametrize("session", ["acme", "acme.", "acme.short", "ACME.x", ".x", "acme." + "x" * 43])
def test_refuses_an_unknown_session(idle_gateway: Gateway, session: str) -> None:
    named = {"authorization": f"Session {session}"}
    expect_outcome(httpx2.get(f"{idle_gateway.url}/pas/requests", headers=named), 401)
