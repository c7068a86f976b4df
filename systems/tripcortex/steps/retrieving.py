"""EmbedAndRetrieve: what the company's policies say about a request. A1, the audit `policy_retrieval`, status `searching`."""

from __future__ import annotations

from typing import Final

from holdfast.flows import Next, Run
from tripcortex.auditing import audited, told
from tripcortex.knowledge.retrieving import Retrieved, retrieve
from tripcortex.model import AuditEvent, Booking, Failure
from tripcortex.steps.ending import failed
from tripcortex.workshop import stopwatch, workshop_of

STEP: Final = "EmbedAndRetrieve"
NO_POLICY: Final = "no_relevant_policy"


async def embed_and_retrieve(run: Run[Booking]) -> Next:
    workshop, watch = workshop_of(run), stopwatch()
    found = await retrieve(run.stores, workshop.embedding, run.item.user_request)
    entry = audited(
        run.stores,
        run.item,
        AuditEvent.policy_retrieval,
        STEP,
        given={"user_request": told(run.item.user_request), "query_embedding_dim": found.embedding_dim},
        gave=_told(found),
        years=workshop.settings.audit_years,
        model_id=workshop.embedding.model_id,
        latency_ms=watch.ms,
    )
    if found.confidence == "none" and workshop.settings.stop_without_policy:
        text = "No policy of the company says anything about this request, and without one nothing is booked."
        remedy = "Ask your travel desk, or say more about the trip."
        return failed(run, STEP, Failure(code=NO_POLICY, text=text, remedy=remedy), audit=(entry,))
    passages = [each.citation() for each in found.chunks]
    return Next("retrieved", {"passages": passages, "policy_confidence": found.confidence}, writes=(entry,))


def _told(found: Retrieved) -> dict[str, object]:
    return {
        "chunks_retrieved": len(found.chunks),
        "max_similarity": round(found.max_similarity, 4),
        "confidence": found.confidence,
        "chunks": [
            {"id": str(each.id), "section": each.section_title, "similarity": round(each.similarity, 4)}
            for each in found.chunks
        ],
    }
