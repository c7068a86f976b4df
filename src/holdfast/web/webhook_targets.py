"""Webhook targets: check the addresses that clients register, and deliver calls to them.

A service that lets strangers name an address lends them its place in the network. So an address is checked
twice: its form when it is registered (`check_target`), and the addresses that its name resolves to each time
it is called, by a client (`open_target_client`) that connects to the very address that was checked. A name
that resolves to something else a moment later (DNS rebinding) leads nowhere; TLS and the `Host` header are
those of the name. Redirects are not followed, no proxy is used, and only the head of the response is read,
within a bounded time.

    target = check_target(url, allow_private=False)              # TargetRefused
    async with open_target_client(allow_private=False) as client:
        outcome = await deliver(client, target, body, {"content-type": "application/json"})

A delivery ends `delivered` (2xx), `gone` (410: for good), or `retry`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import TargetRefused
from holdfast.core.http.headers import parse_retry_after
from holdfast.core.limits import MAX_PORT

with explain_missing(__name__, "http"):
    import httpx2

__all__ = [
    "Address",
    "DeliveryAttempt",
    "Outcome",
    "PinnedTransport",
    "Resolver",
    "Target",
    "check_target",
    "deliver",
    "open_target_client",
]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
"""A resolved IP address."""
# Resolves a host name to addresses.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host name to its addresses."""
Outcome = Literal["delivered", "gone", "retry"]
"""How a delivery ended."""

MAX_URL_CHARS: Final = 2048
PORTS: Final = {"https": 443, "http": 80}
MAX_CONNECT_S: Final = 5.0
# For the whole delivery: the client's own timeouts apply to each read, and a read may return one byte.
MAX_DELIVERY_S: Final = 10.0
MAX_ADDRESSES: Final = 4
SUCCESSES: Final = range(200, 300)
REDIRECTS: Final = range(300, 400)
GONE: Final = 410
# After IANA's registries of special-purpose addresses, and not by `ipaddress`, whose view differs between
# versions of Python. Private: this machine, its networks, and those that the customers of a provider share
# (RFC 6598).
PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128",
            "fc00::/7",
        ),
    )
)  # fmt: skip
# Useful to intruders only: link-local (169.254.169.254 serves a cloud machine's credentials) and the other
# metadata addresses of clouds; multicast, reserved, documentation and test networks; and IPv6 addresses that
# stand for an IPv4 address.
FORBIDDEN: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
            "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16",
            "3fff::/20",
            "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128",
        ),
    )
)  # fmt: skip
# A slow name server blocks a thread for as long as the system waits: one of these, not one of the event
# loop's.
RESOLVER_THREADS: Final = 16
# The only IPv6 addresses that are assigned to hosts; mapped and translated addresses lie outside.
UNICAST: Final = ipaddress.IPv6Network("2000::/3")
LOCAL_NAMES: Final = ("localhost", "local", "internal", "lan", "home.arpa", "intranet")
_NAME: Final = re.compile(
    r"(?=.{1,253}$)([a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
)
# 127.1, 0x7f.0.0.1 and 2130706433 are addresses to some parsers and names to others.
_NUMERIC: Final = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)")


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook address with a valid form. The addresses of its host are checked at each call."""

    url: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """The result of a call. `detail` is for the operator and quotes nothing that was sent or received."""

    outcome: Outcome
    status: int | None
    detail: str
    retry_after_s: float | None = None


def check_target(url: str, *, allow_private: bool, allowed_hosts: Sequence[str] = ()) -> Target:
    """Return the target of a URL. Raise `TargetRefused` for one that is never called.

    `allow_private` allows private networks and this machine, by http and on any port: for tests, demos and
    the operator's own services. If `allowed_hosts` is not empty, only these are allowed: `hooks.example.org`,
    `*.example.org`, or `hooks.example.org:8443` for another port. It does not allow private addresses.
    """
    parsed = _parse_url(url)
    if parsed.scheme not in (PORTS if allow_private else ("https",)):
        raise TargetRefused("it is not https")
    host = parsed.raw_host.decode("ascii").lower().removesuffix(".")
    port = PORTS[parsed.scheme] if parsed.port is None else parsed.port
    _refuse_host(host, allow_private=allow_private)
    if allowed_hosts and not any(_is_allowed(host, port, each) for each in allowed_hosts):
        raise TargetRefused("its host is not in the list of allowed hosts")
    if not 0 < port <= MAX_PORT:
        raise TargetRefused("its port is out of range")
    is_usual = port == PORTS[parsed.scheme] or f"{host}:{port}" in allowed_hosts
    if not is_usual and not allow_private:
        raise TargetRefused("its port is not 443")
    return Target(str(parsed), host, port)


def _parse_url(url: str) -> httpx2.URL:
    """Parse a URL. Raise `TargetRefused` if it is too long or malformed, or has credentials or a fragment."""
    if len(url) > MAX_URL_CHARS:
        raise TargetRefused(f"it is longer than {MAX_URL_CHARS} characters")
    if not url.isprintable() or any(each in url for each in " \\\t"):
        raise TargetRefused("it has characters that a URL must not contain")
    try:
        # The HTTP client's own parser: two parsers of one address could disagree about its host.
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, UnicodeError):
        raise TargetRefused("it is not a URL") from None
    if parsed.userinfo or "@" in re.split(r"[/?#]", url.partition("//")[2])[0]:
        raise TargetRefused("it has a user name or a password")
    if parsed.fragment:
        raise TargetRefused("it has a fragment (#…), which is never sent")
    return parsed


def _refuse_host(host: str, *, allow_private: bool) -> None:
    """Raise `TargetRefused` for an invalid or private host name, or a forbidden literal address.

    The addresses of a name are checked when it is called.
    """
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        if not _NAME.fullmatch(host) or _NUMERIC.fullmatch(host):
            raise TargetRefused("its host is neither a name nor an address") from None
        if not allow_private and (
            "." not in host or host.endswith(tuple(f".{each}" for each in LOCAL_NAMES))
        ):
            raise TargetRefused("its host is a name of a private network") from None
    else:
        _refuse_address(literal, allow_private=allow_private)


def _is_allowed(host: str, port: int, allowed: str) -> bool:
    """Return whether the host and port match an entry of the allowed hosts."""
    name, _, own_port = allowed.partition(":")
    if own_port and own_port != str(port):
        return False
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def _refuse_address(address: Address, *, allow_private: bool) -> None:
    """Raise `TargetRefused` for a forbidden address, and for a private one unless `allow_private`."""
    is_private = any(address in network for network in PRIVATE)
    is_strange = isinstance(address, ipaddress.IPv6Address) and (
        address.scope_id is not None or not (is_private or address in UNICAST)
    )
    if is_strange or any(address in network for network in FORBIDDEN):
        raise TargetRefused("its host is at a link-local, multicast, reserved or translated address")
    if is_private and not allow_private:
        raise TargetRefused("its host is at a private address")


# --- the client ---------------------------------------------------------------------------------------------


def open_target_client(
    *, allow_private: bool, resolve: Resolver | None = None, tls: ssl.SSLContext | None = None
) -> httpx2.AsyncClient:
    """Return a client for many deliveries, sequential or concurrent. `tls` decides which certificates are
    trusted; `resolve` replaces the system's name resolution in tests.
    """
    return httpx2.AsyncClient(
        transport=PinnedTransport(allow_private=allow_private, resolve=resolve, tls=tls),
        timeout=httpx2.Timeout(MAX_DELIVERY_S, connect=MAX_CONNECT_S),
        follow_redirects=False,
        trust_env=False,
    )


class PinnedTransport(httpx2.AsyncBaseTransport):
    """A transport that resolves the host, checks its addresses, and connects to one of them with the host's
    name for TLS.

    Connections are not reused: one opened for a host could serve another host at the same address.
    """

    def __init__(
        self, *, allow_private: bool, resolve: Resolver | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._allow_private, self._resolve = allow_private, resolve or self._look_up
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, "holdfast-names")
        limits = httpx2.Limits(max_connections=100, max_keepalive_connections=0)
        self._inner = httpx2.AsyncHTTPTransport(verify=tls or True, trust_env=False, limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Try the checked addresses in turn and return the first response. Raise `TargetRefused` or an httpx
        error.
        """
        host = request.url.raw_host.decode("ascii")
        port = request.url.port or PORTS[request.url.scheme]
        addresses = await self._resolve_checked(host, port)
        for address in addresses[:-1]:
            try:
                return await self._inner.handle_async_request(_pin(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_pin(request, host, addresses[-1]))

    async def _resolve_checked(self, host: str, port: int) -> list[Address]:
        """Resolve the host and check every address: the resolver may decide which one is used. Return at most
        four.
        """
        try:
            addresses = [ipaddress.ip_address(each) for each in await self._resolve(host, port)]
        except (OSError, UnicodeError, ValueError):
            raise httpx2.ConnectError("the host name does not resolve") from None
        if not addresses:
            raise httpx2.ConnectError("the host name does not resolve")
        for each in addresses:
            _refuse_address(each, allow_private=self._allow_private)
        return addresses[:MAX_ADDRESSES]

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        """Resolve the host with the system's resolver, in a thread of its own pool."""
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def aclose(self) -> None:
        """Close the connections and end the resolver threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._inner.aclose()


def _pin(request: httpx2.Request, host: str, address: Address) -> httpx2.Request:
    """Replace the host by the address. The `Host` header is in the request already."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


# --- a delivery ---------------------------------------------------------------------------------------------


async def deliver(
    client: httpx2.AsyncClient,
    target: Target,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float = MAX_DELIVERY_S,
) -> DeliveryAttempt:
    """Make one attempt and return its outcome. It raises neither for the response nor for what the name
    resolves to.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _post(client, target, body, headers)
    except TargetRefused as error:
        return DeliveryAttempt("retry", None, f"not called: {error.reason}")
    except TimeoutError:
        return DeliveryAttempt("retry", None, f"no response within {timeout_s:g} s")
    except (ValueError, TypeError, httpx2.InvalidURL, httpx2.LocalProtocolError):
        # Its text may contain a header's value.
        return DeliveryAttempt("retry", None, "not called: a header has an invalid value")
    except httpx2.HTTPError as error:
        return DeliveryAttempt("retry", None, f"no response ({type(error).__name__})")


async def _post(
    client: httpx2.AsyncClient, target: Target, body: bytes, headers: Mapping[str, str]
) -> DeliveryAttempt:
    """Post the body and return the outcome by the status; the response's body is not read."""
    async with client.stream("POST", target.url, content=body, headers=dict(headers)) as answer:
        # The head is enough; the body is left unread, whatever its length.
        status, pause = answer.status_code, parse_retry_after(answer.headers.get("retry-after", ""))
    if status in SUCCESSES:
        return DeliveryAttempt("delivered", status, "delivered")
    if status == GONE:
        return DeliveryAttempt("gone", status, "permanently gone (410)")
    detail = "a redirect, which is not followed" if status in REDIRECTS else "refused or failed"
    return DeliveryAttempt("retry", status, f"{detail} ({status})", pause)
