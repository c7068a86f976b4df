"""Retrieval of the policy passages that are relevant to a question, each with its similarity and citation.

    question → vector → A1 (nearest chunks) ┐
             → words  → A7 (full text)      ┴→ fuse → A8 (positions) → spread over sections → RetrievalResult

These are separate statements, and a document may be replaced between them: the serving editions are read once
(A20), and all statements use the same ones (`run_on_fixed_editions`).

The mode `plain` is A1 alone, as in the design document: no passage below the threshold is returned. In
`fused` the threshold decides whether the policy answers the question at all. A small model has no useful
vector for names that it does not know (Spirit, Moscow), so a passage that contains most of the question's
words, weighted by rarity, is an answer too. In both modes `similarity` is that of the vectors, and the result
may be empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from holdfast import Stores
from holdfast.model.sql import SqlRows
from tripcortex.domain.policy_search.query_expansion import expand_question
from tripcortex.domain.policy_search.query_words import QueryWords, to_postgres_text
from tripcortex.domain.policy_search.rank_fusion import fuse, spread_over_sections
from tripcortex.model.entities import Citation, Confidence
from tripcortex.model.policies import patterns
from tripcortex.model.policies.schema import TOP_K, FoundChunk, SimilarChunk, WordedChunk
from tripcortex.policies.embedding import Embedding

# Candidates of each ranking for the fusion.
CANDIDATES: Final = 50
# The share of the question's words that a passage below the similarity threshold must contain.
MIN_SHARE: Final = 0.6
NO_THRESHOLD: Final = -1.0
MAX_QUOTE_CHARS: Final = 240
HEADINGS: Final = frozenset({"TITLE", "SECTION_TITLE"})
# Maximum tries if an edition loses its chunks during each, for which its document must be replaced twice.
MAX_TRIES: Final = 3

T = TypeVar("T")
RetrievalMode = Literal["fused", "plain"]


@dataclass(frozen=True)
class RetrievedChunk:
    """One passage. `similarity` is the cosine similarity of its vector and the question's."""

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
        """Return the citation of this passage, with a shortened quote."""
        return Citation(
            chunk_id=self.chunk_id,
            policy_id=self.policy_id,
            file_name=self.file_name,
            source_page=self.source_page,
            section_title=self.section_title,
            similarity=round(self.similarity, 4),
            quote=_shorten(self.content_text) or None,
        )


@dataclass(frozen=True)
class RetrievalResult:
    """The retrieved passages, best first. `max_similarity` is 0 if nothing was found."""

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
    mode: RetrievalMode = "fused",
) -> RetrievalResult:
    """Return the passages relevant to a question, at most `top_k`, best first.

    A question without a word that the model knows finds nothing. `threshold` defaults to the model's own.
    `policy_ids` are the editions to search, whether they still serve or not; by default the serving ones.
    """
    question = to_postgres_text(question)
    vector = await asyncio.to_thread(embedding.embed_question, question)
    if vector is None:
        return _build_result((), embedding)

    async def search(editions: Sequence[UUID]) -> RetrievalResult:
        return await _search(
            stores, _Query(question, vector, embedding, threshold, editions), top_k=top_k, mode=mode
        )

    return await (
        run_on_fixed_editions(stores, embedding, search) if policy_ids is None else search(policy_ids)
    )


async def run_on_fixed_editions(
    stores: Stores, embedding: Embedding, run: Callable[[Sequence[UUID]], Awaitable[T]]
) -> T:
    """Call `run` with the editions that serve now, for a query of several statements; return its result.

    If one of them loses its chunks meanwhile, run it again on the editions that serve then, at most three
    times.
    """
    kept = await stores.run(patterns.kept_editions(embedding.model_id))
    tries = 0
    while True:
        editions = [each.id for each in kept if each.serves]
        answer = await run(editions)
        tries += 1
        kept = await stores.run(patterns.kept_editions(embedding.model_id, editions))
        if tries == MAX_TRIES or {each.id for each in kept}.issuperset(editions):
            return answer


async def _search(stores: Stores, query: _Query, *, top_k: int, mode: RetrievalMode) -> RetrievalResult:
    """Search the query's editions, load the chunks and, if fused, spread the result over sections."""
    ids = await (_search_fused(stores, query) if mode == "fused" else _search_plain(stores, query, top_k))
    if not ids:
        return _build_result((), query.embedding)
    found = {each.id: each for each in await stores.run(patterns.found_chunks(ids, query.vector))}
    # A chunk may be missing because its policy was deleted meanwhile.
    there = [each for each in ids if each in found]
    chosen = (
        spread_over_sections(there, {each: _get_section(found[each]) for each in there}, top_k)
        if mode == "fused"
        else there
    )
    return _build_result(
        [found[each] for each in chosen], query.embedding, is_given=query.requested_threshold is None
    )


async def load_chunks(
    stores: Stores, embedding: Embedding, question: str, ids: Sequence[UUID]
) -> tuple[RetrievedChunk, ...]:
    """Load known passages in the order of their ids, with their similarity to a question.

    Passages that were deleted are left out. The result is empty if the model knows no word of the question.
    """
    question = to_postgres_text(question)
    vector = await asyncio.to_thread(embedding.embed_question, question)
    if vector is None:
        return ()
    found = {each.id: each for each in await stores.run(patterns.found_chunks(ids, vector))}
    return tuple(_to_chunk(found[each]) for each in ids if each in found)


async def load_section_tables(
    stores: Stores, embedding: Embedding, question: str, found: Sequence[RetrievedChunk]
) -> tuple[RetrievedChunk, ...]:
    """Load the tables in the same sections as the passages, except those already among them."""
    vector = await asyncio.to_thread(embedding.embed_question, question)
    if vector is None or not found:
        return ()
    ids = [UUID(each.chunk_id) for each in found]
    return tuple(_to_chunk(each) for each in await stores.run(patterns.tables_beside(ids, vector)))


@dataclass(frozen=True)
class _Query:
    """One question with its vector, threshold and editions; builds the operations of both searches."""

    question: str
    vector: str
    embedding: Embedding
    requested_threshold: float | None
    policy_ids: Sequence[UUID]

    @property
    def threshold(self) -> float:
        """Return the requested threshold, or else the model's."""
        return self.embedding.threshold if self.requested_threshold is None else self.requested_threshold

    def find_similar(self, top_k: int, threshold: float | None = None) -> SqlRows[SimilarChunk]:
        """Return the operation of A1 for this query, with its threshold or another one."""
        return patterns.similar_chunks(
            self.vector,
            threshold=self.threshold if threshold is None else threshold,
            top_k=top_k,
            policy_ids=self.policy_ids,
            model_id=self.embedding.model_id,
        )

    def find_by_words(self, top_k: int) -> SqlRows[WordedChunk]:
        """Return the operation of A7 for this query, with synonyms."""
        return patterns.worded_chunks(
            QueryWords.from_question(self.question, expand_question(self.question)),
            self.vector,
            top_k=top_k,
            policy_ids=self.policy_ids,
            model_id=self.embedding.model_id,
        )


async def _search_plain(stores: Stores, query: _Query, top_k: int) -> list[UUID]:
    """Return the ids of the nearest chunks above the threshold (A1 alone)."""
    return [each.id for each in await stores.run(query.find_similar(top_k))]


async def _search_fused(stores: Stores, query: _Query) -> list[UUID]:
    """Return chunk ids by rank fusion of the nearest chunks and the full-text matches, without headings.

    The result is empty unless some passage is similar enough, or contains most of the question's words.
    """
    near, worded = await asyncio.gather(
        stores.run(query.find_similar(CANDIDATES, NO_THRESHOLD)), stores.run(query.find_by_words(CANDIDATES))
    )
    is_answered = any(each.similarity >= query.threshold for each in near) or any(
        each.similarity >= query.threshold or each.share >= MIN_SHARE for each in worded
    )
    by_meaning = [each.id for each in near if each.bda_entity_subtype not in HEADINGS]
    by_words = [each.id for each in worded if each.bda_entity_subtype not in HEADINGS]
    return fuse(by_meaning, by_words) if is_answered else []


def _get_section(chunk: FoundChunk) -> Hashable:
    """Return the key of the chunk's section: document and heading, or the chunk itself without a heading."""
    return chunk.id if chunk.section_title is None else (chunk.policy_id, chunk.section_title)


def _build_result(
    found: Sequence[FoundChunk], embedding: Embedding, *, is_given: bool = False
) -> RetrievalResult:
    """Build the result.

    With `is_given` the chunks passed the model's own threshold or matched by words, so the confidence is at
    least low.
    """
    best = max((each.similarity for each in found), default=None)
    confidence = embedding.bounds.get_confidence(best)
    return RetrievalResult(
        chunks=tuple(map(_to_chunk, found)),
        max_similarity=best or 0.0,
        confidence="low" if found and is_given and confidence == "none" else confidence,
        embedding_dim=embedding.dimensions,
        model_id=embedding.model_id,
    )


def _to_chunk(found: FoundChunk) -> RetrievedChunk:
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


def _shorten(text: str) -> str:
    """Return the text on one line, cut to 240 characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_QUOTE_CHARS else f"{flat[: MAX_QUOTE_CHARS - 1].rstrip()}…"
