"""Check for whom a server answers: the Host and Origin headers of each request, on every server of Holdfast.

A browser on this machine can reach a server that other machines cannot, so the address alone protects
nothing. Two ways lead there from a foreign page, and each leaves a trace in a header:

- The page points its own name to this machine after it was loaded (DNS rebinding). The browser takes the
  server for the page's origin, and the Host header carries the page's name. `HostPolicy` answers only for
  names that nobody else can own, and for configured ones.
- The page sends a request across origins, which it may do without asking if it cannot read the response. The
  Origin header carries the page's origin. `HostPolicy` refuses it for methods that change something, and for
  WebSockets, which have no other protection.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from holdfast.core.http.addresses import is_loopback
from holdfast.core.limits import MAX_PORT

__all__ = [
    "ANY_HOST",
    "Authority",
    "HostPolicy",
    "Origin",
    "Refusal",
    "RequestHead",
    "is_local_host",
    "parse_authority",
    "parse_origin",
]

ANY_HOST: Final = "*"
"""The allowed host name that stands for every name, for a server behind a proxy that checks it."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_AUTHORITY: Final = re.compile(
    r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_-]+(\.[a-z0-9_-]+)*)\.?(:(?P<port>[0-9]{0,5}))?"
)
_ORIGIN: Final = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#@]+)")
_ABSOLUTE_TARGET: Final = re.compile(rb"[a-z][a-z0-9+.-]*://(?P<authority>[^/?#]*)", re.IGNORECASE)
_MAX_CACHED_HOSTS: Final = 64

_BAD_REQUEST: Final = 400
_FORBIDDEN: Final = 403


class Authority(NamedTuple):
    """A host name in lower case, without a dot at its end, and its port; None if it names none."""

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page: `https`, `app.example.com`, 443."""

    scheme: str
    name: str
    port: int


class RequestHead(NamedTuple):
    """What the check reads of a request: all values of each header, as they were sent."""

    method: str
    target: bytes
    http_version: str
    hosts: Sequence[bytes]
    origins: Sequence[bytes]
    is_websocket: bool = False


class Refusal(NamedTuple):
    """Why a request is refused: the status of the response, and a sentence for the caller."""

    status: int
    message: str


def parse_authority(text: str) -> Authority | None:
    """Return the name and port of a Host header, or None if it is not a host with or without a port.

    An IPv6 address has brackets; one with a zone, a name with a user and a path are invalid.
    """
    matched = _AUTHORITY.fullmatch(text.strip().lower())
    if matched is None or int(matched["port"] or 0) > MAX_PORT:
        return None
    name = matched["name"]
    if name.startswith("[") and _parse_ip(name) is None:
        return None
    return Authority(name, int(matched["port"]) if matched["port"] else None)


def parse_origin(text: str) -> Origin | None:
    """Return the origin of an Origin header, or None if it is not that of a web page, such as `null`."""
    matched = _ORIGIN.fullmatch(text.strip().lower())
    authority = None if matched is None else parse_authority(matched["authority"])
    if matched is None or authority is None:
        return None
    scheme = matched["scheme"]
    return Origin(scheme, authority.name, authority.port or _DEFAULT_PORTS[scheme])


def is_local_host(host: bytes) -> bool:
    """Return whether a Host header names this machine: `localhost`, `*.localhost` or a loopback address."""
    authority = parse_authority(host.decode("latin-1"))
    return authority is not None and _is_local_name(authority.name)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The hosts and origins that one server answers.

    Every server answers names that nobody else can own: `localhost`, `*.localhost` and loopback addresses. If
    other machines can reach it (`is_local` is False), it also answers addresses: a page cannot take one over.
    `allowed_hosts` adds names, `owned_hosts` a pattern of names, and `allowed_origins` origins of pages.
    `remedy` completes the message to a caller that used another name.
    """

    is_local: bool = True
    allowed_hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()
    owned_hosts: re.Pattern[str] | None = None
    # False if no page can act for a user: every request proves that its sender has a secret.
    checks_origin: bool = True
    remedy: str = ""
    _origins: frozenset[Origin | None] = field(init=False, repr=False)
    # Clients repeat themselves: parsing each Host header again would take longer than the rest of the check.
    _accepted: set[bytes] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        origins = frozenset(parse_origin(each) for each in self.allowed_origins) - {None}
        object.__setattr__(self, "_origins", origins)

    def is_known(self, host: bytes) -> bool:
        """Return whether this Host header was accepted before. Without an Origin, that is the whole check."""
        return host in self._accepted

    def check(self, head: RequestHead) -> Refusal | None:
        """Return why the request is refused, or None."""
        if len(head.hosts) != 1:
            # HTTP/1.0 has no Host header, and no browser sends HTTP/1.0.
            is_old = not head.hosts and head.http_version == "1.0"
            return None if is_old and not head.origins else _build_host_error(head)
        host = head.hosts[0]
        if host not in self._accepted and (refusal := self._check_host(host)) is not None:
            return refusal
        if not head.target.startswith(b"/") and not _is_target_of(head.target, host):
            return Refusal(_BAD_REQUEST, "The request target names another host than the Host header.")
        if head.origins and self.checks_origin and (head.is_websocket or head.method not in SAFE_METHODS):
            return self._check_origin(head, host)
        return None

    def _check_host(self, host: bytes) -> Refusal | None:
        authority = parse_authority(host.decode("latin-1"))
        if authority is None:
            return Refusal(_BAD_REQUEST, "Invalid Host header: expected a host name, with or without a port.")
        if not self.answers(authority.name):
            return Refusal(
                _FORBIDDEN,
                f"The host name {authority.name} is not one of this server's, so the request may come from a "
                f"web page that took the name over. Use {self._describe_hosts()}, or add the name to the "
                f"setting allowed_hosts (HOLDFAST_ALLOWED_HOSTS){self.remedy}.",
            )
        if len(self._accepted) >= _MAX_CACHED_HOSTS:
            self._accepted.clear()
        self._accepted.add(host)
        return None

    def answers(self, name: str) -> bool:
        """Return whether the server answers for this host name, which is in lower case."""
        if ANY_HOST in self.allowed_hosts or name in self.allowed_hosts:
            return True
        if _is_local_name(name):
            return True
        if self.owned_hosts is not None and self.owned_hosts.fullmatch(name):
            return True
        address = _parse_ip(name)
        return not self.is_local and address is not None and not address.is_unspecified

    def _check_origin(self, head: RequestHead, host: bytes) -> Refusal | None:
        """Return the refusal of a page's request, unless the page is the server's own or an allowed one."""
        origin = parse_origin(head.origins[0].decode("latin-1")) if len(head.origins) == 1 else None
        if origin is not None and (origin in self._origins or _is_same_origin(origin, host)):
            return None
        shown = "null" if origin is None else head.origins[0].decode("latin-1").strip()
        return Refusal(
            _FORBIDDEN,
            f"A web page of the origin {shown} sent this request, and this server does not trust it. Call "
            "it from its own origin, or add the origin to the setting allowed_origins "
            "(HOLDFAST_ALLOWED_ORIGINS).",
        )

    def _describe_hosts(self) -> str:
        return "localhost or 127.0.0.1" if self.is_local else "an address of this server"


def _is_local_name(name: str) -> bool:
    return is_loopback(name) or name.endswith(".localhost")


def _build_host_error(head: RequestHead) -> Refusal:
    wrong = "Missing Host header: send one." if not head.hosts else "Several Host headers: send one."
    return Refusal(_BAD_REQUEST, wrong)


def _is_target_of(target: bytes, host: bytes) -> bool:
    """Return whether a request target without a leading slash names the host, or no host at all."""
    matched = _ABSOLUTE_TARGET.match(target)
    if matched is None:
        return True
    named = parse_authority(matched["authority"].decode("latin-1"))
    return named is not None and named == parse_authority(host.decode("latin-1"))


def _is_same_origin(origin: Origin, host: bytes) -> bool:
    """Return whether the Host header names the page's own server. A proxy may have ended TLS, so that the
    scheme of the request is unknown.
    """
    authority = parse_authority(host.decode("latin-1"))
    if authority is None:
        return False
    return (authority.name, authority.port or _DEFAULT_PORTS[origin.scheme]) == (origin.name, origin.port)


def _parse_ip(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address, or None for a name. An IPv6 address must have brackets."""
    try:
        if name.startswith("["):
            return ipaddress.IPv6Address(name[1:-1])
        return ipaddress.IPv4Address(name)
    except ValueError:
        return None
