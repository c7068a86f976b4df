"""The address of PostgreSQL and its connection parameters, looked up again for each connection.

So a rotated password takes effect, and an embedded server that is gone is started again.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.core.errors import SettingsError
from holdfast.stores.sql.postgres import failures
from holdfast.stores.sql.postgres.connections import Connection
from holdfast.stores.sql.postgres.embedded import USER, EmbeddedServer
from holdfast.stores.sql.postgres.values import teach

CONNECT_S_MAX: Final = 10
# Notice a silently lost peer after some seconds, not after hours.
KEEPALIVE: Final = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# PostgreSQL ends a transaction that stays idle this long, because it holds its locks meanwhile.
IDLE_IN_TRANSACTION_MS_MAX: Final = 60_000
SECURE_MODES: Final = frozenset({"require", "verify-ca", "verify-full"})
MODES: Final = SECURE_MODES | {"disable", "allow", "prefer"}
# Values for parameters whose default libpq cannot express.
_SAYING_NOTHING: Final = {
    "client_encoding": "UTF8",
    "sslcertmode": "allow",
    "min_protocol_version": "3.0",
    "max_protocol_version": "3.0",
}
# Refused elsewhere, required, only a label, or only able to refuse more.
_NOT_OF_THE_ENVIRONMENT: Final = frozenset(
    {"service", "servicefile", "user", "dbname", "application_name", "require_auth"}
)


class Endpoint(Protocol):
    statement_s_max: float | None

    def conninfo(self) -> str:
        """Return the connection string for now. May take a while; raises a `HoldfastError`."""
        ...

    def release(self) -> None: ...


class EmbeddedEndpoint:
    """The embedded server; creates the database if it is missing."""

    def __init__(self, server: EmbeddedServer, database: str, statement_timeout_ms: int) -> None:
        self.server, self._database = server, database
        self._options = _session_options(statement_timeout_ms)
        self.statement_s_max = statement_timeout_ms / 1000 or None
        self._is_used = False

    def conninfo(self) -> str:
        if not self._is_used:
            self.server.use()
            self._make_database()
            self._is_used = True
        return self._to(self._database, self._options)

    def release(self) -> None:
        self.server.release()

    def _to(self, database: str, options: str) -> str:
        server = self.server.ensure_running()
        return _whole(
            {
                "host": server.socket_folder,
                "port": server.port,
                "user": USER,
                "dbname": database,
                "sslmode": "disable",
                "options": options,
                "connect_timeout": CONNECT_S_MAX,
            }
        )

    def _make_database(self) -> None:
        with psycopg.connect(self._to("postgres", ""), autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [self._database])
            if there.fetchone() is not None:
                return
            try:
                connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(_named(self._database)))
            except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                return  # Another process was faster.


Credentials = Callable[[], str]


class ServerEndpoint:
    """A server by its URL. The secret, if one is named, is the password, or JSON with `username` and
    `password`.
    """

    def __init__(self, url: str, credentials: Credentials | None, statement_timeout_ms: int) -> None:
        self._parameters = _checked(url)
        self._credentials = credentials
        self._options = _session_options(statement_timeout_ms)
        self.statement_s_max = statement_timeout_ms / 1000 or None

    def conninfo(self) -> str:
        parameters = {"connect_timeout": CONNECT_S_MAX, **KEEPALIVE, **self._parameters, **self._log_in()}
        if not parameters.get("user"):
            raise SettingsError(
                "The setting `sql` names no user: write postgresql://user@host:5432/database."
            )
        parameters.setdefault("dbname", parameters["user"])
        options = f"{self._options} {parameters.get('options', '')}".strip()
        return _whole(parameters | {"options": options})

    def release(self) -> None:
        """Do nothing: Holdfast does not own the server."""

    def _log_in(self) -> dict[str, str]:
        if self._credentials is None:
            return {}
        text = self._credentials()
        if not text.lstrip().startswith("{"):
            return {"password": text}
        try:
            found = json.loads(text)
            told = {"password": found["password"]} | (
                {"user": found["username"]} if "username" in found else {}
            )
            if not all(isinstance(each, str) for each in told.values()):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise SettingsError(
                'The secret that sql_secret names is JSON, and not {"username": …, "password": …}.'
            ) from None
        return told


def connected(endpoint: Endpoint) -> Connection:
    """Open a connection outside the pool: for long use, and to learn why none is available."""
    try:
        connection = Connection.connect(endpoint.conninfo(), autocommit=True)
    except psycopg.Error as error:
        raise failures.not_connected(error) from error
    teach(connection)
    return connection


def _whole(parameters: Mapping[str, Any]) -> str:
    """Return a connection string with a value for every parameter that libpq would take from an environment
    variable.

    So the setting alone decides.
    """
    if os.environ.get("PGSERVICE"):
        raise SettingsError(
            "The variable PGSERVICE would have a say in where PostgreSQL is: unset it, the setting `sql` "
            "says all."
        )
    return make_conninfo(**{**_what_libpq_assumes(), **parameters})


@cache
def _what_libpq_assumes() -> dict[str, str]:
    """Return libpq's default for each parameter that has an environment variable."""
    known = (option for option in pq.Conninfo.get_defaults() if option.envvar)
    assumed = {option.keyword.decode(): (option.compiled or b"").decode() for option in known}
    return {
        name: _SAYING_NOTHING.get(name, value)
        for name, value in assumed.items()
        if name not in _NOT_OF_THE_ENVIRONMENT
    }


def _named(database: str) -> psycopg.sql.Identifier:
    return psycopg.sql.Identifier(database)


def _session_options(statement_timeout_ms: int) -> str:
    session = {
        "statement_timeout": statement_timeout_ms,
        # Shorter than the statement timeout, so that the two errors can be distinguished.
        "lock_timeout": max(1, statement_timeout_ms * 2 // 3) if statement_timeout_ms else 0,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS_MAX,
        "TimeZone": "UTC",
    }
    return " ".join(f"-c {name}={value}" for name, value in session.items())


def _checked(url: str) -> dict[str, Any]:
    """Parse and check the URL. Require encryption unless the server is on this machine."""
    try:
        parameters: dict[str, Any] = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver's message would contain the URL, which may contain a password.
        raise SettingsError(
            "The setting `sql` is no URL of PostgreSQL: write postgresql://user@host:5432/database."
        ) from None
    if parameters.keys() & {"service", "servicefile"}:
        raise SettingsError(
            "The setting `sql` names a service, whose file would say where the rows go: write the address "
            "itself."
        )
    if parameters.get("sslmode", "prefer") not in MODES:
        raise SettingsError(
            "The setting `sql` has an sslmode that there is none of: write one of "
            f"{', '.join(sorted(MODES))}."
        )
    hosts = [host for key in ("host", "hostaddr") for host in str(parameters.get(key, "")).split(",") if host]
    if not hosts:
        # Otherwise environment variables would choose the server.
        raise SettingsError(
            "The setting `sql` names no host: write postgresql://user@host:5432/database, with ?host=/folder "
            "for a socket."
        )
    if all(_is_on_this_machine(host) for host in hosts):
        return parameters
    if parameters.get("password"):
        raise SettingsError(
            "The setting `sql` has a password in its URL: put that into a secret, and name the secret in "
            "`sql_secret`."
        )
    if parameters.setdefault("sslmode", "require") not in SECURE_MODES:
        raise SettingsError(
            f"sslmode={parameters['sslmode']} would let the rows be read on their way: write require, "
            "verify-ca or "
            "verify-full."
        )
    return parameters


def _is_on_this_machine(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
