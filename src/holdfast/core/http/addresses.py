"""Addresses of this machine: recognise them, and find a free port."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from typing import Final

from holdfast.core.rng import RNG

# Below the ports that the system gives to outgoing connections: none of them takes a port that was found.
_FREE_PORTS: Final = range(20_000, 32_000)


def is_loopback(host: str) -> bool:
    """Return whether the host is `localhost` or a loopback address; an IPv6 address may have brackets."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def find_free_port() -> int:
    """Return a free port, for a server whose address others must know before it listens."""
    while True:
        port = RNG.choice(_FREE_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
