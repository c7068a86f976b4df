"""EmbedAndRetrieve: what the company's policies say about a request. A1, the audit `policy_retrieval`, status `searching`.

The request alone seldom sounds like the rule that it falls under: "Chicago on Tuesday" has nothing of "cabin by duration". So
the few things that every flight is judged by are asked for too, and what is found is kept together, the best first, with the tables
of the sections it stands in. All questions of one step are put to the same editions: a document that is replaced meanwhile
answers with one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from holdfast import Stores
from holdfast.flows import Next, Run
from tripcortex.auditing import audited, told
from tripcortex.knowledge import patterns as policies
from tripcortex.knowledge.embedding import Embedding
from tripcortex.knowledge.retrieving import (
    Retrieved,
    RetrievedChunk,
    chunks_of,
    of_one_edition,
    retrieve,
    tables_beside,
)
from tripcortex.model import AuditEvent, Booking, BookingPlan, Cabin, Confidence, Failure
from tripcortex.rules.distances import country_of, place_names
from tripcortex.rules.policy import TravelPolicy
from tripcortex.steps.ending import failed
from tripcortex.workshop import Workshop, stopwatch, workshop_of

STEP: Final = "EmbedAndRetrieve"
NO_POLICY: Final = "no_relevant_policy"
# What every flight is judged by.
TOPICS: Final = (
    "Which cabin may be booked for a flight, economy or business class by its duration?",
    "What is the highest fare allowed for a domestic or international flight?",
    "How many days in advance must flights be booked?",
    "Which airlines are preferred, and which are prohibited?",
)
OF_TOPIC: Final = 3
_SURE: Final[tuple[Confidence, ...]] = ("none", "low", "high")


async def embed_and_retrieve(run: Run[Booking]) -> Next:
    workshop, watch = workshop_of(run), stopwatch()
    asked, topics, tables = await of_one_edition(
        run.stores,
        workshop.embedding,
        lambda editions: _found(run.stores, workshop.embedding, run.item.user_request, editions),
    )
    confidence = max((each.confidence for each in (asked, *topics)), key=_SURE.index)
    passages = [*_together(asked, topics), *tables]
    entry = audited(
        run.stores,
        run.item,
        AuditEvent.policy_retrieval,
        STEP,
        given={"user_request": told(run.item.user_request), "query_embedding_dim": asked.embedding_dim},
        gave=_told(asked, passages, confidence),
        years=workshop.settings.audit_years,
        model_id=workshop.embedding.model_id,
        latency_ms=watch.ms,
    )
    if confidence == "none" and workshop.settings.stop_without_policy:
        text = "No policy of the company says anything about this request, and without one nothing is booked."
        remedy = "Ask your travel desk, or say more about the trip."
        return failed(run, STEP, Failure(code=NO_POLICY, text=text, remedy=remedy), audit=(entry,))
    changes = {"passages": [each.citation() for each in passages], "policy_confidence": confidence}
    return Next("retrieved", changes, writes=(entry,))


async def passages_of(stores: Stores, workshop: Workshop, booking: Booking) -> tuple[RetrievedChunk, ...]:
    """The passages that were found for a booking, with their words and as near as they were found; those of a policy that is
    gone are left out."""
    near = {each.chunk_id: each.similarity for each in booking.passages}
    if not near:
        return ()
    found = await chunks_of(stores, workshop.embedding, TOPICS[0], [UUID(each) for each in near])
    return tuple(replace(each, similarity=near[each.chunk_id] or each.similarity) for each in found)


async def passages_about(
    stores: Stores, workshop: Workshop, plan: BookingPlan, rules: Sequence[TravelPolicy]
) -> list[RetrievedChunk]:
    """What only a plan lets ask for: a cabin above economy, a destination that a policy prohibits."""
    questions = tuple(_of_plan(plan, rules))
    if not questions:
        return []
    found = await of_one_edition(
        stores, workshop.embedding, lambda editions: _each(stores, workshop.embedding, questions, editions)
    )
    return [chunk for each in found for chunk in each.chunks]


async def policy_of(stores: Stores) -> tuple[TravelPolicy, ...]:
    """The company's policy as programs read it: the rules of each document that serves, the newest first."""
    return tuple(
        TravelPolicy.read(serving.rules, policy_id=str(serving.id), file_name=serving.file_name)
        for serving in await stores.run(policies.serving_rules())
    )


async def _found(
    stores: Stores, embedding: Embedding, request: str, editions: Sequence[UUID]
) -> tuple[Retrieved, Sequence[Retrieved], Sequence[RetrievedChunk]]:
    """What the request itself finds, what each of the topics does, and the tables beside. All of the same editions."""
    asked = await retrieve(stores, embedding, request, policy_ids=editions)
    topics = await _each(stores, embedding, TOPICS, editions)
    return asked, topics, await tables_beside(stores, embedding, TOPICS[0], _together(asked, topics))


async def _each(
    stores: Stores, embedding: Embedding, questions: Sequence[str], editions: Sequence[UUID]
) -> list[Retrieved]:
    return [
        await retrieve(stores, embedding, each, top_k=OF_TOPIC, policy_ids=editions) for each in questions
    ]


def _of_plan(plan: BookingPlan, rules: Sequence[TravelPolicy]) -> Iterator[str]:
    cabin, destination = plan.parameters.cabin_class, plan.parameters.destination
    if cabin is not Cabin.economy:
        name = cabin.value.replace("_", " ")
        yield f"Is {name} class permitted, or is {name} class never booked?"
    prohibited = {each for policy in rules for each in policy.prohibited.destinations}
    if prohibited & {destination, country_of(destination)}:
        yield f"Is travel to {', '.join(place_names(destination))} prohibited?"


def _together(asked: Retrieved, topics: Sequence[Retrieved]) -> list[RetrievedChunk]:
    """Each passage once, those of the request itself first."""
    found = [*asked.chunks, *(chunk for topic in topics for chunk in topic.chunks)]
    return list({each.chunk_id: each for each in reversed(found)}.values())[::-1]


def _told(asked: Retrieved, passages: Sequence[RetrievedChunk], confidence: Confidence) -> dict[str, object]:
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
