"""The SDK's clients: where credentials, region, endpoint and time-outs are decided. The only module that makes them.

Credentials and region come from the SDK's ordinary chain: variables, profile, web identity, container, instance.
A server on this machine usually asks for neither, and then needs none.
"""

from __future__ import annotations

import importlib.util
import ipaddress
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import SettingsError
from holdfast.stores.tables.dynamodb.failures import failure_of

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


class Clients(NamedTuple):
    """One client per service; any thread may use them."""

    dynamodb: Any
    streams: Any
    endpoint: str

    def close(self) -> None:
        self.dynamodb.close()
        self.streams.close()


def made_clients(region: str | None, endpoint: str | None, timeouts: Timeouts, connections: int) -> Clients:
    if importlib.util.find_spec("botocore") is None:
        raise SettingsError(
            "The DynamoDB engine needs boto3, which this installation does not have: pip install '.[aws]' in the clone "
            "of Holdfast, or make setup"
        )
    _check_endpoint(endpoint)
    shown = endpoint or f"AWS ({region or 'default region'})"
    try:
        return _made(region, endpoint, timeouts, connections)
    except Exception as cause:
        raise failure_of(cause, "opening", shown).error from cause


def _made(region: str | None, endpoint: str | None, timeouts: Timeouts, connections: int) -> Clients:
    from botocore.config import Config  # type: ignore[import, unused-ignore]
    from botocore.exceptions import NoCredentialsError, NoRegionError  # type: ignore[import, unused-ignore]
    from botocore.session import Session  # type: ignore[import, unused-ignore]

    session = Session()
    local = endpoint is not None and _is_loopback(urlsplit(endpoint).hostname or "")
    region = region or session.get_config_variable("region") or (endpoint and REGION_OF_AN_ENDPOINT)
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
    dynamodb, streams = (
        session.create_client(service, region_name=region, endpoint_url=endpoint, config=config)
        for service in ("dynamodb", "dynamodbstreams")
    )
    return Clients(dynamodb, streams, endpoint or dynamodb.meta.endpoint_url)


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


def _check_endpoint(endpoint: str | None) -> None:
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(
            f"{endpoint!r} is no endpoint: give it with its scheme, such as http://127.0.0.1:8000"
        )
