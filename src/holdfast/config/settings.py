"""Settings: `holdfast.toml`, each value overridable by a `HOLDFAST_…` variable.

The program that starts something (the command line, or yours) reads them once and passes them down as a
value; nothing below reads a file or the environment. An unknown name is refused with the nearest known one,
so that a misspelt setting is never silently ignored.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.core.clock import SYSTEM_CLOCK, Clock, RunClock
from holdfast.core.errors import SettingsError
from holdfast.core.http.hosts import ANY_HOST, parse_authority, parse_origin
from holdfast.core.limits import MAX_PORT

__all__ = [
    "Settings",
    "get_variable_name",
    "list_setting_names",
]

FILE_NAME = "holdfast.toml"
FILE_VARIABLE = "HOLDFAST_SETTINGS"
VARIABLE_PREFIX = "HOLDFAST_"

SQLITE_SCHEME = "sqlite:"
IN_MEMORY = "sqlite::memory:"
TABLES_FILE_NAME = "tables.db"
DEFAULT_TABLES = SQLITE_SCHEME + "data/" + TABLES_FILE_NAME
# On AWS, `dynamodb://us-east-1`; a compatible cluster by its address, `dynamodb+http://127.0.0.1:8000`.
DYNAMODB_SCHEME = "dynamodb://"
DYNAMODB_ENDPOINT_SCHEMES = ("dynamodb+http://", "dynamodb+https://")
# Queues: a file, or SQS in a region or at an endpoint. Objects: a folder, memory, or S3.
QUEUES_FILE_NAME = "queues.db"
DEFAULT_QUEUES = SQLITE_SCHEME + "data/" + QUEUES_FILE_NAME
SQS_SCHEMES = ("sqs://", "sqs+http://", "sqs+https://")
FILE_SCHEME = "file:"
MEMORY_OBJECTS = "memory:"
OBJECTS_FOLDER_NAME = "objects"
DEFAULT_OBJECTS = FILE_SCHEME + "data/" + OBJECTS_FOLDER_NAME
S3_SCHEMES = ("s3://", "s3+http://", "s3+https://")
# The cache: this process's own, or Redis, in the clear or over TLS.
MEMORY_CACHE = "memory:"
REDIS_SCHEMES = ("redis://", "rediss://")
REDIS_ADDRESS = re.compile(
    r"rediss?://([^/:@\s]+@)?([^/:@?#\s]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d{1,5}))?(/\d{1,2})?"
)
# SQL: an embedded PostgreSQL in a folder, a temporary one, or a server by its URL.
EMBEDDED_SQL_SCHEME = "postgres:"
TEMPORARY_SQL = "postgres::temporary:"
SQL_FOLDER_NAME = "postgres"
DEFAULT_SQL = EMBEDDED_SQL_SCHEME + "data/" + SQL_FOLDER_NAME
SQL_SCHEMES = ("postgresql://", "postgres://")
SQL_DATABASE_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,62}")
# Secrets: variables of the environment, a file, or Secrets Manager. Keys: a file, or KMS.
ENVIRONMENT_SECRETS = "env:"
# A secret's name follows, so such a variable is never a misspelt setting.
SECRET_VARIABLE_PREFIX = "HOLDFAST_SECRET_"
SECRETS_MANAGER_SCHEMES = ("secretsmanager://", "secretsmanager+http://", "secretsmanager+https://")
DEFAULT_KEYS = FILE_SCHEME + "data/keys.json"
KMS_SCHEMES = ("kms://", "kms+http://", "kms+https://")
# The writer of prose: rules, or a language model, over https unless it is on this machine.
OFF, ON = "off", "on"
RULES = "rules"
CLAUDE = "claude"
SAFE_URL = re.compile(r"https://[^/\s]+|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?(/|$)")
# The address of the MCP server: clients name it to their issuer as the resource of a token.
MCP_URL = re.compile(r"(https://[^/?#\s@]+|http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?)(/[^?#\s]*)?")
ENVIRONMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{0,32}")
# `prod`, `production` and `live`, alone or in front of more, such as `prod-eu`.
PRODUCTION_NAME = re.compile(r"(prod|production|live)([_.-].*)?", re.IGNORECASE)

# Longer than any balancer or Prometheus waits.
MAX_HEALTH_TIMEOUT_MS = 60_000

# A variable at least this similar to a setting's is taken for a misspelling of it.
MIN_MISSPELLING_RATIO = 0.85

Network: TypeAlias = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Settings:
    """One field per setting; `docs/reference/settings.md` describes each."""

    tables: str = DEFAULT_TABLES
    queues: str = DEFAULT_QUEUES
    objects: str = DEFAULT_OBJECTS
    sql: str = DEFAULT_SQL
    sql_reader: str = ""
    sql_secret: str = ""
    sql_database: str = "holdfast"
    sql_pool_min: int = 2
    sql_pool_max: int = 10
    sql_statement_timeout_ms: int = 15_000
    cache: str = MEMORY_CACHE
    cache_secret: str = ""
    secrets: str = ENVIRONMENT_SECRETS
    keys: str = DEFAULT_KEYS
    run_clock: str = ""
    environment: str = ""
    serve_host: str = "127.0.0.1"
    serve_port: int = 8000
    credentials: str = ""
    api_host: str = "127.0.0.1"
    api_port: int = 8080
    api_token: str = ""
    allowed_hosts: str = ""
    allowed_origins: str = ""
    mcp_port: int = 8200
    mcp_url: str = ""
    mcp_token_issuer: str = ""
    mcp_token_keys: str = ""
    console_host: str = "127.0.0.1"
    console_port: int = 8300
    console_url: str = ""
    console_users: str = ""
    console_oidc_issuer: str = ""
    console_oidc_client_id: str = ""
    console_oidc_secret: str = ""
    console_oidc_roles: str = "roles"
    console_targets: str = ""
    console_edits: str = OFF
    console_prices: str = ""
    console_trusted_proxies: str = ""
    health_timeout_ms: int = 2_000
    reasoner: str = RULES
    reasoner_model: str = "claude-haiku-5-5"
    reasoner_url: str = "https://api.anthropic.com"
    reasoner_secret: str = "anthropic"
    reasoner_prices: str = ""
    # Relative paths start here: the folder of the file, or else the working directory.
    base: Path = Path()

    @classmethod
    def load(cls, file: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
        """Load from `file`, else HOLDFAST_SETTINGS, else ./holdfast.toml if it exists; then apply the
        environment.

        Raise `SettingsError` for a misspelt name, a value of the wrong type, or an invalid value.
        """
        environ = os.environ if environ is None else environ
        _refuse_misspelt_variables(environ)
        found = _find_file(file, environ)
        values = {} if found is None else _read_file(found)
        values |= _read_environment(environ)
        settings = cls(**values, base=Path() if found is None else found.parent)
        settings._check()
        return settings

    def in_folder(self, data: Path) -> Settings:
        """Return settings whose stores are all embedded ones in this folder, under their default names."""
        keys = (
            f"{FILE_SCHEME}{data / self.keys_file.name}" if self.keys.startswith(FILE_SCHEME) else self.keys
        )
        return replace(
            self,
            base=Path(),
            tables=f"{SQLITE_SCHEME}{data / TABLES_FILE_NAME}",
            queues=f"{SQLITE_SCHEME}{data / QUEUES_FILE_NAME}",
            objects=f"{FILE_SCHEME}{data / OBJECTS_FOLDER_NAME}",
            sql=f"{EMBEDDED_SQL_SCHEME}{data / SQL_FOLDER_NAME}",
            sql_reader="",
            keys=keys,
            run_clock=str(self.base / self.run_clock) if self.run_clock else "",
        )

    @property
    def has_memory_tables(self) -> bool:
        """True if the tables are embedded and end with the process."""
        return self.tables == IN_MEMORY

    @property
    def has_embedded_tables(self) -> bool:
        """True for tables in a file or in memory."""
        return self.tables.startswith(SQLITE_SCHEME)

    @property
    def tables_endpoint(self) -> str | None:
        """Address of a DynamoDB-compatible cluster, or None."""
        is_endpoint = self.tables.startswith(DYNAMODB_ENDPOINT_SCHEMES)
        return self.tables.removeprefix("dynamodb+") if is_endpoint else None

    @property
    def tables_region(self) -> str | None:
        """AWS region, or None for the SDK's own setting."""
        return self.tables.removeprefix(DYNAMODB_SCHEME) or None if self.tables_endpoint is None else None

    @property
    def tables_file(self) -> Path:
        """File of the embedded tables engine."""
        return self.base / self.tables.removeprefix(SQLITE_SCHEME)

    @property
    def tables_directory(self) -> Path:
        """Folder of the embedded tables engine's file."""
        return self.tables_file.parent

    @property
    def has_embedded_queues(self) -> bool:
        """True for queues in a file or in memory."""
        return self.queues.startswith(SQLITE_SCHEME)

    @property
    def queues_file(self) -> Path:
        """File of the embedded queues engine."""
        return self.base / self.queues.removeprefix(SQLITE_SCHEME)

    @property
    def objects_directory(self) -> Path:
        return self.base / self.objects.removeprefix(FILE_SCHEME)

    @property
    def has_embedded_sql(self) -> bool:
        return self.sql.startswith(EMBEDDED_SQL_SCHEME) and not self.sql.startswith(SQL_SCHEMES)

    @property
    def sql_directory(self) -> Path | None:
        """Folder of the embedded PostgreSQL; None for a temporary one."""
        return None if self.sql == TEMPORARY_SQL else self.base / self.sql.removeprefix(EMBEDDED_SQL_SCHEME)

    @property
    def secrets_file(self) -> Path:
        return self.base / self.secrets.removeprefix(FILE_SCHEME)

    @property
    def keys_file(self) -> Path:
        return self.base / self.keys.removeprefix(FILE_SCHEME)

    @property
    def clock(self) -> Clock:
        """The machine's clock, or the run clock if the settings name its file."""
        return RunClock(self.base / self.run_clock) if self.run_clock else SYSTEM_CLOCK

    @property
    def mcp_keys_source(self) -> str | Path:
        """The address or file of the keys that sign agents' tokens."""
        return self.mcp_token_keys if "://" in self.mcp_token_keys else self.base / self.mcp_token_keys

    @property
    def health_timeout_s(self) -> float:
        """How long a health check or the metrics wait for a store, in seconds."""
        return self.health_timeout_ms / 1000

    @property
    def reasoner_prices_file(self) -> Path | None:
        return self.base / self.reasoner_prices if self.reasoner_prices else None

    @property
    def credentials_file(self) -> Path | None:
        return self.base / self.credentials if self.credentials else None

    @property
    def console_users_file(self) -> Path | None:
        return self.base / self.console_users if self.console_users else None

    @property
    def has_console_demo(self) -> bool:
        """True if the console has neither users nor an identity provider: one click signs in."""
        return not self.console_users and not self.console_oidc_issuer

    @property
    def is_production(self) -> bool:
        """True if the name of the environment says so: hosts then start only with complete settings."""
        return PRODUCTION_NAME.fullmatch(self.environment) is not None

    @property
    def host_names(self) -> tuple[str, ...]:
        """The names in `allowed_hosts`, in lower case."""
        return tuple(each.lower() for each in _split_list(self.allowed_hosts))

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins in `allowed_origins`."""
        return _split_list(self.allowed_origins)

    @property
    def trusted_proxies(self) -> tuple[Network, ...]:
        """The networks in `console_trusted_proxies`. Raise `ValueError` for one that is not a network."""
        return tuple(ip_network(each) for each in _split_list(self.console_trusted_proxies))

    def _check(self) -> None:
        """Raise `SettingsError` for the first setting with an invalid value."""
        schemes = (SQLITE_SCHEME, DYNAMODB_SCHEME, *DYNAMODB_ENDPOINT_SCHEMES)
        if not self.tables.startswith(schemes) or self.tables in (SQLITE_SCHEME, *DYNAMODB_ENDPOINT_SCHEMES):
            raise SettingsError(
                f"Invalid tables={self.tables!r}: expected {DEFAULT_TABLES!r} for a file, "
                f"{IN_MEMORY!r} for tables that end with the process, 'dynamodb://us-east-1' for AWS, or "
                f"'dynamodb+http://127.0.0.1:8000' for a compatible cluster."
            )
        self._check_schemes()
        self._check_sql()
        self._check_cache()
        self._check_reasoner()
        self._check_hosts()
        self._check_mcp()
        self._check_console()
        if not ENVIRONMENT_NAME.fullmatch(self.environment):
            raise SettingsError(
                f"Invalid environment={self.environment!r}: it becomes part of table names. Use up to 32 "
                "letters, digits, '_', '-' and '.'."
            )
        if (
            self.has_embedded_tables
            and not self.has_memory_tables
            and self.tables_file.name != TABLES_FILE_NAME
        ):
            raise SettingsError(
                f"Invalid tables={self.tables!r}: expected a path that ends in {TABLES_FILE_NAME!r}. "
                f"The engine keeps that file, and those next to it, in the folder you name."
            )
        if self.console_edits not in (OFF, ON):
            raise SettingsError(f"Invalid console_edits={self.console_edits!r}: expected {OFF!r} or {ON!r}.")
        for name in ("serve_port", "api_port", "mcp_port", "console_port"):
            if not 0 <= getattr(self, name) <= MAX_PORT:
                raise SettingsError(
                    f"Invalid {name}={getattr(self, name)}: expected a port from 0 to {MAX_PORT}."
                )
        if not 1 <= self.health_timeout_ms <= MAX_HEALTH_TIMEOUT_MS:
            raise SettingsError(
                f"Invalid health_timeout_ms={self.health_timeout_ms}: expected 1 to {MAX_HEALTH_TIMEOUT_MS}."
            )

    def _check_sql(self) -> None:
        """Check the SQL settings. A refused address is not quoted: it may contain a password."""
        if not self.sql.startswith((EMBEDDED_SQL_SCHEME, *SQL_SCHEMES)) or self.sql == EMBEDDED_SQL_SCHEME:
            raise SettingsError(
                f"Invalid sql: expected {DEFAULT_SQL!r} for an embedded PostgreSQL in a folder, "
                f"{TEMPORARY_SQL!r} for one that ends with the process, or "
                "'postgresql://user@host:5432/database'."
            )
        if self.sql_reader and (self.has_embedded_sql or not self.sql_reader.startswith(SQL_SCHEMES)):
            raise SettingsError(
                "Invalid sql_reader: expected the 'postgresql://…' address of a server's read replica. "
                "An embedded PostgreSQL has none."
            )
        if not SQL_DATABASE_NAME.fullmatch(self.sql_database):
            raise SettingsError(
                f"Invalid sql_database={self.sql_database!r}: expected at most 63 lower-case letters, "
                "digits, '_' and '-'."
            )
        if not 0 <= self.sql_pool_min <= self.sql_pool_max or self.sql_pool_max < 1:
            raise SettingsError(
                f"Invalid sql_pool_min={self.sql_pool_min} and sql_pool_max={self.sql_pool_max}: expected "
                "min <= max and a maximum of at least 1."
            )
        if self.sql_statement_timeout_ms < 0:
            raise SettingsError("Invalid sql_statement_timeout_ms: expected 0 (no limit) or more.")

    def _check_cache(self) -> None:
        """Check the cache settings. A refused address is not quoted: it may contain a password."""
        named = REDIS_ADDRESS.fullmatch(self.cache)
        is_redis = named is not None and int(named["port"] or 0) <= MAX_PORT
        if self.cache != MEMORY_CACHE and not is_redis:
            raise SettingsError(
                f"Invalid cache: expected {MEMORY_CACHE!r} for one in each process, 'redis://host:6379/0', "
                "or 'rediss://host:6379/0' over TLS, with the name of the password's secret in cache_secret."
            )
        if "@" in self.cache and not self.cache_secret:
            raise SettingsError(
                "cache names a user without a password: set cache_secret to the secret that has it."
            )

    def _check_hosts(self) -> None:
        """Check that the allowed hosts are names, and the allowed origins schemes with names."""
        for name in self.host_names:
            authority = parse_authority(name)
            if name != ANY_HOST and (authority is None or authority != (name, None)):
                raise SettingsError(
                    f"Invalid allowed_hosts={self.allowed_hosts!r}: {name!r} is not a host name. Separate "
                    "names such as api.example.com with commas, without scheme and port; "
                    f"{ANY_HOST!r} allows all."
                )
        for origin in self.origins:
            if parse_origin(origin) is None:
                raise SettingsError(
                    f"Invalid allowed_origins={self.allowed_origins!r}: {origin!r} is not an origin. "
                    "Separate origins such as https://app.example.com with commas."
                )

    def _check_reasoner(self) -> None:
        """Check that the reasoner is known and its address keeps the key encrypted, or is on this machine."""
        if self.reasoner not in (RULES, CLAUDE):
            raise SettingsError(
                f"Invalid reasoner={self.reasoner!r}: expected {RULES!r}, or {CLAUDE!r} for Anthropic's "
                "models."
            )
        if not SAFE_URL.match(self.reasoner_url):
            raise SettingsError(
                f"Invalid reasoner_url={self.reasoner_url!r}: it would send the key unencrypted. Use an "
                "https address, or an http one of this machine."
            )

    def _check_mcp(self) -> None:
        """Check that agents' tokens have an issuer, keys and an audience, or none of them."""
        if self.mcp_url and not MCP_URL.fullmatch(self.mcp_url):
            raise SettingsError(
                f"Invalid mcp_url={self.mcp_url!r}: expected the https address of the MCP server, such as "
                "'https://agents.example.org/mcp', or an http one of this machine."
            )
        needed = {"mcp_url": self.mcp_url, "mcp_token_keys": self.mcp_token_keys}
        missing = [name for name, value in needed.items() if not value]
        if self.mcp_token_issuer and missing:
            raise SettingsError(
                f"mcp_token_issuer needs {' and '.join(missing)}: the address of the MCP server is the "
                "audience of its tokens, and the keys verify them."
            )
        if self.mcp_token_keys and not self.mcp_token_issuer:
            raise SettingsError("mcp_token_keys needs mcp_token_issuer: set the issuer of the tokens.")

    def _check_console(self) -> None:
        """Check the console's address, and that an identity provider has all that it needs, or nothing."""
        if self.console_url and parse_origin(self.console_url) is None:
            raise SettingsError(
                f"Invalid console_url={self.console_url!r}: expected the address under which browsers open "
                "the console, without a path, such as 'https://console.example.org'."
            )
        try:
            _ = self.trusted_proxies
        except ValueError as error:
            raise SettingsError(
                f"Invalid console_trusted_proxies={self.console_trusted_proxies!r}: {error}. Separate "
                "addresses or networks with commas, such as '10.0.0.5, 10.1.0.0/16'."
            ) from error
        needed = {"console_oidc_client_id": self.console_oidc_client_id, "console_url": self.console_url}
        missing = [name for name, value in needed.items() if not value]
        if self.console_oidc_issuer and missing:
            raise SettingsError(
                f"console_oidc_issuer needs {' and '.join(missing)}: the provider knows the console by its "
                "client id, and sends browsers back to its address."
            )
        for name in ("console_oidc_client_id", "console_oidc_secret"):
            if getattr(self, name) and not self.console_oidc_issuer:
                raise SettingsError(f"{name} needs console_oidc_issuer: set the identity provider.")

    def _check_schemes(self) -> None:
        """Check that each store is named by the scheme of a known engine."""
        for name, schemes, examples in (
            (
                "queues",
                (SQLITE_SCHEME, *SQS_SCHEMES),
                f"{DEFAULT_QUEUES!r} for a file, {IN_MEMORY!r}, 'sqs://us-east-1'",
            ),
            (
                "objects",
                (FILE_SCHEME, MEMORY_OBJECTS, *S3_SCHEMES),
                f"{DEFAULT_OBJECTS!r} for a folder, {MEMORY_OBJECTS!r}, 's3://us-east-1'",
            ),
            (
                "secrets",
                (ENVIRONMENT_SECRETS, FILE_SCHEME, *SECRETS_MANAGER_SCHEMES),
                f"{ENVIRONMENT_SECRETS!r} for variables, 'file:secrets.toml', 'secretsmanager://us-east-1'",
            ),
            (
                "keys",
                (FILE_SCHEME, *KMS_SCHEMES),
                f"{DEFAULT_KEYS!r} for a file, 'kms://us-east-1/alias/holdfast'",
            ),
        ):
            value: str = getattr(self, name)
            if not value.startswith(schemes) or value in (SQLITE_SCHEME, FILE_SCHEME):
                raise SettingsError(f"Invalid {name}={value!r}: expected {examples}.")


def list_setting_names() -> tuple[str, ...]:
    """Return every name that `holdfast.toml` may hold."""
    return tuple(field.name for field in fields(Settings) if field.name != "base")


def get_variable_name(name: str) -> str:
    """Return the environment variable that overrides a setting."""
    return VARIABLE_PREFIX + name.upper()


def _split_list(text: str) -> tuple[str, ...]:
    """Return the parts of a text with commas, without empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _refuse_misspelt_variables(environ: Mapping[str, str]) -> None:
    """Raise `SettingsError` for a HOLDFAST_ variable that is unknown but similar to a known one."""
    known = {get_variable_name(name) for name in list_setting_names()} | {FILE_VARIABLE}
    for variable in environ:
        if not variable.startswith(VARIABLE_PREFIX) or variable in known:
            continue
        if variable.startswith(SECRET_VARIABLE_PREFIX):
            continue
        if near := difflib.get_close_matches(variable, known, n=1, cutoff=MIN_MISSPELLING_RATIO):
            raise SettingsError(f"{variable} is not a setting: did you mean {near[0]}?")


def _find_file(file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """Return the settings file to read, or None if there is none."""
    if file is None and (named := environ.get(FILE_VARIABLE)):
        file = Path(named)
    if file is not None:
        return file
    return default if (default := Path(FILE_NAME)).is_file() else None


def _read_file(file: Path) -> dict[str, Any]:
    """Return the values in the file. Raise `SettingsError` if it is unreadable, or a name or a type is
    wrong.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The settings file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {file} is not TOML: {error}.") from error
    for name, value in values.items():
        _check_known(name, file)
        _check_type(name, value, file)
    return values


def _check_known(name: str, file: Path) -> None:
    """Raise `SettingsError`, which names the nearest setting, for an unknown name."""
    if name in list_setting_names():
        return
    near = difflib.get_close_matches(name, list_setting_names(), n=1, cutoff=0)
    raise SettingsError(f"{name} in {file} is not a setting: did you mean {near[0]}?")


def _check_type(name: str, value: object, file: Path) -> None:
    """Raise `SettingsError` for a value of another type than the default."""
    wanted = type(_get_default(name))
    if type(value) is not wanted:
        what = "a whole number" if wanted is int else "a text in quotes"
        raise SettingsError(f"{name} in {file} must be {what}.")


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that HOLDFAST_ variables set, converted."""
    return {
        name: _convert(name, environ[get_variable_name(name)])
        for name in list_setting_names()
        if get_variable_name(name) in environ
    }


def _convert(name: str, text: str) -> str | int:
    """Convert a variable's text to the type of the setting. Raise `SettingsError` for an invalid number."""
    if isinstance(_get_default(name), str):
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"{get_variable_name(name)} must be a whole number, not {text!r}.") from None


def _get_default(name: str) -> object:
    return next(field.default for field in fields(Settings) if field.name == name)
