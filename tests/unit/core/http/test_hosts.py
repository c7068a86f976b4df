"""`HostPolicy`: the Host and Origin headers that a server answers, and those that foreign pages send."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.http.hosts import (
    ANY_HOST,
    Authority,
    HostPolicy,
    RequestHead,
    parse_authority,
    parse_origin,
)
from tests.cases import all_cases

LOCAL = HostPolicy(allowed_hosts=("api.example.com",), allowed_origins=("https://app.example.com",))
PUBLIC = HostPolicy(is_local=False, allowed_hosts=("api.example.com",))


def build_head(
    host: str | None = "localhost:8000",
    *,
    origin: str | None = None,
    method: str = "POST",
    target: str = "/",
    version: str = "1.1",
    is_websocket: bool = False,
) -> RequestHead:
    """Build a head. Several values of a header are separated by `|`."""
    hosts, origins = (
        [] if given is None else [each.encode("latin-1") for each in given.split("|")]
        for given in (host, origin)
    )
    return RequestHead(method, target.encode("latin-1"), version, hosts, origins, is_websocket)


def get_status(policy: HostPolicy, head: RequestHead) -> int:
    """Return the status of the refusal, or 200. Ask twice: the second time, the host may be cached."""
    statuses = {200 if found is None else found.status for found in (policy.check(head), policy.check(head))}
    (status,) = statuses
    return status


# --- host names ---------------------------------------------------------------------------------------------

OWN_NAMES = [
    "localhost",
    "localhost:8000",
    "LocalHost.:8000",
    "tables.localhost:8000",
    "127.0.0.1",
    "127.0.0.1:8000",
    "127.8.9.10:1",
    "[::1]",
    "[::1]:8000",
    "api.example.com",
    "API.Example.com.:443",
]
FOREIGN_NAMES = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "notlocalhost",
    "127.0.0.1.evil.example",
    "xapi.example.com",
    "example.com",
    "0.0.0.0",
    "[::]",
    "2130706433",
    "127.1",
]
ADDRESSES = ["10.0.0.1:8000", "192.168.1.7", "[2001:db8::2]:8000"]
MALFORMED = [
    "",
    " ",
    ":8000",
    ".",
    "a..b",
    ".localhost",
    "localhost:99999",
    "localhost:http",
    "localhost:80:80",
    "127.0.0.1@evil.example",
    "localhost:80@evil.example",
    "user@localhost",
    "localhost/evil.example",
    "evil.example#.localhost:",
    "http://localhost",
    "[evil.example]",
    "[localhost]",
    "::1",
    "[::1",
    "[::1%lo]",
    "[fe80::1%25eth0]:8000",
    "[::1]x",
    "local host",
    "localhost,evil.example",
    "l\xf6calhost",
    "localhost\\evil",
]


@all_cases("host", OWN_NAMES)
def test_answers_for_names_that_nobody_else_can_own_and_configured_ones(host: str) -> None:
    assert get_status(LOCAL, build_head(host)) == get_status(PUBLIC, build_head(host)) == 200


@all_cases("host", FOREIGN_NAMES)
def test_refuses_other_names(host: str) -> None:
    assert get_status(LOCAL, build_head(host)) == get_status(PUBLIC, build_head(host)) == 403


@all_cases("host", ADDRESSES)
def test_addresses_are_answered_only_where_other_machines_connect(host: str) -> None:
    """No page can take over an address, so a server that other machines reach answers for it."""
    assert get_status(LOCAL, build_head(host)) == 403
    assert get_status(PUBLIC, build_head(host)) == 200


@all_cases("host", [*MALFORMED, "localhost|localhost", "localhost|evil.example"])
def test_malformed_and_duplicate_hosts_are_400(host: str) -> None:
    for policy in (LOCAL, PUBLIC, HostPolicy(allowed_hosts=(ANY_HOST,))):
        assert get_status(policy, build_head(host)) == 400


def test_missing_host_is_400_except_in_http_1_0() -> None:
    assert get_status(LOCAL, build_head(None)) == 400
    assert get_status(LOCAL, build_head(None, version="1.0")) == 200
    assert get_status(LOCAL, build_head(None, version="1.0", origin="http://evil.example")) == 400


@all_cases(
    ("target", "status"),
    [
        ("/a", 200),
        ("*", 200),
        ("http://localhost:8000/a", 200),
        ("HTTP://LOCALHOST:8000/a", 200),
        ("http://evil.example/a", 400),
        ("http://localhost:8000@evil.example/", 400),
        ("http:///a", 400),
    ],
)
def test_absolute_target_must_name_the_host(target: str, status: int) -> None:
    assert get_status(LOCAL, build_head(target=target)) == status


def test_any_host_answers_for_every_name() -> None:
    assert get_status(HostPolicy(allowed_hosts=(ANY_HOST,)), build_head("evil.example")) == 200


def test_owned_hosts_are_matched_whole() -> None:
    policy = HostPolicy(owned_hosts=re.compile(r"dynamodb\.[a-z0-9-]+\.amazonaws\.com"))
    assert get_status(policy, build_head("dynamodb.us-east-1.amazonaws.com:443")) == 200
    for host in ("dynamodb.evil.example.amazonaws.com", "dynamodb.us-east-1.amazonaws.com.evil.example"):
        assert get_status(policy, build_head(host)) == 403


def test_accepts_more_names_than_it_caches() -> None:
    policy = HostPolicy()
    for number in range(200):
        assert get_status(policy, build_head(f"{number}.localhost")) == 200


def test_message_says_which_name_was_refused_and_what_to_set() -> None:
    refusal = HostPolicy(remedy=", or do this").check(build_head("evil.example"))
    assert refusal is not None
    assert "evil.example" in refusal.message
    assert refusal.message.endswith("setting allowed_hosts (HOLDFAST_ALLOWED_HOSTS), or do this.")


# --- origins ------------------------------------------------------------------------------------------------

FOREIGN_ORIGINS = [
    "http://evil.example",
    "https://evil.example:8000",
    "http://localhost:3000",
    "http://127.0.0.1:8000",
    "http://app.example.com",
    "https://app.example.com:8443",
    "https://app.example.com.evil.example",
    "null",
    "",
    "file://",
    "chrome-extension://abc",
    "http://user@localhost:8000",
    "http://localhost:8000/path",
    "http://localhost:8000|http://localhost:8000",
    "http://localhost:8000 http://evil.example",
]


@all_cases("origin", FOREIGN_ORIGINS)
def test_foreign_pages_cannot_change_anything_or_open_a_websocket(origin: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE", "BREW"):
        assert get_status(LOCAL, build_head(origin=origin, method=method)) == 403
    assert get_status(LOCAL, build_head(origin=origin, method="GET", is_websocket=True)) == 403


@all_cases("origin", FOREIGN_ORIGINS)
def test_foreign_pages_may_send_what_changes_nothing(origin: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS"):
        assert get_status(LOCAL, build_head(origin=origin, method=method)) == 200


@all_cases(
    ("host", "origin"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("api.example.com", "https://api.example.com"),
        ("api.example.com:443", "https://api.example.com"),
        ("localhost:8000", "https://app.example.com"),
        ("localhost:8000", "https://APP.example.com:443"),
    ],
)
def test_pages_of_the_server_and_allowed_ones_may_do_everything(host: str, origin: str) -> None:
    assert get_status(LOCAL, build_head(host, origin=origin)) == 200
    assert get_status(LOCAL, build_head(host, origin=origin, method="GET", is_websocket=True)) == 200


def test_requests_without_an_origin_are_not_from_a_page_that_changes_something() -> None:
    for method in ("POST", "DELETE"):
        assert get_status(LOCAL, build_head(method=method)) == 200


def test_policy_for_requests_with_a_secret_checks_no_origin() -> None:
    assert get_status(HostPolicy(checks_origin=False), build_head(origin="http://evil.example")) == 200


# --- laws ---------------------------------------------------------------------------------------------------


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_give_an_answer(host: bytes, origin: bytes, target: bytes) -> None:
    refusal = LOCAL.check(RequestHead("POST", target, "1.1", [host], [origin]))
    assert refusal is None or refusal.status in {400, 403}


@given(st.text(alphabet="abcxyz0189.-_[]:%@/#?\\ ", max_size=20))
def test_a_name_is_parsed_the_same_in_any_case_and_with_a_dot(text: str) -> None:
    parsed = parse_authority(text)
    assert parse_authority(text.upper()) == parsed
    if parsed is not None:
        assert parse_authority(parsed.name) == Authority(parsed.name, None)


@pytest.mark.parametrize("text", ["https://a.example", "http://a.example:8080", "https://[::1]"])
def test_origin_has_a_port(text: str) -> None:
    origin = parse_origin(text)
    assert origin is not None
    assert parse_origin(f"{origin.scheme}://{origin.name}:{origin.port}") == origin
