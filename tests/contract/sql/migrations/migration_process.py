"""A process that migrates the schema `library` and prints each revision that it runs.

`python -m tests.contract.sql.migrations.migration_process URL FOLDER PACKAGE`
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.stores.sql.postgres import open_postgres


def print_progress(revision: str, done: int, total: int) -> None:
    print(revision, done, total, flush=True)  # noqa: T201


async def main(url: str, folder: str, package: str) -> None:
    """Migrate the schema with the package, which is in the folder."""
    sys.path.append(folder)
    engine = open_postgres(url)
    try:
        await engine.migrate("library", package, progress=print_progress)
    finally:
        engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
