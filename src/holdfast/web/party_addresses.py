"""The address of an outside party, as a system keeps it: HTTPS, unless it is of this machine, and without a secret in it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def party_address(value: str) -> str:
    """An origin, perhaps with a path; without the slash at its end. A `ValueError` says what is wrong, for a validator."""
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is no address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("is no address: it begins with https:// and names a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a name or a password: they are kept apart from it")
    if parts.query or parts.fragment:
        raise ValueError("ends with a query or a fragment, which an address of a party has not")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError("must be HTTPS: over plain HTTP anyone on the way could read it")
    return value.rstrip("/")


def is_of_this_machine(address: str) -> bool:
    try:
        return _is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
