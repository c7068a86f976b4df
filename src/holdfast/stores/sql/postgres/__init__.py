"""The PostgreSQL engine of the SQL store: open an embedded server over a folder, or a server by its URL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.stores.sql.extra import require_packages

require_packages("psycopg", "psycopg_pool")

from holdfast.stores.sql.postgres.embedded import EmbeddedServer  # noqa: E402
from holdfast.stores.sql.postgres.endpoints import EmbeddedEndpoint, ServerEndpoint  # noqa: E402
from holdfast.stores.sql.postgres.engine import PostgresSql  # noqa: E402
from holdfast.stores.sql.postgres.pools import Pool, PoolSizes  # noqa: E402

STATEMENT_TIMEOUT_MS: Final = 15_000


def open_embedded_postgres(
    folder: Path | None,
    *,
    database: str = "holdfast",
    sizes: PoolSizes | None = None,
    statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
) -> PostgresSql:
    """Return an engine whose server runs over a folder and starts at its first use.

    `folder` None means a temporary one.
    """
    endpoint = EmbeddedEndpoint(EmbeddedServer(folder), database, statement_timeout_ms)
    return PostgresSql(Pool(endpoint, sizes or PoolSizes()))


def open_postgres(
    url: str,
    *,
    reader: str = "",
    credentials: Callable[[], str] | None = None,
    sizes: PoolSizes | None = None,
    statement_timeout_ms: int = STATEMENT_TIMEOUT_MS,
) -> PostgresSql:
    """Return an engine for a server by its URL, and optionally for a read replica by `reader`, another URL.

    `credentials` returns the text of the secret with user and password. Connects at the first use.
    """
    sizes = sizes or PoolSizes()
    pools = [
        Pool(ServerEndpoint(each, credentials, statement_timeout_ms), sizes) for each in (url, reader) if each
    ]
    return PostgresSql(*pools)


__all__ = ["EmbeddedServer", "PoolSizes", "PostgresSql", "open_embedded_postgres", "open_postgres"]
