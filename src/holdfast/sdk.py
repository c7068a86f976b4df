"""Clients of the AWS SDK: where credentials, region, endpoint and time-outs are decided. The only module that makes them.

Credentials and region come from the SDK's ordinary chain: variables, profile, web identity, container, instance.
A server on this machine usually asks for neither, and then needs none. What the SDK raises is raised as it is: each
adapter maps it at its edge.
"""

from __future__ import annotations

import importlib.util
import ipaddress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import SettingsError

# For an endpoint that is not AWS's the region is only a word in the signature.
REGION_OF_AN_ENDPOINT: Final = "us-east-1"
# For a server on this machine that asks for no credentials, which the SDK would not send a request without.
ANY_CREDENTIALS: Final = ("holdfast", "holdfast")
# These ask a server outside this machine, which is slow where there is none.
REMOTE_PROVIDERS: Final = ("iam-role", "container-role")


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """For making a connection, and for each wait for bytes of the answer."""

    connect_s: float = 3.0
    read_s: float = 10.0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a service is: in a region of AWS, or at an endpoint. `rest` is what the address says beyond that."""

    region: str | None = None
    endpoint: str | None = None
    rest: str = ""

    @classmethod
    def of(cls, address: str) -> Place:
        """`sqs://us-east-1`, `kms://us-east-1/alias/x`, or `sqs+http://127.0.0.1:5000`."""
        scheme, _, where = address.partition("://")
        if "+" in scheme:
            host, _, rest = where.partition("/")
            return cls(endpoint=f"{scheme.partition('+')[2]}://{host}", rest=rest)
        region, _, rest = where.partition("/")
        return cls(region=region or None, rest=rest)

    @property
    def shown(self) -> str:
        return self.endpoint or f"AWS ({self.region or 'default region'})"


def require_sdk(what: str) -> None:
    if importlib.util.find_spec("botocore") is None:
        raise SettingsError(
            f"{what} needs boto3, which this installation does not have: pip install '.[aws]' in the clone of "
            "Holdfast, or make setup"
        )


def make_clients(services: tuple[str, ...], place: Place, timeouts: Timeouts, connections: int) -> list[Any]:
    """One client per service; any thread may use them. Raises what the SDK raises."""
    from botocore.config import Config  # type: ignore[import, unused-ignore]
    from botocore.exceptions import NoCredentialsError, NoRegionError  # type: ignore[import, unused-ignore]
    from botocore.session import Session  # type: ignore[import, unused-ignore]

    check_endpoint(place.endpoint)
    session = Session()
    local = place.endpoint is not None and _is_loopback(urlsplit(place.endpoint).hostname or "")
    region = (
        place.region or session.get_config_variable("region") or (place.endpoint and REGION_OF_AN_ENDPOINT)
    )
    if not region:
        raise NoRegionError
    if not _has_credentials(session, local):
        if not local:
            raise NoCredentialsError
        session.set_credentials(*ANY_CREDENTIALS)
    config = Config(
        connect_timeout=timeouts.connect_s,
        read_timeout=timeouts.read_s,
        max_pool_connections=connections,
        tcp_keepalive=True,
        user_agent_extra="holdfast",
        # Retries are ours. In this mode an answer with a wrong checksum is an error even so.
        retries={"mode": "legacy", "total_max_attempts": 1},
    )
    return [
        session.create_client(service, region_name=region, endpoint_url=place.endpoint, config=config)
        for service in services
    ]


def check_endpoint(endpoint: str | None) -> None:
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{endpoint!r} is no endpoint: give it with its scheme, such as http://127.0.0.1:8000"
        )


def _has_credentials(session: Any, local: bool) -> bool:
    if local:
        chain = session.get_component("credential_provider")
        for provider in REMOTE_PROVIDERS:
            chain.remove(provider)
    return session.get_credentials() is not None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
