"""Endpoints: where PostgreSQL is, and the connection string for it, built again for each connection.

So a rotated password takes effect, and an embedded server that has ended is started again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.errors import SettingsError
from holdfast.core.http.addresses import is_loopback
from holdfast.stores.sql.postgres import errors
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.embedded import USER, EmbeddedServer
from holdfast.stores.sql.postgres.values import register_types

MAX_CONNECT_S: Final = 10
# Notice a silently lost peer after some seconds, not after hours.
KEEPALIVE: Final = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# PostgreSQL ends a transaction that stays idle this long, because it holds its locks meanwhile.
MAX_IDLE_IN_TRANSACTION_MS: Final = 60_000
SECURE_SSL_MODES: Final = frozenset({"require", "verify-ca", "verify-full"})
SSL_MODES: Final = SECURE_SSL_MODES | {"disable", "allow", "prefer"}
# Values for parameters whose default libpq cannot express.
_NEUTRAL_VALUES: Final = {
    "client_encoding": "UTF8",
    "sslcertmode": "allow",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
}
# Refused elsewhere, required, only a label, or only able to refuse more.
_EXCLUDED_PARAMETERS: Final = frozenset(
    {"service", "servicefile", "user", "dbname", "application_name", "require_auth"}
)


class Endpoint(Protocol):
    """A server to connect to. `statement_s_max` is its statement timeout in seconds, None without one."""

    statement_s_max: float | None

    def conninfo(self) -> str:
        """Return the connection string for now. May take a while; raises a `HoldfastError`."""
        ...

    def release(self) -> None:
        """End the use of the server; an embedded one may then stop."""
        ...


class EmbeddedEndpoint:
    """The embedded server. The first connection starts it and creates the database if it is missing."""

    def __init__(self, server: EmbeddedServer, database: str, statement_timeout_ms: int) -> None:
        self.server, self._database = server, database
        self._options = _build_session_options(statement_timeout_ms)
        self.statement_s_max = statement_timeout_ms / 1000 or None
        self._is_used = False

    def conninfo(self) -> str:
        """Return the connection string of the running server.

        Start it, and create the database, at the first call.
        """
        if not self._is_used:
            self.server.use()
            self._make_database()
            self._is_used = True
        return self._build_conninfo(self._database, self._options)

    def release(self) -> None:
        """End this process's use of the server; the last user stops it."""
        self.server.release()

    def _build_conninfo(self, database: str, options: str) -> str:
        """Return the connection string of a database by the server's socket; start the server again if it has
        ended.
        """
        server = self.server.ensure_running()
        return _complete_conninfo(
            {
                "host": server.socket_folder,
                "port": server.port,
                "user": USER,
                "dbname": database,
                "sslmode": "disable",
                "options": options,
                "connect_timeout": MAX_CONNECT_S,
            }
        )

    def _make_database(self) -> None:
        """Create the database unless it exists."""
        with psycopg.connect(self._build_conninfo("postgres", ""), autocommit=True) as connection:
            existing = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self._database])
            if existing.fetchone() is not None:
                return
            try:
                connection.execute(
                    psycopg.sql.SQL("CREATE DATABASE {}").format(_to_identifier(self._database))
                )
            except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                return  # Another process was faster.


Credentials = Callable[[], str]


class ServerEndpoint:
    """A server by its URL.

    The secret, if one is named, is the password, or JSON with `username` and `password`.
    """

    def __init__(self, url: str, credentials: Credentials | None, statement_timeout_ms: int) -> None:
        self._parameters = _parse_url(url)
        self._credentials = credentials
        self._options = _build_session_options(statement_timeout_ms)
        self.statement_s_max = statement_timeout_ms / 1000 or None

    def conninfo(self) -> str:
        """Return the connection string with the current credentials. Raise `SettingsError` without a user."""
        parameters = {
            "connect_timeout": MAX_CONNECT_S,
            **KEEPALIVE,
            **self._parameters,
            **self._load_credentials(),
        }
        if not parameters.get("user"):
            raise SettingsError(
                "Invalid setting `sql`: its URL has no user. Write postgresql://user@host:5432/database."
            )
        parameters.setdefault("dbname", parameters["user"])
        options = f"{self._options} {parameters.get('options', '')}".strip()
        return _complete_conninfo(parameters | {"options": options})

    def release(self) -> None:
        """Do nothing: Holdfast does not own the server."""

    def _load_credentials(self) -> dict[str, str]:
        """Return the password, and the user if the secret is JSON and names one; nothing without a secret."""
        if self._credentials is None:
            return {}
        text = self._credentials()
        if not text.lstrip().startswith("{"):
            return {"password": text}
        try:
            secret = json.loads(text)
            credentials = {"password": secret["password"]} | (
                {"user": secret["username"]} if "username" in secret else {}
            )
            if not all(isinstance(each, str) for each in credentials.values()):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise SettingsError(
                "Invalid secret in the setting `sql_secret`: expected the password, or JSON "
                '{"username": …, "password": …}.'
            ) from None
        return credentials


def open_connection(endpoint: Endpoint) -> Connection:
    """Open a connection outside the pool, with Holdfast's types registered; the caller closes it.

    For long use, and to find out why the pool gives none. Raise the mapped `HoldfastError` if it fails.
    """
    try:
        connection = Connection.connect(endpoint.conninfo(), autocommit=True)
    except psycopg.Error as error:
        raise errors.map_connection_error(error) from error
    register_types(connection)
    return connection


def _complete_conninfo(parameters: Mapping[str, Any]) -> str:
    """Return a connection string with a value for every parameter that libpq would take from an environment
    variable.

    So the setting alone decides.
    """
    if os.environ.get("PGSERVICE"):
        raise SettingsError(
            "The variable PGSERVICE could change which PostgreSQL is used: unset it. Only the setting `sql` "
            "names the server."
        )
    return make_conninfo(**{**_get_libpq_defaults(), **parameters})


@cache
def _get_libpq_defaults() -> dict[str, str]:
    """Return libpq's default for each parameter that has an environment variable."""
    options = (option for option in pq.Conninfo.get_defaults() if option.envvar)
    defaults = {option.keyword.decode(): (option.compiled or b"").decode() for option in options}
    return {
        name: _NEUTRAL_VALUES.get(name, value)
        for name, value in defaults.items()
        if name not in _EXCLUDED_PARAMETERS
    }


def _to_identifier(database: str) -> psycopg.sql.Identifier:
    return psycopg.sql.Identifier(database)


def _build_session_options(statement_timeout_ms: int) -> str:
    """Return libpq's `options`: timeouts for statements, locks and idle transactions, and UTC."""
    session = {
        "statement_timeout": statement_timeout_ms,
        # Shorter than the statement timeout, so that the two errors can be distinguished.
        "lock_timeout": max(1, statement_timeout_ms * 2 // 3) if statement_timeout_ms else 0,
        "idle_in_transaction_session_timeout": MAX_IDLE_IN_TRANSACTION_MS,
        "TimeZone": "UTC",
    }
    return " ".join(f"-c {name}={value}" for name, value in session.items())


def _parse_url(url: str) -> dict[str, Any]:
    """Parse and check the URL. Require encryption unless the server is on this machine."""
    try:
        parameters: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver's message would contain the URL, which may contain a password.
        raise SettingsError(
            "Invalid setting `sql`: expected a PostgreSQL URL, postgresql://user@host:5432/database."
        ) from None
    if parameters.keys() & {"service", "servicefile"}:
        raise SettingsError(
            "Invalid setting `sql`: it names a libpq service, whose file would choose the server. Write the "
            "address itself."
        )
    if parameters.get("sslmode", "prefer") not in SSL_MODES:
        raise SettingsError(
            f"Invalid sslmode in the setting `sql`: expected one of {', '.join(sorted(SSL_MODES))}."
        )
    hosts = [host for key in ("host", "hostaddr") for host in str(parameters.get(key, "")).split(",") if host]
    if not hosts:
        # Otherwise environment variables would choose the server.
        raise SettingsError(
            "Invalid setting `sql`: its URL has no host. Write postgresql://user@host:5432/database, with "
            "?host=/folder for a socket."
        )
    if all(_is_local(host) for host in hosts):
        return parameters
    if parameters.get("password"):
        raise SettingsError(
            "Invalid setting `sql`: its URL has a password. Put the password into a secret, and name the "
            "secret in `sql_secret`."
        )
    if parameters.setdefault("sslmode", "require") not in SECURE_SSL_MODES:
        raise SettingsError(
            f"Invalid sslmode={parameters['sslmode']} in the setting `sql`: rows would cross the network "
            "unencrypted. Write require, verify-ca or verify-full."
        )
    return parameters


def _is_local(host: str) -> bool:
    """Return whether the host is a Unix socket, `localhost` or a loopback address."""
    return host.startswith(("/", "@")) or is_loopback(host)
