"""The address of a client behind proxies: believed only from those that the settings trust."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from starlette.requests import Request

from holdfast.config.settings import Settings
from holdfast.console.model import MAX_ATTEMPTS_PER_NAME
from holdfast.console.sign_in.client_address import find_client_address
from holdfast.core.errors import SettingsError
from tests.unit.console.consoles import PASSWORD, open_console

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("2001:db8::/32"))


def build_request(peer: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    return Request({"type": "http", "client": (peer, 1), "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("10.0.0.5", [], "10.0.0.5"),
        ("10.0.0.5", ["192.0.2.1"], "192.0.2.1"),
        ("10.0.0.5", ["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
        ("10.0.0.5", ["198.51.100.7", "192.0.2.1, 10.0.0.6"], "192.0.2.1"),
        ("10.0.0.5", ["10.0.0.7, 10.0.0.6"], "10.0.0.7"),
        ("10.0.0.5", ["192.0.2.1:4711"], "192.0.2.1"),
        ("10.0.0.5", ["[2001:DB9::1]:4711"], "2001:db9::1"),
        ("2001:db8::5", ["2001:db9::1"], "2001:db9::1"),
        ("::ffff:10.0.0.5", ["::ffff:192.0.2.1"], "192.0.2.1"),
        ("10.0.0.5", ["192.0.2.1, nonsense"], "10.0.0.5"),
        ("10.0.0.5", ["nonsense, 10.0.0.6"], "10.0.0.6"),
        ("10.0.0.5", [""], "10.0.0.5"),
    ],
)
def test_takes_the_right_most_address_that_is_no_trusted_proxy(
    peer: str, forwarded: list[str], expected: str
) -> None:
    assert find_client_address(build_request(peer, *forwarded), TRUSTED) == expected


@pytest.mark.parametrize("peer", ["192.0.2.1", "11.0.0.1", "2001:db9::1"])
def test_ignores_the_header_of_a_caller_that_is_not_trusted(peer: str) -> None:
    assert find_client_address(build_request(peer, "198.51.100.7"), TRUSTED) == peer
    assert find_client_address(build_request("10.0.0.5", "198.51.100.7"), ()) == "10.0.0.5"


async def test_attempts_through_a_trusted_proxy_are_counted_for_each_client(tmp_path: Path) -> None:
    users = {"ada": ["viewer"]}
    async with open_console(tmp_path, users=users, console_trusted_proxies="10.0.0.5") as site:
        proxy = await site.open_browser("10.0.0.5")
        proxy.client.headers["x-forwarded-for"] = "192.0.2.1"
        for number in range(MAX_ATTEMPTS_PER_NAME):
            await proxy.sign_in(f"eve{number}", "wrong", 403)
        proxy.client.headers["x-forwarded-for"] = "192.0.2.2"
        await proxy.sign_in("ada", PASSWORD)

        addresses = [each.parsed_payload["address"] for each in await site.read_audit()]
        assert addresses == ["192.0.2.1"] * MAX_ATTEMPTS_PER_NAME + ["192.0.2.2"]


@pytest.mark.parametrize("value", ["proxy.example", "10.0.0.5/8", "10.0.0.0/64", "*"])
def test_refuses_what_is_not_a_network(value: str) -> None:
    with pytest.raises(SettingsError, match="Invalid console_trusted_proxies"):
        Settings(console_trusted_proxies=value)._check()


def test_reads_addresses_and_networks() -> None:
    settings = Settings(console_trusted_proxies="10.0.0.5, 10.1.0.0/16,2001:db8::/32")

    assert [str(each) for each in settings.trusted_proxies] == ["10.0.0.5/32", "10.1.0.0/16", "2001:db8::/32"]
