"""Knowledge base for tests: a real PostgreSQL, objects in memory and a manual clock.

    with open_base() as base:
        policy = base.run(upload(base.stores, Upload("policy.md", b"…")))

`FakeParser` returns given entities and fails where a test sets it to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray

from holdfast import Stores, System, open_stores
from holdfast.runtime import create_buckets
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.postgres import connect, create_database
from tripcortex.documents.ports import PARAGRAPH, Box, ContentType, ParsedEntity
from tripcortex.model.entities import policy_files
from tripcortex.model.policies.schema import DIMENSIONS, Policy, tripcortex
from tripcortex.policies.embedding import Bounds, Embedding
from tripcortex.policies.ingestion import Upload, ingest, upload

T = TypeVar("T")
SYSTEM = System("knowledge", "Policies", tables=[], patterns=[], schemas=[tripcortex], buckets=[policy_files])
BEGAN = 1_773_153_000.0


class HandClock:
    def __init__(self) -> None:
        self.at = BEGAN

    def now(self) -> float:
        return self.at


@dataclass
class Base:
    """The stores, clock, database URL and event loop that the tests of a module share."""

    stores: Stores
    clock: HandClock
    url: str
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def rows(self, text: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a bare SQL statement and return its rows."""
        with connect(self.url) as connection:
            return _rows(connection, text, parameters)

    def add_policy(self, given: Upload, parser: Any, embedding: Embedding) -> Policy:
        """Upload a policy and ingest it with this parser and embedding; return it."""
        policy = self.run(upload(self.stores, given))
        return self.run(ingest(self.stores, policy.id, parser, embedding))


def _rows(
    connection: psycopg.Connection[Any], text: str, parameters: Sequence[object]
) -> list[tuple[Any, ...]]:
    found = connection.execute(text.encode(), parameters)
    return found.fetchall() if found.description else []


@contextmanager
def open_base() -> Iterator[Base]:
    """Open stores on a new database; close them on exit."""
    url, clock, loop = create_database(tripcortex), HandClock(), asyncio.new_event_loop()
    stores = open_stores(SYSTEM, replace(MEMORY_SETTINGS, sql=url), clock=clock)
    try:
        loop.run_until_complete(create_buckets(stores, [policy_files]))
        yield Base(stores, clock, url, loop)
    finally:
        loop.run_until_complete(stores.close())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def make_paragraph(text: str, number: int, section: str = "Rules", **more: Any) -> ParsedEntity:
    """Build a paragraph on page 1; `number` is its reading order."""
    return ParsedEntity(
        ContentType.text,
        text,
        1,
        section,
        number,
        f"e-{number}",
        PARAGRAPH,
        (Box(1, 0.1, 0.1, 0.8, 0.1),),
        **more,
    )


class FakeParser:
    """Fake parser that yields the given entities, then raises `fails` if it is set."""

    def __init__(
        self,
        entities: Sequence[ParsedEntity] | Callable[[], Iterator[ParsedEntity]],
        *,
        fails: Exception | None = None,
        pages: int = 1,
    ) -> None:
        self._entities, self._fails, self._pages = entities, fails, pages

    def parse(self, body: bytes, file_name: str, *, progress: Any = None) -> Iterator[ParsedEntity]:
        for each in self._entities() if callable(self._entities) else self._entities:
            if progress is not None:
                progress(each.page or 1, self._pages)
            yield each
        if self._fails is not None:
            raise self._fails


class FakeEmbedder:
    """Fake model in which every known word is an axis, so that similarities are easy to compute."""

    WORDS = ("economy", "business", "hotel", "taxi", "train", "meal", "visa", "car")

    @property
    def dimensions(self) -> int:
        return len(self.WORDS)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = np.array([[text.lower().count(word) for word in self.WORDS] for text in texts], np.float32)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found /= np.where(lengths == 0, 1, lengths)
        return found


AXES = Embedding(FakeEmbedder(), "axes", Bounds(0.65, 0.75))


def make_vector(*values: float) -> str:
    """Pad values to the table's width."""
    return f"[{','.join(map(str, [*values, *[0] * (DIMENSIONS - len(values))]))}]"
