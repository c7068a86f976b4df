"""Make the clients of the AWS SDK: their credentials, region, endpoint and timeouts are decided here alone.

Credentials and region come from the SDK's ordinary chain: variables, profile, web identity, container,
instance. A server on this machine usually asks for neither, and then needs none. The SDK's exceptions are not
caught here: each adapter maps them at its edge.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.core.distribution import format_install_command
from holdfast.core.errors import SettingsError
from holdfast.core.http.addresses import is_loopback

# For an endpoint outside AWS, the region is only a word in the signature.
ENDPOINT_REGION: Final = "us-east-1"
# For a server on this machine that needs no credentials: the SDK sends no request without any.
PLACEHOLDER_CREDENTIALS: Final = ("holdfast", "holdfast")
# These ask a server outside this machine, which is slow if there is none.
REMOTE_PROVIDERS: Final = ("iam-role", "container-role")


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Timeouts for connecting, and for each wait for bytes of a response."""

    connect_s: float = 3.0
    read_s: float = 10.0


class ServiceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a service: an AWS region, or an endpoint. `rest` is the part after it, such as a key's
    alias.
    """

    region: str | None = None
    endpoint: str | None = None
    rest: str = ""

    @classmethod
    def parse(cls, address: str) -> ServiceAddress:
        """Parse `sqs://us-east-1`, `kms://us-east-1/alias/x`, or `sqs+http://127.0.0.1:5000`."""
        scheme, _, where = address.partition("://")
        if "+" in scheme:
            host, _, rest = where.partition("/")
            return cls(endpoint=f"{scheme.partition('+')[2]}://{host}", rest=rest)
        region, _, rest = where.partition("/")
        return cls(region=region or None, rest=rest)

    @property
    def display_name(self) -> str:
        """The endpoint or the region, for messages."""
        return self.endpoint or f"AWS ({self.region or 'default region'})"


def require_sdk(feature: str) -> None:
    """Raise `SettingsError` if the AWS SDK, which `feature` needs, is not installed."""
    if importlib.util.find_spec("botocore") is None:
        raise SettingsError(
            f"{feature} needs boto3, which this installation does not have: {format_install_command('aws')}"
        )


def make_clients(
    services: tuple[str, ...], address: ServiceAddress, timeouts: Timeouts, connections: int
) -> list[Any]:
    """Return one client per service; any thread may use them. The clients do not retry.

    Raise `SettingsError` for an invalid endpoint, the SDK's `NoRegionError` or `NoCredentialsError` if one is
    missing. A server on this machine gets placeholder credentials if there are none.
    """
    from botocore.config import Config  # type: ignore[import, unused-ignore]
    from botocore.exceptions import NoCredentialsError, NoRegionError  # type: ignore[import, unused-ignore]
    from botocore.session import Session  # type: ignore[import, unused-ignore]

    check_endpoint(address.endpoint)
    session = Session()
    local = address.endpoint is not None and is_loopback(urlsplit(address.endpoint).hostname or "")
    region = address.region or session.get_config_variable("region") or (address.endpoint and ENDPOINT_REGION)
    if not region:
        raise NoRegionError
    if not _has_credentials(session, local):
        if not local:
            raise NoCredentialsError
        session.set_credentials(*PLACEHOLDER_CREDENTIALS)
    config = Config(
        connect_timeout=timeouts.connect_s,
        read_timeout=timeouts.read_s,
        max_pool_connections=connections,
        tcp_keepalive=True,
        user_agent_extra="holdfast",
        # We retry ourselves. In this mode a response with a wrong checksum is an error nevertheless.
        retries={"mode": "legacy", "total_max_attempts": 1},
    )
    return [
        session.create_client(service, region_name=region, endpoint_url=address.endpoint, config=config)
        for service in services
    ]


def check_endpoint(endpoint: str | None) -> None:
    """Raise `SettingsError` unless the endpoint is None or an http or https URL with a host."""
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"Invalid endpoint {endpoint!r}: expected one with its scheme, such as http://127.0.0.1:8000"
        )


def _has_credentials(session: Any, local: bool) -> bool:
    """Return whether the SDK finds credentials. For a local endpoint the slow remote providers are not
    asked.
    """
    if local:
        chain = session.get_component("credential_provider")
        for provider in REMOTE_PROVIDERS:
            chain.remove(provider)
    return session.get_credentials() is not None
