"""Step EmbedAndRetrieve: retrieves what the company's policies say about a request; helpers for later steps.

A1, audit event `policy_retrieval`, status `searching`.

The request alone is seldom similar to the rule that applies: "Chicago on Tuesday" has nothing of "cabin by
duration". So the topics that every flight is judged by are queried too, and the results are merged, best
first, with the tables of their sections. All queries of one step use the same editions, even if a document is
replaced meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from holdfast import Stores
from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.model.entities import AuditEvent, Booking, Confidence, Failure
from tripcortex.model.policies import patterns as policies
from tripcortex.policies.embedding import Embedding
from tripcortex.policies.retrieval import (
    RetrievalResult,
    RetrievedChunk,
    load_chunks,
    load_section_tables,
    retrieve,
    run_on_fixed_editions,
)
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.dependencies import Dependencies, get_dependencies, start_stopwatch
from tripcortex.workers.steps.endings import fail_booking

STEP: Final = "EmbedAndRetrieve"
NO_POLICY: Final = "no_relevant_policy"
# The topics that every flight is judged by.
TOPICS: Final = (
    "Which cabin may be booked for a flight, economy or business class by its duration?",
    "What is the highest fare allowed for a domestic or international flight?",
    "How many days in advance must flights be booked?",
    "Which airlines are preferred, and which are prohibited?",
)
PASSAGES_PER_TOPIC: Final = 3
_CONFIDENCE_ORDER: Final[tuple[Confidence, ...]] = ("none", "low", "high")


async def embed_and_retrieve(context: StepContext[Booking]) -> Next:
    """Retrieve the passages for the request and the topics, store their citations and move to `retrieved`.

    Without a relevant passage, fail the booking if `stop_without_policy` is set.
    """
    dependencies, watch = get_dependencies(context), start_stopwatch()
    for_request, topics, tables = await run_on_fixed_editions(
        context.stores,
        dependencies.embedding,
        lambda editions: _retrieve_all(
            context.stores, dependencies.embedding, context.item.user_request, editions
        ),
    )
    confidence = max((each.confidence for each in (for_request, *topics)), key=_CONFIDENCE_ORDER.index)
    passages = [*_merge_passages(for_request, topics), *tables]
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.policy_retrieval,
        STEP,
        inputs={
            "user_request": redact_text(context.item.user_request),
            "query_embedding_dim": for_request.embedding_dim,
        },
        outputs=_build_outputs(for_request, passages, confidence),
        years=dependencies.settings.audit_years,
        model_id=dependencies.embedding.model_id,
        latency_ms=watch.ms,
    )
    if confidence == "none" and dependencies.settings.stop_without_policy:
        text = "No company policy covers this request, and trips without a policy are not booked."
        remedy = "Contact your travel desk, or describe the trip in more detail."
        return fail_booking(context, STEP, Failure(code=NO_POLICY, text=text, remedy=remedy), audit=(entry,))
    changes = {"passages": [each.citation() for each in passages], "policy_confidence": confidence}
    return Next("retrieved", changes, writes=(entry,))


async def load_passages(
    stores: Stores, dependencies: Dependencies, booking: Booking
) -> tuple[RetrievedChunk, ...]:
    """Return the passages retrieved for a booking, with text and their original similarity.

    Passages of a removed policy are omitted.
    """
    near = {each.chunk_id: each.similarity for each in booking.passages}
    if not near:
        return ()
    found = await load_chunks(stores, dependencies.embedding, TOPICS[0], [UUID(each) for each in near])
    return tuple(replace(each, similarity=near[each.chunk_id] or each.similarity) for each in found)


async def load_policy_rules(stores: Stores) -> tuple[TravelPolicy, ...]:
    """Return the machine-readable rules of every document in service, newest first."""
    return tuple(
        TravelPolicy.parse(serving.rules, policy_id=str(serving.id), file_name=serving.file_name)
        for serving in await stores.run(policies.serving_rules())
    )


async def _retrieve_all(
    stores: Stores, embedding: Embedding, request: str, editions: Sequence[UUID]
) -> tuple[RetrievalResult, Sequence[RetrievalResult], Sequence[RetrievedChunk]]:
    """Retrieve the passages for the request and for each topic, and the tables next to them.

    All come from the same editions.
    """
    for_request = await retrieve(stores, embedding, request, policy_ids=editions)
    topics = await _retrieve_each(stores, embedding, TOPICS, editions)
    return (
        for_request,
        topics,
        await load_section_tables(stores, embedding, TOPICS[0], _merge_passages(for_request, topics)),
    )


async def _retrieve_each(
    stores: Stores, embedding: Embedding, questions: Sequence[str], editions: Sequence[UUID]
) -> list[RetrievalResult]:
    """Retrieve up to three passages for each question."""
    return [
        await retrieve(stores, embedding, each, top_k=PASSAGES_PER_TOPIC, policy_ids=editions)
        for each in questions
    ]


def _merge_passages(asked: RetrievalResult, topics: Sequence[RetrievalResult]) -> list[RetrievedChunk]:
    """Return each passage once, those of the request first."""
    found = [*asked.chunks, *(chunk for topic in topics for chunk in topic.chunks)]
    return list({each.chunk_id: each for each in reversed(found)}.values())[::-1]


def _build_outputs(
    asked: RetrievalResult, passages: Sequence[RetrievedChunk], confidence: Confidence
) -> dict[str, object]:
    """Return the outputs of the audit entry: counts, the best similarity, and each chunk."""
    best = max((each.similarity for each in passages), default=asked.max_similarity)
    return {
        "chunks_retrieved": len(passages),
        "max_similarity": round(best, 4),
        "confidence": confidence,
        "chunks": [
            {"id": each.chunk_id, "section": each.section_title, "similarity": round(each.similarity, 4)}
            for each in passages
        ],
    }
