"""Writes packages of Alembic migrations for a test, from revisions given as SQL or Python text."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Mapping
from pathlib import Path

_numbers = itertools.count(1)

# The first revisions of most tests.
BOOKS = "CREATE TABLE library.books (id BIGSERIAL PRIMARY KEY, title TEXT NOT NULL)"
LOANS = "CREATE TABLE library.loans (book BIGINT NOT NULL REFERENCES library.books, since TIMESTAMPTZ)"


def write_package(
    folder: Path, revisions: Mapping[str, str], after: Mapping[str, str | None] | None = None
) -> str:
    """Write a package with these revisions and return its name.

    Each revision follows the one before it unless `after` names another. Indented text is Python; anything
    else is one text of SQL.
    """
    name = f"migrations_{next(_numbers)}"
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    former: str | None = None
    for revision, work in revisions.items():
        down = (after or {}).get(revision, former)
        body = work if work.startswith("    ") else f"    op.execute({work!r})"
        text = (
            f'"""{revision.title()} of the library."""\n\nfrom alembic import op\n\nrevision = {revision!r}\n'
        )
        text += f"down_revision = {down!r}\n\n\ndef upgrade() -> None:\n{body}\n"
        (package / f"{revision}_step.py").write_text(text)
        former = revision
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    return name
