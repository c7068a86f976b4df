"""Settings, tokens and request bodies for the PAGW benchmarks, on real files and an own PostgreSQL.

Every process of a benchmark gets the same settings, and so shares the files and the server in one folder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.harness.http_client import build_post
from holdfast.config.settings import Settings
from holdfast.stores.sql.postgres import EmbeddedServer
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from holdfast_demo.pagw.sandbox import PAYER_VARIABLE, build_variables
from holdfast_demo.pagw.sandbox.issuer import AUDIENCE, ISSUER, IssuerSandbox

TENANT: Final = "acme"
ENVIRONMENT: Final = "bench"
STORES: Final = {
    "tables": "sqlite:tables.db",
    "queues": "sqlite:queues.db",
    "objects": "file:objects",
    "keys": "file:keys.json",
    "sql": "postgres:postgres",
}
JWKS_FILE: Final = "jwks.json"
TOKEN_LIFETIME_S: Final = 24 * 3600.0
NO_PAYER_URL: Final = "http://127.0.0.1:9"


def build_settings(folder: Path, **changes: Any) -> Settings:
    """Return the settings of this process: the stores in `folder`, with these changes."""
    return Settings(**{**STORES, "environment": ENVIRONMENT, "base": folder, **changes})


def build_environment(folder: Path, payer: str = NO_PAYER_URL, **changes: str) -> dict[str, str]:
    """Return these settings, and those of external services, as variables for child processes."""
    stores = {f"HOLDFAST_{name.upper()}": value for name, value in STORES.items()}
    return {
        **stores,
        "HOLDFAST_ENVIRONMENT": ENVIRONMENT,
        **build_variables({"payer": payer}, "http://127.0.0.1:1"),
        PAYER_VARIABLE: payer,
        "PAGW_JWKS_URL": str(folder / JWKS_FILE),
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        # The rate limit is not measured.
        "PAGW_RATE_LIMIT": "1000000",
        **changes,
    }


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set the variables in this process while the block runs."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def issue_client_token(folder: Path) -> str:
    """Return a token of the tenant, and write the issuer's keys to the file that the gateway verifies it
    with.
    """
    issuer = IssuerSandbox(folder=folder)
    (folder / JWKS_FILE).write_bytes(msgspec.json.encode(issuer.jwks))
    return issuer.mint_token(TENANT, lifetime_s=TOKEN_LIFETIME_S)


def get_conninfo(folder: Path, database: str = "holdfast") -> str:
    """Return the connection string of the PostgreSQL that runs in this folder."""
    running = EmbeddedServer(folder / "postgres").find_running()
    assert running is not None
    return f"host={running.socket_folder} port={running.port} user=postgres dbname={database}"


def build_bundle(number: int) -> bytes:
    """Return a FHIR request bundle of about 8 KB as JSON, unique to the number."""
    return msgspec.json.encode(build_request_bundle(reference=f"BENCH-{number}"))


def build_submissions(token: str, numbers: Iterator[int], count: int) -> list[bytes]:
    """Return the next `count` HTTP requests as bytes, each with its own bundle and idempotency key."""
    return [
        build_post(
            "/pas/requests",
            build_bundle(number),
            authorization=f"Bearer {token}",
            x_idempotency_key=f"bench-{number}",
        )
        for number in itertools.islice(numbers, count)
    ]
