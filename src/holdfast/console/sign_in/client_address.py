"""The address of the client behind a request, also behind trusted proxies.

A proxy appends the address of its caller to the header `X-Forwarded-For`. What is to the left of the last
entry of a trusted proxy may be invented by the client, so the address is the right-most one that is not a
trusted proxy. The header of a caller that is not a trusted proxy is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from starlette.requests import Request

__all__ = ["find_client_address"]

FORWARDED_FOR: Final = "x-forwarded-for"

Address: TypeAlias = IPv4Address | IPv6Address


def find_client_address(request: Request, trusted: Sequence[IPv4Network | IPv6Network]) -> str:
    """Return the address of the client: of the caller, or of the client of the trusted proxies."""
    peer = request.client.host if request.client else ""
    hops = [peer, *reversed(",".join(request.headers.getlist(FORWARDED_FOR)).split(","))]
    found = peer
    for hop in hops:
        address = _parse(hop.strip())
        if address is None:
            break
        found = str(address)
        if not any(address in network for network in trusted):
            break
    return found


def _parse(text: str) -> Address | None:
    """Return an address, which some proxies write with a port; None for anything else."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
