"""Migrates the schema `library` in a process of its own: `python -m … URL FOLDER PACKAGE`; tells each revision."""

from __future__ import annotations

import asyncio
import sys

from holdfast.stores.sql.postgres import open_postgres


def told(what: str, done: int, total: int) -> None:
    print(what, done, total, flush=True)  # noqa: T201


async def main(url: str, folder: str, package: str) -> None:
    sys.path.append(folder)
    engine = open_postgres(url)
    try:
        await engine.migrate("library", package, progress=told)
    finally:
        engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
