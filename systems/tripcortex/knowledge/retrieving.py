"""The passages of the policies that are about a question, each with its similarity and where it stands.

    question → vector → A1 (nearest chunks) ┐
             → words  → A7 (full text)      ┴→ fused → A8 (where they stand) → spread over sections → Retrieved

These are statements of their own, and a document may be replaced between them: which editions serve is read once (A20), and all
are put to the same ones (`of_one_edition`).
`plain` is A1 alone, as the document has it: no passage below the threshold is given. A name that a small model does not know
(Spirit, Moscow) has hardly a direction of its own: `fused` also gives what has most of the question's words, counted by how rare they
are. Either way `similarity` is that of the vectors, and there may be no passage at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from holdfast import SqlRows, Stores
from tripcortex.knowledge import patterns
from tripcortex.knowledge.embedding import Embedding
from tripcortex.knowledge.fusing import fused, spread
from tripcortex.knowledge.schema import TOP_K, FoundChunk, SimilarChunk, WordedChunk
from tripcortex.knowledge.synonyms import added_words
from tripcortex.knowledge.wording import WordsAsked, sendable
from tripcortex.model import Citation, Confidence

# Of each order, for fusing.
CANDIDATES: Final = 50
# Below the threshold: how much of what a question says a passage has to have, word for word.
SHARE_MIN: Final = 0.6
QUOTE_CHARS_MAX: Final = 240
HEADINGS: Final = frozenset({"TITLE", "SECTION_TITLE"})
# How often it is asked where each time an edition loses its chunks meanwhile, for which it has to be replaced twice.
TIMES_MAX: Final = 3

T = TypeVar("T")
Way = Literal["fused", "plain"]


@dataclass(frozen=True)
class RetrievedChunk:
    """One passage. `similarity` is the cosine of its vector and the question's."""

    chunk_id: str
    policy_id: str
    file_name: str
    content_text: str
    section_title: str | None
    source_page: int | None
    content_type: str
    bda_entity_subtype: str | None
    similarity: float
    metadata: dict[str, Any]

    def citation(self) -> Citation:
        return Citation(
            chunk_id=self.chunk_id,
            policy_id=self.policy_id,
            file_name=self.file_name,
            source_page=self.source_page,
            section_title=self.section_title,
            similarity=round(self.similarity, 4),
            quote=_quoted(self.content_text) or None,
        )


@dataclass(frozen=True)
class Retrieved:
    """The best first. `max_similarity` is 0 where nothing was found."""

    chunks: tuple[RetrievedChunk, ...]
    max_similarity: float
    confidence: Confidence
    embedding_dim: int
    model_id: str


async def retrieve(
    stores: Stores,
    embedding: Embedding,
    question: str,
    *,
    top_k: int = TOP_K,
    threshold: float | None = None,
    policy_ids: Sequence[UUID] | None = None,
    way: Way = "fused",
) -> Retrieved:
    """`threshold` is the model's own where none is given. A question without a word that the model knows finds nothing.

    `policy_ids` are the editions that are asked, whether they still serve or not; where none are given, those that serve.
    """
    question = sendable(question)
    vector = await asyncio.to_thread(embedding.question, question)
    if vector is None:
        return _retrieved((), embedding)

    async def of(editions: Sequence[UUID]) -> Retrieved:
        return await _answered(
            stores, _Asked(question, vector, embedding, threshold, editions), top_k=top_k, way=way
        )

    return await (of_one_edition(stores, embedding, of) if policy_ids is None else of(policy_ids))


async def of_one_edition(
    stores: Stores, embedding: Embedding, ask: Callable[[Sequence[UUID]], Awaitable[T]]
) -> T:
    """What is asked of the editions that serve as it begins, however many statements it takes: one edition of each document. Where
    one of them has lost its chunks meanwhile, it is asked anew of those that serve then."""
    kept = await stores.run(patterns.kept_editions(embedding.model_id))
    asked = 0
    while True:
        editions = [each.id for each in kept if each.serves]
        answer = await ask(editions)
        asked += 1
        kept = await stores.run(patterns.kept_editions(embedding.model_id, editions))
        if asked == TIMES_MAX or {each.id for each in kept}.issuperset(editions):
            return answer


async def _answered(stores: Stores, asked: _Asked, *, top_k: int, way: Way) -> Retrieved:
    ids = await (_fused(stores, asked) if way == "fused" else _plain(stores, asked, top_k))
    if not ids:
        return _retrieved((), asked.embedding)
    found = {each.id: each for each in await stores.run(patterns.found_chunks(ids, asked.vector))}
    # One may be gone since: its policy was deleted.
    there = [each for each in ids if each in found]
    chosen = (
        spread(there, {each: _section(found[each]) for each in there}, top_k) if way == "fused" else there
    )
    return _retrieved([found[each] for each in chosen], asked.embedding, is_given=asked.wanted is None)


async def chunks_of(
    stores: Stores, embedding: Embedding, question: str, ids: Sequence[UUID]
) -> tuple[RetrievedChunk, ...]:
    """Passages that were found before, in the order of their ids, with their similarity to a question. What is gone since is left
    out; where the question has no word that the model knows, all are."""
    question = sendable(question)
    vector = await asyncio.to_thread(embedding.question, question)
    if vector is None:
        return ()
    found = {each.id: each for each in await stores.run(patterns.found_chunks(ids, vector))}
    return tuple(_chunk(found[each]) for each in ids if each in found)


async def tables_beside(
    stores: Stores, embedding: Embedding, question: str, found: Sequence[RetrievedChunk]
) -> tuple[RetrievedChunk, ...]:
    """The tables of the sections that passages stand in, without those that are among them."""
    vector = await asyncio.to_thread(embedding.question, question)
    if vector is None or not found:
        return ()
    ids = [UUID(each.chunk_id) for each in found]
    return tuple(_chunk(each) for each in await stores.run(patterns.tables_beside(ids, vector)))


@dataclass(frozen=True)
class _Asked:
    question: str
    vector: str
    embedding: Embedding
    wanted: float | None
    policy_ids: Sequence[UUID]

    @property
    def threshold(self) -> float:
        return self.embedding.threshold if self.wanted is None else self.wanted

    def nearest(self, top_k: int) -> SqlRows[SimilarChunk]:
        return patterns.similar_chunks(
            self.vector,
            threshold=self.threshold,
            top_k=top_k,
            policy_ids=self.policy_ids,
            model_id=self.embedding.model_id,
        )

    def worded(self, top_k: int) -> SqlRows[WordedChunk]:
        return patterns.worded_chunks(
            WordsAsked.of(self.question, " ".join(added_words(self.question))),
            self.vector,
            top_k=top_k,
            policy_ids=self.policy_ids,
            model_id=self.embedding.model_id,
        )


async def _plain(stores: Stores, asked: _Asked, top_k: int) -> list[UUID]:
    return [each.id for each in await stores.run(asked.nearest(top_k))]


async def _fused(stores: Stores, asked: _Asked) -> list[UUID]:
    near, worded = await asyncio.gather(
        stores.run(asked.nearest(CANDIDATES)), stores.run(asked.worded(CANDIDATES))
    )
    by_meaning = [each.id for each in near if each.bda_entity_subtype not in HEADINGS]
    by_words = [
        each.id
        for each in worded
        if (each.similarity >= asked.threshold or each.share >= SHARE_MIN)
        and each.bda_entity_subtype not in HEADINGS
    ]
    return fused(by_meaning, by_words)


def _section(chunk: FoundChunk) -> Hashable:
    """What stands under one heading of one document; without headings, each for itself."""
    return chunk.id if chunk.section_title is None else (chunk.policy_id, chunk.section_title)


def _retrieved(found: Sequence[FoundChunk], embedding: Embedding, *, is_given: bool = False) -> Retrieved:
    """`is_given`: by the model's own threshold or by their words, so that there is some confidence at least."""
    best = max((each.similarity for each in found), default=None)
    confidence = embedding.bounds.confidence(best)
    return Retrieved(
        chunks=tuple(map(_chunk, found)),
        max_similarity=best or 0.0,
        confidence="low" if found and is_given and confidence == "none" else confidence,
        embedding_dim=embedding.dimensions,
        model_id=embedding.model_id,
    )


def _chunk(found: FoundChunk) -> RetrievedChunk:
    return RetrievedChunk(
        chunk_id=str(found.id),
        policy_id=str(found.policy_id),
        file_name=found.file_name,
        content_text=found.content_text or "",
        section_title=found.section_title,
        source_page=found.source_page,
        content_type=found.content_type,
        bda_entity_subtype=found.bda_entity_subtype,
        similarity=found.similarity,
        metadata=found.metadata or {},
    )


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= QUOTE_CHARS_MAX else f"{flat[: QUOTE_CHARS_MAX - 1].rstrip()}…"
