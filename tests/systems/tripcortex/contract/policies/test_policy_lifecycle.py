"""Policies from upload to rollback on a real PostgreSQL: races, failures, and what readers see meanwhile."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    InvalidRequest,
    NotFound,
    SettingsError,
)
from tests.systems.tripcortex.contract.policies.knowledge_base import (
    AXES,
    BEGAN,
    Base,
    FakeEmbedder,
    FakeParser,
    make_paragraph,
    make_vector,
)
from tripcortex.documents import DocumentEncrypted, DocumentRefused
from tripcortex.documents.ports import CHART, Box, ContentType, ParsedEntity
from tripcortex.model.policies import files, patterns
from tripcortex.model.policies.schema import Policy, PolicyStatus
from tripcortex.policies import ingestion, uploads
from tripcortex.policies.embedding import Embedding, build_local_embedding
from tripcortex.policies.ingestion import (
    Upload,
    ingest,
    ingest_pending,
    remove,
    replace,
    roll_back,
    roll_forward,
    serve,
    sweep,
    upload,
)
from tripcortex.policies.retrieval import RetrievalMode, retrieve, run_on_fixed_editions
from tripcortex.policies.rule_proposals import Proposals
from tripcortex.policies.uploads import PolicyChanged

GIVEN = Upload("policy.md", b"# Policy", uploaded_by="emp-7", rules={"version": "1"})
ECONOMY = FakeParser([make_paragraph("Fly economy.", 1)])
BUSINESS = FakeParser(
    [make_paragraph("Business is allowed.", 1), make_paragraph("Business above six hours.", 2)]
)


@pytest.fixture(autouse=True)
def _clean(base: Base) -> None:
    """Delete all policies and reset the clock before each test."""
    base.rows("DELETE FROM tripcortex.policies")
    base.clock.at = BEGAN


def get_now(base: Base) -> datetime:
    return datetime.fromtimestamp(base.clock.now(), UTC)


def search_texts(base: Base) -> list[str]:
    """Return the passages that a question about both cabins finds."""
    found = base.run(retrieve(base.stores, AXES, "economy or business", mode="plain"))
    return [each.content_text for each in found.chunks]


def reload(base: Base, policy_id: UUID) -> Policy:
    """Read the policy again."""
    found = base.run(base.stores.run(patterns.policy(policy_id)))
    assert found is not None
    return found


def count_chunks(base: Base, policy_id: UUID) -> int:
    return int(
        base.rows("SELECT count(*) FROM tripcortex.policy_chunks WHERE policy_id = %s", policy_id)[0][0]
    )


def choose_parser(file_name: str, body: bytes) -> FakeParser:
    """Return a parser of 51 entities, the last about taxis, for taxi.md; else one of a single entity."""
    long = [make_paragraph("Economy.", number) for number in range(1, 51)]
    return FakeParser([*long, make_paragraph("Taxi.", 51)]) if file_name == "taxi.md" else ECONOMY


def upload_two(base: Base) -> tuple[UUID, UUID]:
    """Upload a policy whose second batch is about taxis, and another one after it; return their ids."""
    first = base.run(upload(base.stores, Upload("taxi.md", b"x"))).id
    base.clock.at += 1
    return first, base.run(upload(base.stores, GIVEN)).id


def make_failing_embedding(error: HoldfastError) -> Embedding:
    """Build a model that fails on texts about taxis."""

    class Failing(FakeEmbedder):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            if any("Taxi" in each for each in texts):
                raise error
            return super().embed(texts)

    return Embedding(Failing(), AXES.model_id, AXES.bounds)


# --- upload and ingestion -----------------------------------------------------------------------------------


@pytest.mark.proves("TC-21", "TC-49", "TC-X19")
def test_file_is_pending_after_upload_and_ready_after_ingestion(base: Base) -> None:
    new = base.run(upload(base.stores, GIVEN))
    assert (new.status, new.version, new.total_chunks, new.uploaded_by) == ("pending", 1, 0, "emp-7")
    assert new.source_s3_uri.startswith("s3://tripcortex-policies/policies/")
    assert base.run(base.stores.run(files.source(str(new.id)))).body == GIVEN.body
    assert search_texts(base) == []
    base.clock.at += 60
    ready = base.run(ingest(base.stores, new.id, ECONOMY, AXES))
    assert (ready.status, ready.serves, ready.total_chunks, ready.total_pages) == ("ready", True, 1, 1)
    assert ready.updated_at == get_now(base) > ready.created_at
    assert ready.embedding_model == "axes" and ready.rules == {"version": "1"}
    assert reload(base, new.id) == ready
    assert search_texts(base) == ["Fly economy."]


@pytest.mark.proves("TC-20")
def test_concurrent_change_from_the_same_version_conflicts(base: Base) -> None:
    new = base.run(upload(base.stores, GIVEN))
    change = patterns.advance(new.id, new.version, PolicyStatus.processing, get_now(base))

    async def change_twice() -> list[object]:
        return list(
            await asyncio.gather(base.stores.run(change), base.stores.run(change), return_exceptions=True)
        )

    done = base.run(change_twice())
    assert sorted(type(each).__name__ for each in done) == ["ConditionFailed", "tuple"]
    assert reload(base, new.id).version == 2
    with pytest.raises(ConditionFailed):
        base.run(base.stores.run(patterns.set_rules(new.id, 1, {}, get_now(base))))
    # An illegal transition is refused at any version.
    with pytest.raises(ConditionFailed):
        base.run(base.stores.run(patterns.advance(new.id, 2, PolicyStatus.processing, get_now(base))))


@pytest.mark.proves("TC-20")
def test_concurrent_replacements_make_editions_one_by_one_and_leave_no_file(
    base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    tried: list[UUID] = []

    def make_uuid() -> UUID:
        tried.append(uuid4())
        return tried[-1]

    monkeypatch.setattr(uploads, "make_uuid", make_uuid)

    async def replace_at_once() -> list[object]:
        return await asyncio.gather(
            *(replace(base.stores, first.id, GIVEN) for _ in range(8)), return_exceptions=True
        )

    done = base.run(replace_at_once())
    made = [each for each in done if isinstance(each, Policy)]
    assert made and all(isinstance(each, Policy | PolicyChanged) for each in done)
    assert sorted(each.edition for each in made) == list(range(2, 2 + len(made)))
    assert len(tried) == len(done)
    for lost in {*tried} - {each.id for each in made}:
        with pytest.raises(NotFound):
            base.run(base.stores.run(files.source(str(lost))))


@pytest.mark.proves("TC-20")
def test_no_change_applies_to_another_version_than_the_one_that_was_read(base: Base) -> None:
    """Each change is legal in the present status, so only the version refuses it."""
    new = base.run(upload(base.stores, GIVEN))
    now, at = get_now(base), PolicyStatus
    for status in (at.processing, at.failed, at.processing):
        (new,) = base.run(base.stores.run(patterns.advance(new.id, new.version, status, now)))
    assert new.version == 4
    for stale in (2, 5):
        for change in (
            patterns.advance(new.id, stale, at.failed, now),
            patterns.note_progress(new.id, stale, 7, 3, now),
            patterns.set_serving(new.id, stale, True, now),
            patterns.set_rules(new.id, stale, {}, now),
            patterns.delete_policy(new.id, stale),
        ):
            with pytest.raises(ConditionFailed):
                base.run(base.stores.run(change))
    assert reload(base, new.id) == new
    (failed,) = base.run(base.stores.run(patterns.advance(new.id, 4, at.failed, now)))
    assert failed.version == 5


@pytest.mark.proves("TC-20")
def test_one_of_two_concurrent_ingesters_wins(base: Base) -> None:
    new = base.run(upload(base.stores, GIVEN))

    async def ingest_twice() -> list[object]:
        return await asyncio.gather(
            *(ingest(base.stores, new.id, ECONOMY, AXES) for _ in range(2)), return_exceptions=True
        )

    assert sorted(type(each).__name__ for each in base.run(ingest_twice())) == ["ConditionFailed", "Policy"]
    assert count_chunks(base, new.id) == 1
    with pytest.raises(ConditionFailed, match="Upload a new edition"):
        base.run(ingest(base.stores, new.id, ECONOMY, AXES))


@pytest.mark.proves("TC-26", "TC-29", "TC-33", "TC-38")
def test_entity_row_has_its_position_and_a_figure_its_stored_picture(base: Base) -> None:
    figure = ParsedEntity(
        ContentType.figure,
        "Taxi or train by distance",
        3,
        "Ground",
        9,
        "e.9",
        CHART,
        (Box(3, 0.1, 0.2, 0.5, 0.25),),
        ("Policy", "Ground"),
        crop=b"\x89PNG picture",
    )
    new = base.add_policy(GIVEN, FakeParser([figure], pages=4), AXES)
    [row] = base.rows(
        "SELECT content_type, content_text, source_page, section_title, reading_order, bda_entity_id, "
        "bda_entity_subtype, metadata, vector_norm(embedding), created_at FROM tripcortex.policy_chunks "
        "WHERE policy_id = %s",
        new.id,
    )
    assert row[:7] == ("figure", "Taxi or train by distance", 3, "Ground", 9, "e.9", "CHART")
    [uri] = row[7]["crop_image_uris"]
    assert row[7]["bounding_boxes"] == [{"page": 3, "left": 0.1, "top": 0.2, "width": 0.5, "height": 0.25}]
    assert uri.startswith(f"s3://tripcortex-policies/crops/{new.id}/")
    assert base.run(base.stores.run(files.crop(str(new.id), "e.9"))).body == b"\x89PNG picture"
    assert row[8] == pytest.approx(1) and row[9] == get_now(base)
    assert new.total_pages == 4


def test_keeps_an_entity_without_a_vector(base: Base) -> None:
    """It gets the fallback text's vector; if that has none either, the policy fails."""
    silent = ParsedEntity(ContentType.figure, "", 1, None, 1, "e-1", CHART)
    wise = FakeParser([silent, make_paragraph("Economy.", 2)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingestion, "FALLBACK_TEXT", "car")
        assert base.add_policy(Upload("x.md", b"x"), wise, AXES).total_chunks == 2
    refused = base.add_policy(Upload("x.md", b"x"), wise, AXES)
    assert "knows no word of part of" in (refused.error_message or "")


def test_writes_a_long_document_in_batches(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is reported per batch of 50, and the peak of memory stays below 4 MB.

    The rules are left out: they are read from the whole text once it is written.
    """

    async def read_nothing(*_: object) -> Proposals:
        return Proposals()

    monkeypatch.setattr(ingestion, "read_proposals", read_nothing)
    progress_calls: list[tuple[int, int | None, int | None]] = []

    def pages() -> Iterator[ParsedEntity]:
        for number in range(1, 601):
            text = f"economy {number} " + "word " * 400
            yield ParsedEntity(ContentType.text, text, number, "Rules", number, f"e-{number}", "PARAGRAPH")

    policy = base.run(upload(base.stores, GIVEN))
    tracemalloc.start()
    work = ingest(
        base.stores,
        policy.id,
        FakeParser(pages, pages=600),
        AXES,
        progress=lambda *each: progress_calls.append(each),
    )
    ready = base.run(work)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (ready.total_chunks, ready.total_pages) == (600, 600)
    assert [each[0] for each in progress_calls] == list(range(50, 601, 50))
    assert progress_calls[0][1:] == (50, 600)
    # The whole is 600 x 2 KB of text and 600 x 2 KB of vectors, several times that while it is sent.
    assert peak < 4_000_000


# --- failures -----------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-21", "TC-22")
@pytest.mark.parametrize(
    ("fails", "reason"),
    [
        (
            DocumentEncrypted("policy.md", "it opens with a password only", "Save it without one."),
            "Save it without one.",
        ),
        (ValueError("secret words of the document"), "its parser failed (ValueError)"),
        (None, "policy.md contains no text, table or figure"),
    ],
)
def test_failed_ingestion_keeps_the_reason_and_the_active_edition(
    base: Base, fails: Exception | None, reason: str
) -> None:
    """A later attempt with a working parser succeeds."""
    serving = base.add_policy(GIVEN, ECONOMY, AXES)
    next_edition = base.run(replace(base.stores, serving.id, GIVEN))
    broken = FakeParser([make_paragraph("Business.", 1)] if fails else [], fails=fails)
    failed = base.run(ingest(base.stores, next_edition.id, broken, AXES))
    assert failed.status == "failed" and failed.error_message is not None
    assert reason in failed.error_message and "secret words" not in failed.error_message
    assert count_chunks(base, failed.id) == 0
    assert search_texts(base) == ["Fly economy."]
    mended = base.run(ingest(base.stores, failed.id, BUSINESS, AXES))
    assert (mended.status, mended.error_message, mended.attempts) == ("ready", None, 2)
    assert count_chunks(base, failed.id) == 2


@pytest.mark.proves("TC-22")
def test_retried_ingestion_leaves_no_chunk_of_the_first_attempt(base: Base) -> None:
    new = base.run(upload(base.stores, GIVEN))

    class Killed(BaseException):
        """Error that nothing catches, as when the process is killed."""

    def parse_until_killed() -> Iterator[ParsedEntity]:
        yield from (make_paragraph(f"Economy {number}.", number) for number in range(1, 61))
        raise Killed

    with pytest.raises(Killed):
        base.run(ingest(base.stores, new.id, FakeParser(parse_until_killed), AXES))
    assert reload(base, new.id).status == "processing" and count_chunks(base, new.id) == 50
    assert base.run(sweep(base.stores)) == []
    base.clock.at += 301
    [waiting] = base.run(sweep(base.stores))
    assert (waiting.status, waiting.version) == ("pending", 3)
    # An ingester whose lease was taken over writes nothing more.
    late = patterns.note_progress(new.id, 2, 60, None, get_now(base))
    with pytest.raises(ConditionFailed):
        base.run(base.stores.run(late))
    [ready] = base.run(ingest_pending(base.stores, AXES, lambda name, body: ECONOMY))
    assert ready.serves and count_chunks(base, new.id) == 1


def test_repeated_crashes_fail_the_policy(base: Base) -> None:
    new = base.run(upload(base.stores, GIVEN))
    base.rows("UPDATE tripcortex.policies SET status = 'processing', attempts = 3 WHERE id = %s", new.id)
    base.clock.at += 10_000
    [failed] = base.run(sweep(base.stores))
    assert failed.status == "failed" and "started 3 times" in (failed.error_message or "")


@pytest.mark.proves("TC-21")
def test_model_refusal_fails_one_policy_and_others_are_ingested(base: Base) -> None:
    refused, read = upload_two(base)
    embedding = make_failing_embedding(
        ExternalServiceRefused("ValidationException", "Bedrock refuses a text (ValidationException).")
    )
    done = base.run(ingest_pending(base.stores, embedding, choose_parser))
    assert [(each.id, each.status) for each in done] == [(refused, "failed"), (read, "ready")]
    assert done[0].error_message == "Bedrock refuses a text (ValidationException)."
    assert done[0].attempts == 1 and count_chunks(base, refused) == 0


@pytest.mark.proves("TC-21")
@pytest.mark.parametrize(
    "error",
    [SettingsError("No such region."), ExternalServiceFailed("Bedrock is out of reach.", may_be_done=False)],
    ids=lambda each: type(each).__name__,
)
def test_model_outage_delays_one_policy_and_ingests_others(
    base: Base, error: HoldfastError, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "MAX_UNANSWERED", 3)
    stuck, read = upload_two(base)
    reason = f"{error.label}: {error.message}"
    [ready] = base.run(ingest_pending(base.stores, make_failing_embedding(error), choose_parser))
    assert (ready.id, ready.serves) == (read, True)
    waiting = reload(base, stuck)
    assert (waiting.status, waiting.attempts, waiting.error_message) == ("pending", 1, reason)
    assert str(stuck) in caplog.text and error.message in caplog.text
    assert base.run(ingest_pending(base.stores, make_failing_embedding(error), choose_parser)) == []
    [failed] = base.run(ingest_pending(base.stores, make_failing_embedding(error), choose_parser))
    assert (failed.id, failed.status, failed.attempts) == (stuck, "failed", 3)
    assert failed.error_message == f"Ingestion failed 3 times. Last error: {reason}"
    assert count_chunks(base, stuck) == 0
    assert base.run(ingest_pending(base.stores, AXES, choose_parser)) == []


def test_ingests_after_the_model_recovers(base: Base) -> None:
    stuck, _ = upload_two(base)
    error = ExternalServiceFailed("Bedrock is out of reach.", may_be_done=False)
    base.run(ingest_pending(base.stores, make_failing_embedding(error), choose_parser))
    [ready] = base.run(ingest_pending(base.stores, AXES, choose_parser))
    assert (ready.id, ready.serves, ready.error_message) == (stuck, True, None)
    # One batch was written before the model failed.
    assert count_chunks(base, stuck) == 51


@pytest.mark.proves("TC-50", "TC-51")
def test_lists_policies_in_upload_order_and_by_status(base: Base) -> None:
    made = []
    for name in ("c.md", "a.md", "b.md"):
        base.clock.at += 1
        made.append(base.run(upload(base.stores, Upload(name, b"x"))).id)
    base.run(ingest(base.stores, made[1], ECONOMY, AXES))
    listed = base.run(base.stores.run(patterns.policies()))
    assert [each.id for each in listed] == made
    pending = base.run(base.stores.run(patterns.policies_in(PolicyStatus.pending)))
    assert [each.file_name for each in pending] == ["c.md", "b.md"]


def test_rejects_an_unnamed_empty_or_oversized_file(base: Base) -> None:
    for given in (Upload("", b"x"), Upload("n" * 256, b"x"), Upload("a.md", b"")):
        with pytest.raises(InvalidRequest):
            base.run(upload(base.stores, given))
    with pytest.raises(InvalidRequest, match="expected at most 10 bytes"):
        base.run(upload(base.stores, Upload("a.md", b"x" * 11), max_bytes=10))
    assert base.rows("SELECT count(*) FROM tripcortex.policies") == [(0,)]
    with pytest.raises(NotFound):
        base.run(ingest(base.stores, uuid4(), ECONOMY, AXES))


def test_chooses_the_parser_by_content(base: Base) -> None:
    policy = base.add_policy(
        Upload("travel.md", b"# Business travel\n\nFly economy below six hours.\n"), None, AXES
    )
    assert policy.status == "ready"
    assert "Fly economy below six hours." in search_texts(base)
    nonsense = base.add_policy(Upload("travel.pdf", b"\x00\x01\x02 no document"), None, AXES)
    assert nonsense.status == "failed"
    assert issubclass(DocumentRefused, InvalidRequest)


# --- editions -----------------------------------------------------------------------------------------------


@pytest.mark.proves("TC-22", "TC-X18")
def test_new_edition_serves_until_rolled_back_and_older_ones_are_retired(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))
    assert (second.document_id, second.edition) == (first.document_id, 2)
    assert search_texts(base) == ["Fly economy."]
    second = base.run(ingest(base.stores, second.id, BUSINESS, AXES))
    new = ["Business above six hours.", "Business is allowed."]
    assert sorted(search_texts(base)) == new
    back = base.run(roll_back(base.stores, second.id))
    assert back.id == first.id and search_texts(base) == ["Fly economy."]
    for each in (second.id, first.id):
        with pytest.raises(InvalidRequest, match="No earlier edition can replace edition 1"):
            base.run(roll_back(base.stores, each))
    assert base.run(roll_forward(base.stores, first.id)).id == second.id and sorted(search_texts(base)) == new
    with pytest.raises(InvalidRequest, match="No later edition can replace edition 2"):
        base.run(roll_forward(base.stores, first.id))
    base.run(roll_back(base.stores, first.id))
    assert base.run(serve(base.stores, second.id)).serves and sorted(search_texts(base)) == new
    third = base.run(replace(base.stores, second.id, GIVEN))
    base.run(ingest(base.stores, third.id, ECONOMY, AXES))
    # Only the edition before the active one is kept for a rollback.
    assert (count_chunks(base, first.id), count_chunks(base, second.id), count_chunks(base, third.id)) == (
        0,
        2,
        1,
    )
    assert reload(base, first.id).retired_at == get_now(base)
    with pytest.raises(InvalidRequest, match="its chunks were deleted"):
        base.run(serve(base.stores, first.id))


def test_rollback_and_replace_accept_the_id_of_any_edition(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))
    base.run(ingest(base.stores, second.id, BUSINESS, AXES))
    # Given an inactive edition, it rolls back the active one.
    assert base.run(roll_back(base.stores, first.id)).id == first.id
    base.run(serve(base.stores, second.id))
    base.run(remove(base.stores, first.id))
    with pytest.raises(InvalidRequest, match="No earlier edition"):
        base.run(roll_back(base.stores, second.document_id))
    third = base.run(replace(base.stores, second.document_id, GIVEN))
    assert (third.document_id, third.edition) == (first.id, 3)
    base.run(ingest(base.stores, third.id, ECONOMY, AXES))
    assert base.run(roll_back(base.stores, first.document_id)).id == second.id
    base.run(remove(base.stores, second.id))
    with pytest.raises(InvalidRequest, match="No edition of this document serves"):
        base.run(roll_back(base.stores, third.id))
    for unknown in (roll_back(base.stores, uuid4()), replace(base.stores, uuid4(), GIVEN)):
        with pytest.raises(NotFound):
            base.run(unknown)


def test_rejects_an_invalid_file_name_or_a_text_too_short_for_a_policy(base: Base) -> None:
    for name in ("hostname", "hi.txt", "policy.docx", ".md", "policy.pdf.exe"):
        with pytest.raises(InvalidRequest, match="Invalid file name"):
            base.run(upload(base.stores, Upload(name, b"# Policy")))
    for body in (b"hi", b"one two three", b"vm-host-17\n"):
        failed = base.add_policy(Upload("hi.md", body), None, build_local_embedding())
        assert failed.status == "failed" and "is too short for a policy" in (failed.error_message or "")
        assert count_chunks(base, failed.id) == 0
    for body in (b"# Travel\n\nEconomy.", b"Everybody flies economy here."):
        assert base.add_policy(Upload("few.MD", body), None, build_local_embedding()).serves


@pytest.mark.proves("TC-X18")
def test_readers_see_exactly_one_edition_during_a_switch(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))
    old = frozenset({"Fly economy."})
    new = frozenset({"Business above six hours.", "Business is allowed."})

    async def texts() -> frozenset[str]:
        rows = await base.stores.run(patterns.similar_chunks(make_vector(1, 1)))
        return frozenset(each.content_text or "" for each in rows)

    assert base.run(collect_reads_during_switches(base, second.id, texts, times=5)) == {old, new}


@pytest.mark.proves("TC-X18")
@pytest.mark.parametrize("way", ["fused", "plain"])
def test_question_with_several_statements_sees_one_edition(base: Base, way: RetrievalMode) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))

    async def policies() -> frozenset[str]:
        found = await retrieve(base.stores, AXES, "economy or business", mode=way)
        return frozenset(each.policy_id for each in found.chunks)

    seen = base.run(collect_reads_during_switches(base, second.id, policies, times=40))
    assert seen == {frozenset({str(first.id)}), frozenset({str(second.id)})}


async def collect_reads_during_switches(
    base: Base, second: UUID, look: Callable[[], Awaitable[frozenset[str]]], *, times: int
) -> set[frozenset[str]]:
    """Return everything that `look` sees while the second edition is served, rolled back and served again."""

    async def switch_editions() -> None:
        await ingest(base.stores, second, BUSINESS, AXES)
        for _ in range(times):
            await roll_back(base.stores, second)
            await serve(base.stores, second)

    # Read before and after too: on a slow machine a reader may miss a switch.
    seen = {await look()}
    changing = asyncio.create_task(switch_editions())
    while not changing.done():
        seen.add(await look())
    await changing
    return {*seen, await look()}


@pytest.mark.proves("TC-X18")
@pytest.mark.parametrize("replaced", [1, 2])
def test_one_step_reads_one_edition_that_has_chunks(base: Base, replaced: int) -> None:
    """Replaced once meanwhile, the first edition still has its chunks; replaced twice, it has none."""
    editions = [base.add_policy(GIVEN, ECONOMY, AXES)]
    base.add_policy(Upload("other.md", b"x"), FakeParser([make_paragraph("Economy by train.", 1)]), AXES)
    begun: list[Sequence[UUID]] = []

    async def step(asked: Sequence[UUID]) -> list[set[str]]:
        begun.append(asked)
        answers = []
        for _ in range(replaced + 1):
            found = await retrieve(base.stores, AXES, "economy or business", policy_ids=asked)
            answers.append({each.policy_id for each in found.chunks})
            if len(editions) <= replaced:
                new = await replace(base.stores, editions[0].id, GIVEN)
                editions.append(await ingest(base.stores, new.id, BUSINESS, AXES))
        return answers

    answers = base.run(run_on_fixed_editions(base.stores, AXES, step))
    answered_from = editions[0] if replaced == 1 else editions[-1]
    assert len(begun) == replaced and len(answers) == replaced + 1
    assert all(str(answered_from.id) in each for each in answers)
    assert not {str(each.id) for each in editions if each is not answered_from} & set().union(*answers)


@pytest.mark.proves("TC-X18")
def test_finds_an_inactive_edition_by_id_but_not_a_partial_one(base: Base) -> None:
    """A partial edition is one that is being processed."""
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))
    base.run(ingest(base.stores, second.id, BUSINESS, AXES))

    def count_found(policy_id: UUID) -> int:
        asked = retrieve(base.stores, AXES, "economy or business", policy_ids=[policy_id])
        return len(base.run(asked).chunks)

    assert (count_found(first.id), count_found(second.id)) == (1, 2)
    base.rows("UPDATE tripcortex.policies SET status = 'processing' WHERE id = %s", first.id)
    assert count_found(first.id) == 0


def test_older_edition_never_replaces_a_newer_one(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    second = base.run(replace(base.stores, first.id, GIVEN))
    third = base.run(replace(base.stores, first.id, GIVEN))
    assert base.run(ingest(base.stores, third.id, BUSINESS, AXES)).serves
    late = base.run(ingest(base.stores, second.id, ECONOMY, AXES))
    assert (late.status, late.serves) == ("ready", False)
    assert len(search_texts(base)) == 2


def test_the_newest_of_three_concurrently_ingested_editions_serves(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    others = [base.run(replace(base.stores, first.id, GIVEN)) for _ in range(3)]

    async def ingest_all() -> None:
        await asyncio.gather(*(ingest(base.stores, each.id, BUSINESS, AXES) for each in others))

    base.run(ingest_all())
    assert base.rows("SELECT edition FROM tripcortex.policies WHERE serves") == [(4,)]


@pytest.mark.proves("TC-24")
def test_removes_a_policy_with_its_chunks_file_and_pictures(base: Base) -> None:
    figure = ParsedEntity(ContentType.figure, "Hotel rates", 1, "Rates", 1, "f/1 ü", CHART, crop=b"png")
    policy = base.add_policy(GIVEN, FakeParser([figure]), AXES)
    base.run(remove(base.stores, policy.id))
    assert base.rows("SELECT count(*) FROM tripcortex.policy_chunks") == [(0,)]
    assert base.run(base.stores.run(files.crops_of(str(policy.id)))).objects == ()
    with pytest.raises(NotFound):
        base.run(base.stores.run(files.source(str(policy.id))))
    with pytest.raises(NotFound):
        base.run(remove(base.stores, policy.id))


def test_serving_rules_returns_current_rules_of_policies_that_have_any(base: Base) -> None:
    first = base.add_policy(GIVEN, ECONOMY, AXES)
    base.add_policy(Upload("other.md", b"x"), BUSINESS, AXES)
    base.run(
        base.stores.run(patterns.set_rules(first.id, first.version, {"cabin": "business"}, get_now(base)))
    )
    [found] = base.run(base.stores.run(patterns.serving_rules()))
    assert (found.id, found.rules) == (first.id, {"cabin": "business"})
