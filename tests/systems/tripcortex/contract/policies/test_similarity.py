"""Pattern A1, the similarity search of every booking, on PostgreSQL: results, filters, index recall."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import UUID, uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.runtime import factory
from tests.postgres import connect
from tests.systems.tripcortex.contract.policies.knowledge_base import (
    AXES,
    BEGAN,
    Base,
    FakeParser,
    make_paragraph,
    make_vector,
    open_base,
)
from tripcortex.model.policies import patterns
from tripcortex.model.policies.schema import DIMENSIONS, NewChunk, NewPolicy, PolicyStatus, SimilarChunk
from tripcortex.policies.ingestion import Upload
from tripcortex.policies.retrieval import retrieve

NOW = datetime.fromtimestamp(BEGAN, UTC)


def insert_policy(base: Base, *, status: PolicyStatus = PolicyStatus.ready, serves: bool = True) -> UUID:
    """Insert a policy row without chunks, in this status."""
    policy_id = uuid4()
    new = NewPolicy(id=policy_id, source_s3_uri="s3://b/k", file_name="policy.md")
    base.run(base.stores.run(patterns.create_policy(new, NOW)))
    base.rows(
        "UPDATE tripcortex.policies SET status = %s, serves = %s WHERE id = %s", status, serves, policy_id
    )
    return policy_id


def insert_chunks(base: Base, policy_id: UUID, vectors: Sequence[str]) -> list[UUID]:
    """Insert one chunk per vector; return their ids."""
    ids = [uuid4() for _ in vectors]
    chunks = [
        NewChunk(
            id=id,
            content_type="text",
            content_text=f"Text {number}",
            source_page=number,
            section_title=f"Section {number}",
            reading_order=number,
            bda_entity_id=f"e-{number}",
            bda_entity_subtype="PARAGRAPH",
            embedding=each,
            metadata={},
        )
        for number, (id, each) in enumerate(zip(ids, vectors, strict=True), start=1)
    ]
    base.run(base.stores.run(patterns.insert_chunks(policy_id, chunks, NOW)))
    return ids


@pytest.fixture
def clean(base: Base) -> Base:
    """Return the base without policies."""
    base.rows("DELETE FROM tripcortex.policies")
    return base


@pytest.mark.proves("TC-39", "TC-40", "TC-43", "TC-46")
def test_returns_the_documented_columns_by_descending_similarity(clean: Base) -> None:
    at_60_degrees = make_vector(0.5, math.sqrt(0.75))
    ids = insert_chunks(clean, insert_policy(clean), [at_60_degrees, make_vector(0, 1), make_vector(2)])
    found = clean.run(clean.stores.run(patterns.similar_chunks(make_vector(1), threshold=-1)))
    assert list(SimilarChunk.model_fields) == [
        "id",
        "content_text",
        "section_title",
        "source_page",
        "content_type",
        "bda_entity_subtype",
        "similarity",
    ]
    assert [each.id for each in found] == [ids[2], ids[0], ids[1]]
    assert [round(each.similarity, 6) for each in found] == [1, 0.5, 0]
    assert found[1] == SimilarChunk(
        id=ids[0],
        content_text="Text 1",
        section_title="Section 1",
        source_page=1,
        content_type="text",
        bda_entity_subtype="PARAGRAPH",
        similarity=found[1].similarity,
    )


@pytest.mark.proves("TC-41", "TC-42", "TC-44")
def test_threshold_is_inclusive_and_five_rows_are_the_default(clean: Base) -> None:
    near = [make_vector(1, each / 100) for each in range(6)]
    below = make_vector(0.6, 0.8)
    insert_chunks(clean, insert_policy(clean), [*near, below])

    def count(asked: str, **how: float) -> int:
        return len(clean.run(clean.stores.run(patterns.similar_chunks(asked, **how))))  # type: ignore[arg-type]

    assert count(make_vector(1)) == 5
    assert count(make_vector(1), top_k=10) == 6
    # The default threshold is above the last row's 0.6 and below the next.
    assert count(make_vector(1), top_k=10, threshold=0.64) == 6
    exact = clean.rows("SELECT 1 - (%s::vector <=> %s::vector)", below, make_vector(1))[0][0]
    assert count(make_vector(1), top_k=10, threshold=exact) == 7
    assert count(make_vector(1), top_k=10, threshold=math.nextafter(exact, 1)) == 6
    assert count(make_vector(0, 0, 1)) == 0


@pytest.mark.proves("TC-X18")
def test_finds_only_matching_chunks_of_active_editions(clean: Base) -> None:
    insert_chunks(clean, insert_policy(clean, status=PolicyStatus.processing, serves=False), [make_vector(1)])
    insert_chunks(clean, insert_policy(clean, status=PolicyStatus.failed, serves=False), [make_vector(1)])
    insert_chunks(clean, insert_policy(clean, serves=False), [make_vector(1)])
    one, other = insert_policy(clean), insert_policy(clean)
    [mine], [theirs] = (
        insert_chunks(clean, one, [make_vector(1)]),
        insert_chunks(clean, other, [make_vector(1, 0.1)]),
    )

    def search_chunks(**how: object) -> set[UUID]:
        rows = clean.run(clean.stores.run(patterns.similar_chunks(make_vector(1), **how)))  # type: ignore[arg-type]
        return {each.id for each in rows}

    assert search_chunks() == {mine, theirs}
    assert search_chunks(policy_ids=[other]) == {theirs}
    assert search_chunks(policy_ids=[]) == set()
    clean.rows("UPDATE tripcortex.policies SET embedding_model = 'nova' WHERE id = %s", one)
    assert search_chunks(model_id="nova") == {mine}


@pytest.mark.proves("TC-47", "TC-48", "TC-X19")
def test_inserts_chunks_in_one_statement_and_deletes_them_by_policy(clean: Base) -> None:
    mine, others = insert_policy(clean), insert_policy(clean)
    insert_chunks(clean, mine, [make_vector(1, each) for each in range(30)])
    insert_chunks(clean, others, [make_vector(1)])
    written = (
        "SELECT count(*), min(created_at), max(updated_at) FROM tripcortex.policy_chunks WHERE policy_id = %s"
    )
    assert clean.rows(written, mine) == [(30, NOW, NOW)]
    assert clean.run(clean.stores.run(patterns.delete_chunks(mine))) == 30
    assert clean.rows("SELECT policy_id FROM tripcortex.policy_chunks") == [(others,)]


# --- the index ----------------------------------------------------------------------------------------------

COUNT = 2_400
CLUSTERS = 40
QUESTIONS = 30


def normalize(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale each row to length 1."""
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def format_vector(row: NDArray[np.float64]) -> str:
    return f"[{','.join(f'{value:.6g}' for value in row)}]"


@pytest.mark.proves("TC-35", "TC-X16")
def test_index_agrees_with_an_exact_search() -> None:
    """At least 98 % of the nearest are found, although most near vectors do not serve.

    Vectors are clustered as texts are, and the nearest are mostly inactive: a plain index scan would stop too
    early.
    """
    chance = np.random.default_rng(7)
    # Only 64 of the 1,024 dimensions are non-zero: the index builds faster, and no angle changes.
    centres = normalize(chance.normal(size=(CLUSTERS, 64)))
    rows = normalize(np.repeat(centres, COUNT // CLUSTERS, axis=0) + 0.08 * chance.normal(size=(COUNT, 64)))
    padded = np.hstack([rows, np.zeros((COUNT, DIMENSIONS - 64))])
    asked = normalize(
        centres[chance.integers(0, CLUSTERS, QUESTIONS)] + 0.08 * chance.normal(size=(QUESTIONS, 64))
    )
    with open_base() as base:
        serving = insert_policy(base)
        hidden = [insert_policy(base, serves=False) for _ in range(4)]
        owners = [serving if number % 25 == 0 else hidden[number % 4] for number in range(COUNT)]
        ids: list[UUID] = [uuid4()] * COUNT
        with index_after(base):
            for owner in (serving, *hidden):
                places = [number for number in range(COUNT) if owners[number] == owner]
                put_ids = insert_chunks(base, owner, [format_vector(padded[number]) for number in places])
                for number, id in zip(places, put_ids, strict=True):
                    ids[number] = id
        use_index(base)
        served = np.array([owner == serving for owner in owners])
        hits, wanted = 0, 0
        for question in asked:
            similarities = np.where(served, rows @ question, -2)
            threshold = float(np.sort(similarities)[-8]) - 1e-4
            exact = {
                ids[place] for place in np.argsort(-similarities)[:5] if similarities[place] >= threshold
            }
            text = format_vector(np.concatenate([question, np.zeros(DIMENSIONS - 64)]))
            found = base.run(base.stores.run(patterns.similar_chunks(text, threshold=threshold)))
            assert [each.similarity for each in found] == sorted(
                (each.similarity for each in found), reverse=True
            )
            hits, wanted = hits + len(exact & {each.id for each in found}), wanted + len(exact)
            # Above the nearest there is nothing: the result is empty.
            assert base.run(base.stores.run(patterns.similar_chunks(text, threshold=0.9999))) == ()
        assert wanted == 5 * QUESTIONS
        assert hits / wanted >= 0.98


@contextmanager
def index_after(base: Base) -> Iterator[None]:
    """Build the index at the end, which is faster than row by row."""
    [(definition,)] = base.rows(
        "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_policy_chunks_embedding'"
    )
    base.rows("DROP INDEX tripcortex.idx_policy_chunks_embedding")
    yield
    base.rows(definition)


@pytest.mark.proves("TC-X17")
def test_index_needs_no_maintenance_after_a_policy_was_replaced() -> None:
    """Rows of another kind than those at the creation of the index are found, without VACUUM or REINDEX."""
    with open_base() as base:
        # The index exists from the migration on, so before any row.
        insert_chunks(base, insert_policy(base), [make_vector(1, number) for number in range(200)])
        base.rows("DELETE FROM tripcortex.policies")
        serving = insert_policy(base)
        wanted = insert_chunks(base, serving, [make_vector(number, 1) for number in range(50, 250)])
        use_index(base)
        base.rows("ALTER TABLE tripcortex.policy_chunks SET (autovacuum_enabled = off)")
        found = base.run(base.stores.run(patterns.similar_chunks(make_vector(249, 1), top_k=100)))
        assert [each.id for each in found] == wanted[:-101:-1]


@pytest.mark.proves("TC-X28")
def test_vectors_are_in_sql_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy is ingested and found while no key-value store can be opened."""

    def refuse(*given: object) -> None:
        raise AssertionError("The tables store was opened.")

    monkeypatch.setattr(factory, "open_tables_engine", refuse)
    with open_base() as base:
        base.add_policy(Upload("p.md", b"# Policy"), FakeParser([make_paragraph("Fly economy.", 1)]), AXES)
        found = base.run(retrieve(base.stores, AXES, "economy?"))
        assert [each.content_text for each in found.chunks] == ["Fly economy."]


def use_index(base: Base) -> None:
    """Make new connections prefer the index: at this size PostgreSQL would choose an exact scan."""
    name = base.rows("SELECT current_database()")[0][0]
    for setting in ("enable_seqscan", "enable_sort", "enable_bitmapscan"):
        base.rows(f"ALTER DATABASE {name} SET {setting} = off")
    base.rows("ANALYZE tripcortex.policy_chunks")
    base.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid "
        "<> pg_backend_pid()"
    )
    asked = patterns.similar_chunks(make_vector(1))
    with connect(base.url) as connection:
        parameters = {**asked.parameters, "policy_ids": None}
        plan = connection.execute(f"EXPLAIN {asked.text}".encode(), parameters).fetchall()
    assert "Index Scan using idx_policy_chunks_embedding" in "\n".join(line for (line,) in plan)


@pytest.mark.proves("TC-99")
def test_a_thousand_vectors_take_the_documented_space(clean: Base) -> None:
    """A vector takes 4 KB, all of them 4 MB; the index about twice that."""
    chance = np.random.default_rng(11)
    vectors = [format_vector(row) for row in normalize(chance.normal(size=(1_000, DIMENSIONS)))]
    with index_after(clean):
        for _ in range(5):
            insert_chunks(clean, insert_policy(clean), [vectors.pop() for _ in range(200)])
    one, whole = clean.rows(
        "SELECT max(pg_column_size(embedding)), sum(pg_column_size(embedding)) FROM tripcortex.policy_chunks"
    )[0]
    assert 4_096 <= one <= 4_200
    assert 3.9e6 <= whole <= 4.3e6
    [(index,)] = clean.rows("SELECT pg_relation_size('tripcortex.idx_policy_chunks_embedding')")
    assert 4e6 <= index <= 16e6
