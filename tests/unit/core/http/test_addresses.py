"""Which hosts are this machine."""

from __future__ import annotations

import pytest

from holdfast.core.http.addresses import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]"])
def test_loopback_names_and_addresses_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.0.2.1", "127.example.com", "localhost.example"])
def test_other_hosts_are_not(host: str) -> None:
    assert not is_loopback(host)
