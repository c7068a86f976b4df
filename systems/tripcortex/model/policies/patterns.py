"""Access patterns of policies and their chunks: A1 to A6 of the design document, and additions.

Every booking runs A1. The design document filters by similarity before sorting, but an HNSW index returns
`hnsw.ef_search` candidates, nearest first, and filters are applied afterwards. A1 therefore selects the
nearest chunks in a subquery and applies the threshold to them, which gives the same rows;
`hnsw.iterative_scan` lets the index continue when candidates belong to policies that do not serve. Both
settings must apply to this statement only: the subquery that supplies the vector sets them, and no index scan
starts before it has its vector. If the index scan returns fewer rows than requested, A1 scans all serving
chunks: an index with many copies of the same vector, as after many uploads of one file, has entries that no
index scan reaches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from holdfast import Pattern, Rate, pattern
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRows
from tripcortex.domain.policy_search.query_words import QueryWords
from tripcortex.model.policies.schema import (
    DIMENSIONS,
    THRESHOLD,
    TOP_K,
    FoundChunk,
    KeptEdition,
    NewChunk,
    NewPolicy,
    Policy,
    PolicyStatus,
    ServingRules,
    SimilarChunk,
    WordedChunk,
    tripcortex,
)

BOOKING: Final = Rate(per="booking request")
UPLOAD: Final = Rate(per="policy upload")
BATCH: Final = Rate(per="batch of chunks")
ADMIN: Final = Rate(per="look by an administrator")
POLL: Final = Rate(per="poll of the orchestrator")

# Index candidates. The default is 40; 100 take 0.1 ms longer and miss fewer chunks.
EF_SEARCH: Final = 100
MAX_EF_SEARCH: Final = 1000
MAX_LIST: Final = 500
# The PostgreSQL NOTIFY channel that announces policies to ingest.
UPLOAD_CHANNEL: Final = "tripcortex_policies"
# The number of distinct words in an average chunk, for BM25.
USUAL_WORD_COUNT: Final = 30.0

# The allowed previous statuses. A failed policy may be retried; an abandoned one returns to pending.
PREDECESSORS: Final[Mapping[PolicyStatus, tuple[PolicyStatus, ...]]] = {
    PolicyStatus.pending: (PolicyStatus.processing,),
    PolicyStatus.processing: (PolicyStatus.pending, PolicyStatus.failed),
    PolicyStatus.ready: (PolicyStatus.processing,),
    PolicyStatus.failed: (PolicyStatus.processing,),
}

_NOW: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
_ID: Final = UUID("018f3c1e-0000-7000-8000-000000000001")
_DOCUMENT: Final = UUID("018f3c1e-0000-7000-8000-000000000002")
_VECTOR: Final = f"[{','.join(['1'] + ['0'] * (DIMENSIONS - 1))}]"


# --- questions --------------------------------------------------------------------------------------------


@pattern("A1", "Find relevant policy chunks for a user query", rate=BOOKING, example=(_VECTOR,))
def similar_chunks(
    embedding: str,
    *,
    threshold: float = THRESHOLD,
    top_k: int = TOP_K,
    policy_ids: Sequence[UUID] | None = None,
    model_id: str | None = None,
) -> SqlRows[SimilarChunk]:
    """Search serving policies, or exactly `policy_ids`, whether they still serve or not.

    With `policy_ids` several queries use the same editions. Only policies whose vectors were made by
    `model_id` are searched.
    """
    return tripcortex.rows(
        SimilarChunk,
        """WITH asked AS MATERIALIZED (
               SELECT CASE WHEN set_config('hnsw.iterative_scan', 'strict_order', true) IS NOT NULL
                   AND set_config('hnsw.ef_search', %(ef_search)s, true) IS NOT NULL
                   THEN %(embedding)s::vector END AS embedding
           ), walked AS MATERIALIZED (
               SELECT id, embedding <=> (TABLE asked) AS distance
               FROM tripcortex.policy_chunks
               WHERE policy_id = ANY(ARRAY(
                   SELECT id FROM tripcortex.policies
                   WHERE status = 'ready'
                       AND (id = ANY(%(policy_ids)s::uuid[]) OR %(policy_ids)s::uuid[] IS NULL AND serves)
                       AND (%(model_id)s::text IS NULL OR embedding_model = %(model_id)s::text)))
               ORDER BY embedding <=> (TABLE asked)
               LIMIT %(top_k)s
           ), nearest AS (
               SELECT id, distance FROM walked WHERE (SELECT count(*) FROM walked) = %(top_k)s
               UNION ALL
               (SELECT id, embedding <=> (TABLE asked) AS distance
                FROM tripcortex.policy_chunks
                WHERE (SELECT count(*) FROM walked) < %(top_k)s AND policy_id = ANY(ARRAY(
                    SELECT id FROM tripcortex.policies
                    WHERE status = 'ready'
                        AND (id = ANY(%(policy_ids)s::uuid[]) OR %(policy_ids)s::uuid[] IS NULL AND serves)
                        AND (%(model_id)s::text IS NULL OR embedding_model = %(model_id)s::text)))
                ORDER BY (embedding <=> (TABLE asked)) + 0
                LIMIT %(top_k)s)
           )
           SELECT id, content_text, section_title, source_page, content_type, bda_entity_subtype,
               1 - distance AS similarity
           FROM nearest JOIN tripcortex.policy_chunks USING (id)
           WHERE 1 - distance >= %(threshold)s ORDER BY distance, id""",
        embedding=embedding,
        threshold=threshold,
        top_k=top_k,
        policy_ids=None if policy_ids is None else tuple(policy_ids),
        model_id=model_id,
        ef_search=str(min(max(EF_SEARCH, 2 * top_k), MAX_EF_SEARCH)),
    )


@pattern(
    "A7",
    "Find policy chunks by the words of a question",
    rate=BOOKING,
    example=(QueryWords("checked bags", "checked bags", ("checked bags",), "baggage luggage"), _VECTOR),
)
def worded_chunks(
    asked: QueryWords,
    embedding: str,
    *,
    top_k: int = 50,
    policy_ids: Sequence[UUID] | None = None,
    model_id: str | None = None,
) -> SqlRows[WordedChunk]:
    """Match any word of the question or, with half the weight, any synonym. Searches the same policies as A1.

    Ranked by BM25, because `ts_rank` ignores how rare a word is: a word weighs more the fewer chunks contain
    it, gains little from repetition, and weighs less in a long chunk. A word in the heading counts twice. Two
    words that are adjacent as in the question add the weight of a rarer word. `share` is the part of the
    question that a chunk covers: the weights of its words divided by the weights of all words, where a word
    that no chunk contains weighs most.
    """
    return tripcortex.rows(
        WordedChunk,
        """WITH serving AS MATERIALIZED (
               SELECT id, total_chunks FROM tripcortex.policies
               WHERE status = 'ready'
                   AND (id = ANY(%(policy_ids)s::uuid[]) OR %(policy_ids)s::uuid[] IS NULL AND serves)
                   AND (%(model_id)s::text IS NULL OR embedding_model = %(model_id)s::text)
           ), size AS MATERIALIZED (
               SELECT coalesce(sum(total_chunks), 0)::float8 AS chunks FROM serving
           ), term AS MATERIALIZED (
               SELECT lexeme, max(share) AS share, bool_or(says) AS says FROM (
                   SELECT lexeme, 1.0 AS share, false AS says FROM unnest(to_tsvector('english',
                       %(question)s))
                   UNION ALL SELECT lexeme, 1.0, true FROM unnest(to_tsvector('english', %(says)s))
                   UNION ALL SELECT lexeme, 0.5, false FROM unnest(to_tsvector('english', %(added)s))
               ) AS said GROUP BY lexeme
           ), hit AS MATERIALIZED (
               SELECT chunk.id, word.lexeme, length(chunk.words) / %(usual)s::float8 AS length,
                   (SELECT sum(CASE each WHEN 'A' THEN 2 WHEN 'B' THEN 1 ELSE 0.2 END)
                       FROM unnest(word.weights) AS each)
                       ::float8 AS often
               FROM tripcortex.policy_chunks AS chunk
               CROSS JOIN LATERAL unnest(chunk.words) AS word
               WHERE chunk.words @@ (
                       SELECT string_agg('''' || replace(replace(lexeme, '\\', '\\\\'), '''',
                           '''''') || '''', ' | ')::tsquery
                       FROM term)
                   AND chunk.policy_id = ANY(ARRAY(SELECT id FROM serving))
                   AND word.lexeme = ANY(ARRAY(SELECT lexeme FROM term))
           ), weight AS MATERIALIZED (
               SELECT lexeme, says, share * ln(1 + (SELECT chunks FROM size) / greatest(count(id), 1))
                   AS weight
               FROM term LEFT JOIN hit USING (lexeme) GROUP BY lexeme, says, share
           ), beside AS MATERIALIZED (
               SELECT chunk.id, pair
               FROM (SELECT DISTINCT phraseto_tsquery('english', each) AS pair
                   FROM unnest(%(pairs)s::text[]) AS each) AS asked
               JOIN tripcortex.policy_chunks AS chunk ON chunk.words @@ pair
               WHERE numnode(pair) > 1 AND chunk.policy_id = ANY(ARRAY(SELECT id FROM serving))
           ), score AS (
               SELECT hit.id, weight * often * 2.2 / (often + 1.2 * (0.4 + 0.6 * length)) AS score,
                   CASE WHEN says THEN weight ELSE 0 END AS said
               FROM hit JOIN weight USING (lexeme)
               UNION ALL
               SELECT id, ln(1 + (SELECT chunks FROM size) / count(*) OVER (PARTITION BY pair)), 0 FROM beside
           ), ranked AS (
               SELECT id, sum(score) AS rank, sum(said) / (SELECT sum(weight) FROM weight WHERE says) AS share
               FROM score GROUP BY id ORDER BY rank DESC, id LIMIT %(top_k)s
           )
           SELECT ranked.id, chunk.bda_entity_subtype, ranked.rank::float8, coalesce(ranked.share,
               0)::float8 AS share,
               1 - (chunk.embedding <=> %(embedding)s::vector) AS similarity
           FROM ranked JOIN tripcortex.policy_chunks AS chunk USING (id)
           ORDER BY ranked.rank DESC, ranked.id""",
        question=asked.question,
        says=asked.keywords,
        added=asked.synonyms,
        pairs=asked.pairs,
        usual=USUAL_WORD_COUNT,
        embedding=embedding,
        top_k=top_k,
        policy_ids=None if policy_ids is None else tuple(policy_ids),
        model_id=model_id,
    )


@pattern("A8", "Get chunks with what a citation needs", rate=BOOKING, example=((_ID,), _VECTOR))
def found_chunks(ids: Sequence[UUID], embedding: str) -> SqlRows[FoundChunk]:
    return tripcortex.rows(
        FoundChunk,
        """SELECT chunk.id, chunk.policy_id, policy.file_name, chunk.content_text, chunk.section_title,
               chunk.source_page, chunk.content_type, chunk.bda_entity_subtype, chunk.reading_order,
                   chunk.metadata,
               1 - (chunk.embedding <=> %(embedding)s::vector) AS similarity
           FROM tripcortex.policy_chunks AS chunk JOIN tripcortex.policies AS policy
               ON policy.id = chunk.policy_id
           WHERE chunk.id = ANY(%(ids)s::uuid[])""",
        ids=tuple(ids),
        embedding=embedding,
    )


@pattern("A19", "Get the tables in the sections of chunks", rate=BOOKING, example=((_ID,), _VECTOR))
def tables_beside(ids: Sequence[UUID], embedding: str) -> SqlRows[FoundChunk]:
    """A rule's numbers are often in a table below it, whose own words are not similar to the question."""
    return tripcortex.rows(
        FoundChunk,
        """SELECT DISTINCT chunk.id, chunk.policy_id, policy.file_name, chunk.content_text, chunk.section_title,
               chunk.source_page, chunk.content_type, chunk.bda_entity_subtype, chunk.reading_order,
                   chunk.metadata,
               1 - (chunk.embedding <=> %(embedding)s::vector) AS similarity
           FROM tripcortex.policy_chunks AS found
           JOIN tripcortex.policy_chunks AS chunk
               ON chunk.policy_id = found.policy_id AND chunk.section_title = found.section_title
           JOIN tripcortex.policies AS policy ON policy.id = chunk.policy_id
           WHERE found.id = ANY(%(ids)s::uuid[]) AND chunk.content_type = 'table'
               AND NOT chunk.id = ANY(%(ids)s::uuid[])
           ORDER BY chunk.policy_id, chunk.reading_order, chunk.id""",  # noqa: E501
        ids=tuple(ids),
        embedding=embedding,
    )


@pattern(
    "A20", "List the serving editions, to query the same ones several times", rate=BOOKING, example=("axes",)
)
def kept_editions(model_id: str, asked: Sequence[UUID] = ()) -> SqlRows[KeptEdition]:
    """Return the serving editions with vectors of `model_id`, and those of `asked` that have their chunks."""
    return tripcortex.rows(
        KeptEdition,
        """SELECT id, serves AND embedding_model = %(model_id)s::text AS serves FROM tripcortex.policies
           WHERE serves AND embedding_model = %(model_id)s::text
               OR id = ANY(%(asked)s::uuid[]) AND status = 'ready' AND retired_at IS NULL
           ORDER BY id""",
        model_id=model_id,
        asked=tuple(asked),
    )


@pattern("A9", "List the machine-readable rules of serving policies, newest first", rate=BOOKING, example=())
def serving_rules() -> SqlRows[ServingRules]:
    return tripcortex.rows(
        ServingRules,
        """SELECT id, file_name, coalesce(rules, '{}'::jsonb) AS rules FROM tripcortex.policies
           WHERE serves AND rules IS NOT NULL ORDER BY created_at DESC, id""",
    )


# --- chunks -----------------------------------------------------------------------------------------------


@pattern("A2", "Delete all chunks for a policy (re-ingestion)", rate=UPLOAD, example=(_ID,))
def delete_chunks(policy_id: UUID) -> SqlChange:
    return tripcortex.change(
        "DELETE FROM tripcortex.policy_chunks WHERE policy_id = %(policy_id)s", policy_id=policy_id
    ).idempotent()


def _build_example_chunks() -> tuple[Any, ...]:
    """Return the arguments of a pattern's example: one chunk of a policy."""
    chunk = NewChunk(
        id=_ID,
        content_type="text",
        content_text="Economy class below six hours.",
        reading_order=1,
        bda_entity_id="e-1",
        bda_entity_subtype="PARAGRAPH",
        embedding=_VECTOR,
        metadata={"bounding_boxes": []},
    )
    return (_ID, (chunk,), _NOW)


@pattern("A3", "Insert chunks during ingestion", rate=BATCH, example=_build_example_chunks)
def insert_chunks(policy_id: UUID, chunks: Sequence[NewChunk], at: datetime) -> SqlChange:
    """Insert all chunks in one statement."""
    return tripcortex.change(
        """INSERT INTO tripcortex.policy_chunks (id, policy_id, content_type, content_text, source_page, section_title,
               reading_order, bda_entity_id, bda_entity_subtype, embedding, metadata, created_at, updated_at)
           SELECT new.id, %(policy_id)s, new.content_type, new.content_text, new.source_page,
               new.section_title,
               new.reading_order, new.entity_id, new.subtype, new.embedding::vector, new.metadata::jsonb,
                   %(at)s, %(at)s
           FROM unnest(%(ids)s::uuid[], %(content_types)s::text[], %(texts)s::text[], %(pages)s::int[],
               %(titles)s::text[], %(orders)s::int[], %(entity_ids)s::text[], %(subtypes)s::text[],
               %(embeddings)s::text[], %(metadata)s::text[])
               AS new (id, content_type, content_text, source_page, section_title, reading_order, entity_id,
                   subtype,
                   embedding, metadata)""",  # noqa: E501
        policy_id=policy_id,
        at=at,
        ids=tuple(each.id for each in chunks),
        content_types=tuple(each.content_type for each in chunks),
        texts=tuple(each.content_text for each in chunks),
        pages=tuple(each.source_page for each in chunks),
        titles=tuple(each.section_title for each in chunks),
        orders=tuple(each.reading_order for each in chunks),
        entity_ids=tuple(each.bda_entity_id for each in chunks),
        subtypes=tuple(each.bda_entity_subtype for each in chunks),
        embeddings=tuple(each.embedding for each in chunks),
        metadata=tuple(json.dumps(each.metadata) for each in chunks),
    )


# --- policies ---------------------------------------------------------------------------------------------


@pattern("A4", "Track policy ingestion status", rate=UPLOAD, example=(_ID,))
def policy(policy_id: UUID) -> SqlOne[Policy]:
    return tripcortex.one(
        Policy, "SELECT {columns} FROM tripcortex.policies WHERE id = %(policy_id)s", policy_id=policy_id
    )


@pattern("A5", "List all policies", rate=ADMIN, example=())
def policies(*, limit: int = MAX_LIST) -> SqlRows[Policy]:
    """The oldest upload first."""
    return tripcortex.rows(
        Policy,
        "SELECT {columns} FROM tripcortex.policies ORDER BY created_at, id LIMIT %(limit)s",
        limit=limit,
    )


@pattern("A6", "Get policy by status", rate=POLL, example=(PolicyStatus.pending,))
def policies_in(status: PolicyStatus, *, limit: int = MAX_LIST) -> SqlRows[Policy]:
    return tripcortex.rows(
        Policy,
        """SELECT {columns} FROM tripcortex.policies WHERE status = %(status)s
           ORDER BY created_at, id LIMIT %(limit)s""",
        status=status,
        limit=limit,
    )


def _build_example_policy() -> tuple[NewPolicy, datetime]:
    """Return the arguments of a pattern's example: a new policy and its time."""
    uri = "s3://tripcortex-policies/policies/018f3c1e/source"
    return NewPolicy(id=_ID, source_s3_uri=uri, file_name="travel-policy.pdf", uploaded_by="emp-42"), _NOW


@pattern(
    "A10",
    "Record an uploaded policy: the first edition of a document",
    rate=UPLOAD,
    example=_build_example_policy,
)
def create_policy(new: NewPolicy, at: datetime, *, wakes: bool = True) -> SqlReturning[Policy]:
    """If `wakes` is set, the commit notifies the ingestion worker."""
    return tripcortex.returning(
        Policy,
        """WITH made AS (
               INSERT INTO tripcortex.policies
                   (id, document_id, source_s3_uri, file_name, uploaded_by, rules, bda_project_arn,
                       created_at, updated_at)
               VALUES (%(id)s, %(id)s, %(source_s3_uri)s, %(file_name)s, %(uploaded_by)s, %(rules)s,
                   %(bda_project_arn)s,
                   %(at)s, %(at)s)
               RETURNING {columns}
           )
           SELECT {columns} FROM made
           WHERE CASE WHEN %(wakes)s THEN pg_notify(%(channel)s, '') IS NOT NULL ELSE true END""",
        **new.model_dump(),
        at=at,
        wakes=wakes,
        channel=UPLOAD_CHANNEL,
    )


@pattern(
    "A11",
    "Record an uploaded policy: the next edition of a document",
    rate=UPLOAD,
    example=lambda: (*_build_example_policy(), _DOCUMENT),
)
def create_edition(new: NewPolicy, at: datetime, document_id: UUID) -> SqlReturning[Policy]:
    """Insert the next edition and notify the ingestion worker. Nothing is inserted for an unknown document.

    Of two concurrent calls one fails with `RowAlreadyExists`.
    """
    return tripcortex.returning(
        Policy,
        """WITH made AS (
               INSERT INTO tripcortex.policies (id, document_id, edition, source_s3_uri, file_name,
                   uploaded_by, rules,
                   bda_project_arn, created_at, updated_at)
               SELECT %(id)s, document_id, max(edition) + 1, %(source_s3_uri)s, %(file_name)s,
                   %(uploaded_by)s,
                   %(rules)s::jsonb, %(bda_project_arn)s, %(at)s::timestamptz, %(at)s::timestamptz
               FROM tripcortex.policies WHERE document_id = %(document_id)s GROUP BY document_id
               RETURNING {columns}
           )
           SELECT {columns} FROM made WHERE pg_notify(%(channel)s, '') IS NOT NULL""",
        **new.model_dump(),
        at=at,
        document_id=document_id,
        channel=UPLOAD_CHANNEL,
    ).expect_rows(1)


@pattern(
    "A12",
    "Change a policy's status if its version is unchanged",
    rate=UPLOAD,
    example=(_ID, 1, PolicyStatus.processing, _NOW),
)
def advance(
    policy_id: UUID,
    seen: int,
    status: PolicyStatus,
    at: datetime,
    *,
    error_message: str | None = None,
    embedding_model: str | None = None,
) -> SqlReturning[Policy]:
    """Compare and set: another version or a forbidden status change fails with `ConditionFailed`.

    A change to `processing` counts as an attempt.
    """
    return tripcortex.returning(
        Policy,
        """UPDATE tripcortex.policies
           SET status = %(status)s::text, error_message = %(error_message)s::text, updated_at = %(at)s,
               version = version + 1, attempts = attempts + CASE WHEN %(status)s::text = 'processing' THEN 1
                   ELSE 0 END,
               embedding_model = coalesce(%(embedding_model)s::text, embedding_model)
           WHERE id = %(policy_id)s AND version = %(seen)s AND status = ANY(%(from)s::text[]) AND NOT serves
           RETURNING {columns}""",
        **{"from": tuple(each.value for each in PREDECESSORS[status])},
        policy_id=policy_id,
        seen=seen,
        status=status,
        at=at,
        error_message=error_message,
        embedding_model=embedding_model,
    ).expect_rows(1)


@pattern("A13", "Record the progress of a policy's ingestion", rate=BATCH, example=(_ID, 2, 100, 12, _NOW))
def note_progress(policy_id: UUID, seen: int, chunks: int, pages: int | None, at: datetime) -> SqlChange:
    """Precede the insert of each batch in its transaction.

    A worker that lost the policy cannot write any more.
    """
    return tripcortex.change(
        """UPDATE tripcortex.policies
           SET total_chunks = %(chunks)s, total_pages = coalesce(%(pages)s::int, total_pages),
               updated_at = %(at)s
           WHERE id = %(policy_id)s AND version = %(seen)s AND status = 'processing'""",
        policy_id=policy_id,
        seen=seen,
        chunks=chunks,
        pages=pages,
        at=at,
    ).expect_rows(1)


@pattern(
    "A14",
    "Lock all editions of a document, newest first, to change which one serves",
    rate=UPLOAD,
    example=(_DOCUMENT,),
)
def locked_editions(document_id: UUID) -> SqlRows[Policy]:
    """Other transactions that want the lock wait until this one ends."""
    return tripcortex.rows(
        Policy,
        """SELECT {columns} FROM tripcortex.policies WHERE document_id = %(document_id)s
           ORDER BY edition DESC FOR UPDATE""",
        document_id=document_id,
    )


@pattern("A15", "Start or stop serving an edition", rate=UPLOAD, example=(_ID, 2, True, _NOW))
def set_serving(policy_id: UUID, seen: int, serves: bool, at: datetime) -> SqlReturning[Policy]:
    """Only a ready edition serves: this makes a processing one ready."""
    return tripcortex.returning(
        Policy,
        """UPDATE tripcortex.policies
           SET serves = %(serves)s, status = CASE WHEN %(serves)s THEN 'ready' ELSE status END,
               error_message = NULL,
               updated_at = %(at)s, version = version + 1
           WHERE id = %(policy_id)s AND version = %(seen)s AND status IN ('processing', 'ready')
           RETURNING {columns}""",
        policy_id=policy_id,
        seen=seen,
        serves=serves,
        at=at,
    ).expect_rows(1)


@pattern(
    "A16", "Retire an edition: its chunks are deleted, its row remains", rate=UPLOAD, example=(_ID, _NOW)
)
def retire(policy_id: UUID, at: datetime) -> SqlChange:
    return tripcortex.change(
        """UPDATE tripcortex.policies SET retired_at = %(at)s, updated_at = %(at)s, version = version + 1
           WHERE id = %(policy_id)s AND NOT serves AND retired_at IS NULL""",
        policy_id=policy_id,
        at=at,
    )


@pattern(
    "A17", "Set the machine-readable rules of a policy", rate=ADMIN, example=(_ID, 2, {"rules": []}, _NOW)
)
def set_rules(policy_id: UUID, seen: int, rules: dict[str, Any], at: datetime) -> SqlReturning[Policy]:
    return tripcortex.returning(
        Policy,
        """UPDATE tripcortex.policies SET rules = %(rules)s, updated_at = %(at)s, version = version + 1
           WHERE id = %(policy_id)s AND version = %(seen)s RETURNING {columns}""",
        policy_id=policy_id,
        seen=seen,
        rules=rules,
        at=at,
    ).expect_rows(1)


@pattern("A18", "Delete a policy and its chunks", rate=ADMIN, example=(_ID, 2))
def delete_policy(policy_id: UUID, seen: int) -> SqlChange:
    return tripcortex.change(
        "DELETE FROM tripcortex.policies WHERE id = %(policy_id)s AND version = %(seen)s",
        policy_id=policy_id,
        seen=seen,
    ).expect_rows(1)


QUESTION_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    similar_chunks,
    worded_chunks,
    found_chunks,
    tables_beside,
    kept_editions,
    serving_rules,
)
READ_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (*QUESTION_PATTERNS, policy, policies, policies_in)
WRITE_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    delete_chunks,
    insert_chunks,
    create_policy,
    create_edition,
    advance,
    note_progress,
    set_serving,
    retire,
    set_rules,
    delete_policy,
)
LOCK_PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (locked_editions,)
PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (*READ_PATTERNS, *LOCK_PATTERNS, *WRITE_PATTERNS)
