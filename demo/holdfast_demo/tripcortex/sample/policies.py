"""Policies of the sample, uploaded and ingested: the main policy as a PDF, and handbooks to reach the scale.

Handbooks are ingested with random embeddings: a real model takes minutes for thousands of paragraphs, and the
duration of a search depends on the number of vectors, not on their meaning. Random vectors are not similar to
any question.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast import Stores
from holdfast.core.errors import ConditionFailed
from holdfast_demo.tripcortex.sample.policy_document import FILE_NAME, build_policy_pdf, build_policy_rules
from tripcortex.domain.policy_rules.rules import PolicyRule
from tripcortex.model.entities import Confidence
from tripcortex.model.policies import files, patterns
from tripcortex.model.policies.schema import NewPolicy, Policy, PolicyStatus
from tripcortex.policies.embedding import BOUNDS, LOCAL, Embedding, build_local_embedding
from tripcortex.policies.ingestion import ingest
from tripcortex.policies.retrieval import RetrievedChunk, retrieve
from tripcortex.policies.rule_loader import load_confirmed_rules
from tripcortex.policies.uploads import Upload, build_object_uri, get_now, load_policy, upload
from tripcortex.workers.steps.retrieval import PASSAGES_PER_TOPIC, TOPICS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The id that the examples of the access patterns use.
POLICY_ID: Final = UUID("018f3c1e-0000-7000-8000-000000000002")
UPLOADED_BY: Final = "emp-1"
HANDBOOK_CHUNKS: Final = 200
MAX_INGESTION_S: Final = 120.0
INGESTION_POLL_S: Final = 0.2
EMBEDDING_WIDTH: Final = 256
HANDBOOK_NAME: Final = "northwind-handbook-{number:03d}.md"
SUBJECTS: Final = (
    "Hotels",
    "Trains",
    "Cars",
    "Meals",
    "Visas",
    "Insurance",
    "Expenses",
    "Events",
    "Safety",
    "Reports",
)


async def ensure_main_policy(stores: Stores) -> tuple[Policy, bool]:
    """Return the sample's main policy, ingested and in service, and whether this call ingested it.

    A policy that is already ingested is left as it is.
    """
    found = await stores.run(patterns.policy(POLICY_ID))
    if found is None:
        info = await stores.run(files.keep_source(str(POLICY_ID), build_policy_pdf()))
        new = NewPolicy(
            id=POLICY_ID,
            source_s3_uri=build_object_uri(stores, info.key),
            file_name=FILE_NAME,
            uploaded_by=UPLOADED_BY,
            rules=build_policy_rules(),
        )
        (found,) = await stores.run(patterns.create_policy(new, get_now(stores), wakes=False))
    if found.status is PolicyStatus.ready:
        return found, False
    return await _ingest_once(stores, found.id, build_local_embedding())


async def _ingest_once(stores: Stores, policy_id: UUID, embedding: Embedding) -> tuple[Policy, bool]:
    """Ingest a policy, or wait for the worker that does it already; return it, and whether this call did it.

    `holdfast up --sample` starts the workers next to the sample. Raise `ConditionFailed` if the other worker
    needs longer than `MAX_INGESTION_S`.
    """
    try:
        return await ingest(stores, policy_id, None, embedding), True
    except ConditionFailed:
        async with asyncio.timeout(MAX_INGESTION_S):
            while (found := await load_policy(stores, policy_id)).status is not PolicyStatus.ready:
                if found.status is PolicyStatus.failed:
                    raise
                await asyncio.sleep(INGESTION_POLL_S)
        return found, False


async def write_handbooks(stores: Stores, chunks: int) -> int:
    """Upload and ingest handbooks with `chunks` chunks in all; return how many chunks were written.

    Handbooks that exist by name are skipped.
    """
    known = {each.file_name for each in await stores.run(patterns.policies())}
    written = 0
    for number, size in enumerate(_split_sizes(chunks), 1):
        name = HANDBOOK_NAME.format(number=number)
        if name not in known:
            uploaded = await upload(
                stores, Upload(name, _build_handbook(number, size), uploaded_by=UPLOADED_BY)
            )
            read, _ = await _ingest_once(
                stores, uploaded.id, Embedding(_RandomEmbedder(), LOCAL, BOUNDS[LOCAL])
            )
            written += read.total_chunks or 0
    return written


async def retrieve_usual_passages(stores: Stores) -> tuple[list[RetrievedChunk], Confidence]:
    """Retrieve the passages on the topics of every flight, each once, and the best confidence."""
    embedding = build_local_embedding()
    found = [await retrieve(stores, embedding, topic, top_k=PASSAGES_PER_TOPIC) for topic in TOPICS]
    passages = {each.chunk_id: each for one in found for each in one.chunks}
    return list(passages.values()), max((one.confidence for one in found), key=("none", "low", "high").index)


async def load_rules(stores: Stores, policy: Policy) -> tuple[PolicyRule, ...]:
    """Return the confirmed rules of the sample's policy, whatever other policies serve."""
    return await load_confirmed_rules(stores, (policy.id,))


def _split_sizes(chunks: int) -> Iterator[int]:
    """Yield the chunk counts of the handbooks: 200 each, the rest in the last."""
    while chunks > 0:
        yield min(chunks, HANDBOOK_CHUNKS)
        chunks -= HANDBOOK_CHUNKS


def _build_handbook(number: int, size: int) -> bytes:
    """Return a Markdown file of `size` chunks: a heading and paragraphs, each of them a chunk."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    paragraphs = (
        f"{subject} of part {number}, point {place}: what employees of the office {place % 37} keep to on "
        "site."
        for place in range(1, size)
    )
    return "\n\n".join((f"# {subject}, part {number}", *paragraphs)).encode()


class _RandomEmbedder:
    """An embedder that draws a random vector for each text; equal texts have equal vectors."""

    dimensions: Final = EMBEDDING_WIDTH

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        seeds = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts)
        rows = [np.random.default_rng(seed).standard_normal(EMBEDDING_WIDTH) for seed in seeds]
        return np.asarray(rows, dtype=np.float32)
