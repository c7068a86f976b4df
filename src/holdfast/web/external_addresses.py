"""Validation of an external service's address: HTTPS unless it is local, and no credentials in the URL."""

from __future__ import annotations

from urllib.parse import urlsplit

from holdfast.core.http.addresses import is_loopback

__all__ = [
    "is_local",
    "validate_address",
]


def validate_address(value: str) -> str:
    """Return the address without a trailing slash. Raise `ValueError` with the reason, for use in a
    validator.
    """
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("is not a URL: expected https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a user name or password: store them as credentials")
    if parts.query or parts.fragment:
        raise ValueError("contains a query or a fragment: remove it")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError("must be HTTPS: plain HTTP is not encrypted")
    return value.rstrip("/")


def is_local(address: str) -> bool:
    """Return whether the host of the URL is this machine."""
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False
