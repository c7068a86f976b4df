"""A gateway to be measured: its settings over real files and a PostgreSQL of its own, and what a client sends it.

Every process of a benchmark is given the same settings, and so shares the files and the server in one folder.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.keep_alive import posted
from holdfast.settings import Settings
from holdfast.stores.sql.postgres import EmbeddedServer
from pagw.sample_bundles import request_bundle
from pagw.sandbox import PAYER_VARIABLE, variables
from pagw.sandbox.issuer import AUDIENCE, ISSUER, IssuerSandbox

TENANT: Final = "acme"
ENVIRONMENT: Final = "bench"
STORES: Final = {
    "tables": "sqlite:tables.db",
    "queues": "sqlite:queues.db",
    "objects": "file:objects",
    "keys": "file:keys.json",
    "sql": "postgres:postgres",
}
JWKS: Final = "jwks.json"
TOKEN_S: Final = 24 * 3600.0
NO_PAYER: Final = "http://127.0.0.1:9"


def settings(folder: Path, **changes: Any) -> Settings:
    """For the stores of this process."""
    return Settings(**{**STORES, "environment": ENVIRONMENT, "base": folder, **changes})


def environ(folder: Path, payer: str = NO_PAYER, **changes: str) -> dict[str, str]:
    """The same for other processes, with what the gateway has to know of those outside."""
    stores = {f"HOLDFAST_{name.upper()}": value for name, value in STORES.items()}
    return {
        **stores,
        "HOLDFAST_ENVIRONMENT": ENVIRONMENT,
        **variables({"payer": payer}, "http://127.0.0.1:1"),
        PAYER_VARIABLE: payer,
        "PAGW_JWKS_URL": str(folder / JWKS),
        "PAGW_TOKEN_ISSUER": ISSUER,
        "PAGW_TOKEN_AUDIENCE": AUDIENCE,
        # No share of a minute is what is measured.
        "PAGW_RATE_LIMIT": "1000000",
        **changes,
    }


@contextmanager
def set_here(variables: Mapping[str, str]) -> Iterator[None]:
    """For what runs in this process."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def client_token(folder: Path) -> str:
    """A token of the tenant; who issued it is known by a file, which the gateway is told of."""
    issuer = IssuerSandbox(folder=folder)
    (folder / JWKS).write_bytes(msgspec.json.encode(issuer.jwks))
    return issuer.minted(TENANT, lifetime_s=TOKEN_S)


def conninfo(folder: Path, database: str = "holdfast") -> str:
    """Of the PostgreSQL that somebody has started in this folder."""
    running = EmbeddedServer(folder / "postgres").running()
    assert running is not None
    return f"host={running.socket_folder} port={running.port} user=postgres dbname={database}"


def bundle(number: int) -> bytes:
    """All are others', each of about 8 KB."""
    return msgspec.json.encode(request_bundle(reference=f"BENCH-{number}"))


def submissions(token: str, numbers: Iterator[int], count: int) -> list[bytes]:
    """Requests as bytes, each under a key of its own."""
    return [
        posted(
            "/pas/requests",
            bundle(number),
            authorization=f"Bearer {token}",
            x_idempotency_key=f"bench-{number}",
        )
        for number in itertools.islice(numbers, count)
    ]
