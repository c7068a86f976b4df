"""Sessions: a token shown once, an id in its place on reads; losing the cache is a new log-in and nothing else."""

from __future__ import annotations

import httpx2
import pytest

from holdfast.guarantees import SessionRecord
from pagw.model.sessions import SESSIONS
from tests.acceptance.pagw.gateway import Gateway, outcome_of


def logged_in(gateway: Gateway, tenant: str = "acme") -> httpx2.Response:
    answer = httpx2.post(f"{gateway.url}/sessions", headers=gateway.headers(tenant))
    assert answer.status_code == 201, answer.text
    return answer


@pytest.mark.proves("PG-55")
def test_a_session_stands_for_a_token_on_reads_until_it_ends(still: Gateway) -> None:
    pagw_id = still.accepted()
    answer = logged_in(still)
    session, path = answer.json()["session"], f"{still.url}/pas/requests/{pagw_id}"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert still.headers()["authorization"].split()[1] not in answer.text

    named, kept = {"authorization": f"Session {session}"}, {"pagw_session": session}
    assert httpx2.get(path, headers=named).json()["pagwId"] == pagw_id
    assert httpx2.get(path, cookies=kept).status_code == 200
    outcome_of(httpx2.post(f"{path}/cancel", headers=named), 401, "login")
    outcome_of(httpx2.post(f"{path}/cancel", cookies=kept), 401, "login")
    # A header decides alone: a token that is refused is not helped by a cookie.
    forged = still.headers(flaw="forged")
    outcome_of(httpx2.get(path, headers=forged, cookies=kept), 401, "login")

    current = f"{still.url}/sessions/current"
    outcome_of(httpx2.delete(current), 401, "login")
    assert httpx2.delete(current, headers=named).status_code == 204
    refused = httpx2.get(path, headers=named)
    outcome_of(refused, 401, "expired")
    assert refused.headers["www-authenticate"] == "Bearer"


@pytest.mark.proves("PG-55")
@pytest.mark.proves("PG-42")
def test_a_lost_cache_is_a_new_log_in_and_nothing_else(still: Gateway) -> None:
    pagw_id = still.accepted()
    session = logged_in(still).json()["session"]
    path, named = f"{still.url}/pas/requests/{pagw_id}", {"authorization": f"Session {session}"}
    assert httpx2.get(path, headers=named).status_code == 200

    tenant, _, id = session.partition(".")
    still.run(still.stores.run(SESSIONS.cached.delete(tenant=tenant, id=id)))
    outcome_of(httpx2.get(path, headers=named), 401, "expired")
    again = logged_in(still).json()["session"]
    assert httpx2.get(path, headers={"authorization": f"Session {again}"}).json()["pagwId"] == pagw_id


def test_a_session_says_what_its_token_allowed_and_does_not_hold_the_token(still: Gateway) -> None:
    narrow = still.headers(scope="system/Subscription.read")
    session = httpx2.post(f"{still.url}/sessions", headers=narrow).json()["session"]
    named = {"authorization": f"Session {session}"}
    outcome_of(httpx2.get(f"{still.url}/pas/requests", headers=named), 403, "forbidden")
    assert httpx2.get(f"{still.url}/fhir/Subscription", headers=named).status_code == 200
    tenant, _, id = session.partition(".")
    kept = still.run(still.stores.run(SESSIONS.cached.get(tenant=tenant, id=id)))
    assert isinstance(kept, SessionRecord)
    assert kept.value.model_dump(exclude={"ends_at"}) == {
        "subject": "acme-client",
        "client_id": "acme-client",
        "scopes": ("system/Subscription.read",),
    }


@pytest.mark.proves("PG-55")
def test_a_session_ends_with_its_token_at_the_latest(still: Gateway) -> None:
    session = logged_in(still).json()["session"]
    named = {"authorization": f"Session {session}"}
    path = f"{still.url}/pas/requests"
    assert httpx2.get(path, headers=named).status_code == 200
    tenant, _, id = session.partition(".")
    place = {"tenant": tenant, "id": id}
    kept = still.run(still.stores.run(SESSIONS.cached.get(**place)))
    assert kept is not None and 0 < kept.value.ends_at - still.stores.clock.now() <= 3600
    # As if the token had ended meanwhile.
    over = kept.value.model_copy(update={"ends_at": still.stores.clock.now() - 1})
    still.run(still.stores.run(SESSIONS.cached.put(kept.model_copy(update={"value": over}), **place)))
    outcome_of(httpx2.get(path, headers=named), 401, "expired")
    assert still.run(still.stores.run(SESSIONS.cached.get(**place))) is None


def test_no_session_is_begun_with_a_token_that_has_ended_or_reads_nothing(still: Gateway) -> None:
    # On calls, a token is taken for some seconds after its end, for clocks that differ.
    ended = still.headers(lifetime_s=-10)
    assert httpx2.get(f"{still.url}/pas/requests", headers=ended).status_code == 200
    outcome_of(httpx2.post(f"{still.url}/sessions", headers=ended), 401, "expired")
    writer = still.headers(scope="system/Claim.write")
    outcome_of(httpx2.post(f"{still.url}/sessions", headers=writer), 403, "forbidden")


def test_who_begins_and_who_ends_a_session_is_audited(still: Gateway) -> None:
    known = len(still.audit("SESSION"))
    session = logged_in(still).json()["session"]
    named = {"authorization": f"Session {session}"}
    assert httpx2.delete(f"{still.url}/sessions/current", headers=named).status_code == 204
    outcome_of(httpx2.delete(f"{still.url}/sessions/current", headers=named), 401, "expired")
    events = still.rows(
        "SELECT event_subtype, actor_id FROM pagw.audit_log WHERE event_type = 'SESSION' ORDER BY id OFFSET %s",
        known,
    )
    assert events == [("begun", "acme-client"), ("ended", "acme-client")]
    assert not still.rows("SELECT 1 FROM pagw.audit_log WHERE details::text LIKE %s", f"%{session}%")


@pytest.mark.parametrize("session", ["acme", "acme.", "acme.short", "ACME.x", ".x", "acme." + "x" * 43])
def test_a_session_that_nobody_began_is_refused(still: Gateway, session: str) -> None:
    named = {"authorization": f"Session {session}"}
    outcome_of(httpx2.get(f"{still.url}/pas/requests", headers=named), 401)
