"""Policies of the sample: the one that is made as a PDF and read like any other, and as many handbooks as the size wants.

Handbooks are read too, but embedded by a draw: a model that says something about thousands of paragraphs costs minutes, and
how long a search takes depends on how many vectors there are, not on what they mean. Such a vector is near to no question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast import Stores
from tripcortex.knowledge import files, patterns
from tripcortex.knowledge.embedding import BOUNDS, LOCAL, Embedding, local_embedding
from tripcortex.knowledge.ingesting import ingest
from tripcortex.knowledge.retrieving import RetrievedChunk, retrieve
from tripcortex.knowledge.schema import NewPolicy, Policy, PolicyStatus
from tripcortex.knowledge.uploading import Upload, moment, object_uri, upload
from tripcortex.model import Confidence
from tripcortex.parsing.sample_policy import FILE_NAME, policy_pdf, policy_rules
from tripcortex.rules.policy import TravelPolicy
from tripcortex.steps.retrieving import OF_TOPIC, TOPICS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# That of the document which the patterns' examples name.
POLICY_ID: Final = UUID("018f3c1e-0000-7000-8000-000000000002")
UPLOADED_BY: Final = "emp-1"
HANDBOOK_CHUNKS: Final = 200
WIDTH: Final = 256
HANDBOOK: Final = "northwind-handbook-{number:03d}.md"
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


async def main_policy(stores: Stores) -> tuple[Policy, bool]:
    """The sample policy, read and serving, and whether it is new. One that is there is taken as it is."""
    found = await stores.run(patterns.policy(POLICY_ID))
    if found is None:
        info = await stores.run(files.keep_source(str(POLICY_ID), policy_pdf()))
        new = NewPolicy(
            id=POLICY_ID,
            source_s3_uri=object_uri(stores, info.key),
            file_name=FILE_NAME,
            uploaded_by=UPLOADED_BY,
            rules=policy_rules(),
        )
        (found,) = await stores.run(patterns.create_policy(new, moment(stores), wakes=False))
    if found.status is PolicyStatus.ready:
        return found, False
    return await ingest(stores, found.id, None, local_embedding()), True


async def handbooks(stores: Stores, chunks: int) -> int:
    """So many chunks of further policies, in handbooks of some hundred; gives how many were written."""
    known = {each.file_name for each in await stores.run(patterns.policies())}
    written = 0
    for number, size in enumerate(_sizes(chunks), 1):
        name = HANDBOOK.format(number=number)
        if name not in known:
            uploaded = await upload(stores, Upload(name, _handbook(number, size), uploaded_by=UPLOADED_BY))
            read = await ingest(stores, uploaded.id, None, Embedding(_Drawn(), LOCAL, BOUNDS[LOCAL]))
            written += read.total_chunks or 0
    return written


async def usual_passages(stores: Stores) -> tuple[list[RetrievedChunk], Confidence]:
    """What is found for every flight, and how sure that is."""
    embedding = local_embedding()
    found = [await retrieve(stores, embedding, topic, top_k=OF_TOPIC) for topic in TOPICS]
    passages = {each.chunk_id: each for one in found for each in one.chunks}
    return list(passages.values()), max((one.confidence for one in found), key=("none", "low", "high").index)


def rules_of(policy: Policy) -> TravelPolicy:
    return TravelPolicy.read(policy_rules(), policy_id=str(policy.id), file_name=policy.file_name)


def _sizes(chunks: int) -> Iterator[int]:
    while chunks > 0:
        yield min(chunks, HANDBOOK_CHUNKS)
        chunks -= HANDBOOK_CHUNKS


def _handbook(number: int, size: int) -> bytes:
    """A heading and paragraphs: each is a chunk."""
    subject = SUBJECTS[number % len(SUBJECTS)]
    paragraphs = (
        f"{subject} of part {number}, point {place}: what employees of the office {place % 37} keep to on site."
        for place in range(1, size)
    )
    return "\n\n".join((f"# {subject}, part {number}", *paragraphs)).encode()


class _Drawn:
    """An embedder that draws each vector from its text."""

    dimensions: Final = WIDTH

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        seeds = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) for text in texts)
        rows = [np.random.default_rng(seed).standard_normal(WIDTH) for seed in seeds]
        return np.asarray(rows, dtype=np.float32)
