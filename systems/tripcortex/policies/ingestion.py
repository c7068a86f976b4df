"""Ingestion: from an uploaded file to a serving policy.

    upload, replace    → pending      the file and its row are stored
    ingest             → processing   parsed, embedded and written in batches; it answers no questions yet
                       → ready        in the same transaction the previous edition stops serving
                       → failed       with the reason; the edition that served before keeps serving
                       → pending      if the model is unreachable or misconfigured; retried, and failed with
                                      that reason after too many attempts
    roll_back          the previous edition serves again, also in one transaction
    roll_forward       after a rollback, the next edition serves again

A query finds exactly one edition of a document. The edition before the serving one keeps its chunks for a
rollback; older ones are retired: their rows and files remain, their chunks are deleted. A killed process
leaves a policy in `processing`: `sweep` lets another worker start again, and later writes of the first one
are rejected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast import Stores
from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    HoldfastError,
    InvalidRequest,
    NotFound,
    SettingsError,
    error_label,
)
from holdfast.core.rng import make_uuid
from tripcortex.domain.policy_search.query_words import to_postgres_text
from tripcortex.model.policies import files, patterns
from tripcortex.model.policies.schema import NewChunk, Policy, PolicyStatus
from tripcortex.policies.editions import finish, remove, roll_back, roll_forward, serve
from tripcortex.policies.embedding import Embedding
from tripcortex.policies.rule_proposals import read_proposals
from tripcortex.policies.uploads import Upload, build_object_uri, get_now, load_policy, replace, upload

if TYPE_CHECKING:
    from tripcortex.documents.ports import ParsedEntity, Parser

__all__ = [
    "Upload",
    "build_embedding_text",
    "ingest",
    "ingest_pending",
    "load_policy",
    "remove",
    "replace",
    "roll_back",
    "roll_forward",
    "serve",
    "sweep",
    "upload",
]

log = logging.getLogger(__name__)

BATCH: Final = 50
# A policy without a new batch for this long belongs to a dead process.
STALE_S: Final = 300.0
MAX_ATTEMPTS: Final = 3
# Attempts while the model does not answer: about ten minutes, with one attempt every few seconds.
MAX_UNANSWERED: Final = 120
MAX_REASON_CHARS: Final = 1_000
MAX_TITLE_CHARS: Final = 255
MAX_ENTITY_ID_CHARS: Final = 255
MAX_SUBTYPE_CHARS: Final = 50
# The words of the shortest sentence that can state a rule.
MIN_POLICY_WORDS: Final = 4
# Embedded for an entity without any word that the model knows.
FALLBACK_TEXT: Final = "travel policy"

# Called with the number of chunks written, the current page, and the total number of pages if known.
Progress = Callable[[int, int | None, int | None], None]
ParserFactory = Callable[[str, bytes], "Parser"]


async def ingest(
    stores: Stores,
    policy_id: UUID,
    parser: Parser | None,
    embedding: Embedding,
    *,
    progress: Progress | None = None,
) -> Policy:
    """Ingest a policy and return it: ready and serving, or failed with the reason if the file is unreadable.

    If the model is unreachable or misconfigured, the policy is pending again; its `error_message` and the log
    have the reason. Raise `ConditionFailed` if another worker ingests it or took over. Store errors propagate
    and leave the policy to `sweep`. Without a parser, one is chosen by the file's content.
    """
    found = await load_policy(stores, policy_id)
    if found.status not in (PolicyStatus.pending, PolicyStatus.failed):
        raise ConditionFailed(
            f"Policy {policy_id} is {found.status}: expected pending or failed. Upload a new edition instead."
        )
    (policy,) = await stores.run(
        patterns.advance(
            policy_id,
            found.version,
            PolicyStatus.processing,
            get_now(stores),
            embedding_model=embedding.model_id,
        )
    )
    reading = IngestionRun(stores, policy, embedding, progress)
    try:
        await reading.run(parser)
        proposals = await read_proposals(stores, policy)
    except (InvalidRequest, NotFound, ExternalServiceRefused) as error:
        return await _mark_failed(stores, policy, error.message)
    except (SettingsError, ExternalServiceFailed) as error:
        return await _return_to_pending(stores, policy, error)
    return await finish(stores, policy, proposals)


class IngestionRun:
    """One pass through a file: parse, embed, write. Only one batch of 50 entities is in memory."""

    def __init__(
        self, stores: Stores, policy: Policy, embedding: Embedding, progress: Progress | None
    ) -> None:
        self._stores, self._policy, self._embedding, self._progress = stores, policy, embedding, progress
        self._chunks = self._words = 0
        self._has_heading = False
        self._page: int | None = None
        self._pages: int | None = None

    async def run(self, parser: Parser | None) -> None:
        """Parse, embed and write the whole file. Raise `InvalidRequest` if it has no usable content."""
        # Chunks of an earlier attempt.
        await self._stores.run(patterns.delete_chunks(self._policy.id))
        body = (await self._stores.run(files.source(str(self._policy.id)))).body
        entities = await asyncio.to_thread(self._open_entities, parser, body)
        while batch := await asyncio.to_thread(self._next_batch, entities):
            await self._write_batch(batch)
        if not self._chunks:
            raise InvalidRequest(
                f"{self._policy.file_name} contains no text, table or figure. Upload a document that does."
            )
        if not self._has_heading and self._words < MIN_POLICY_WORDS:
            raise InvalidRequest(
                f"{self._policy.file_name} is too short for a policy: it has no heading and fewer than "
                f"{MIN_POLICY_WORDS} "
                "words. Upload the right document."
            )

    def _open_entities(self, parser: Parser | None, body: bytes) -> Iterator[ParsedEntity]:
        """Start parsing and return the iterator of entities."""
        name = self._policy.file_name
        with _convert_parser_errors(name):
            return iter((parser or LazyParser(_open_parser)).parse(body, name, progress=self._on_page))

    def _on_page(self, page: int, pages: int) -> None:
        """Remember the finished page and the number of pages."""
        self._page, self._pages = page, pages

    def _next_batch(self, entities: Iterator[ParsedEntity]) -> list[tuple[ParsedEntity, str]]:
        """Parse and embed up to 50 entities; return each with its vector, or an empty list at the end.

        Runs in a thread, because both use the CPU. An entity without a known word gets the vector of "travel
        policy".
        """
        with _convert_parser_errors(self._policy.file_name):
            batch = list(islice(entities, BATCH))
        vectors = self._embedding.embed_passages(
            [build_embedding_text(each, self._policy.file_name) for each in batch]
        )
        unnamed = self._embedding.embed_passages([FALLBACK_TEXT])[0] if None in vectors else None
        if None in vectors and unnamed is None:
            raise InvalidRequest(
                f"{self._embedding.model_id} knows no word of part of {self._policy.file_name}: its language "
                "or script differs from the model's. Upload a translation."
            )
        return [(each, vector or unnamed or "") for each, vector in zip(batch, vectors, strict=True)]

    async def _write_batch(self, batch: Sequence[tuple[ParsedEntity, str]]) -> None:
        """Write a batch and its progress in one transaction.

        Raise `ConditionFailed` if another worker took over.
        """
        chunks = [await self._build_chunk(entity, vector) for entity, vector in batch]
        self._chunks += len(chunks)
        self._words += sum(len(each.content_text.split()) for each in chunks)
        self._has_heading |= any(each.section_title for each in chunks)
        now = get_now(self._stores)
        await self._stores.transact(
            patterns.note_progress(self._policy.id, self._policy.version, self._chunks, self._pages, now),
            patterns.insert_chunks(self._policy.id, chunks, now),
        )
        if self._progress is not None:
            self._progress(self._chunks, self._page, self._pages)

    async def _build_chunk(self, entity: ParsedEntity, vector: str) -> NewChunk:
        """Return the entity as a chunk to insert; store the image of a figure first."""
        metadata = entity.to_metadata()
        if entity.sections:
            metadata["sections"] = [to_postgres_text(each) for each in entity.sections]
        for part in metadata.get("parts", ()):
            part["text"] = to_postgres_text(part["text"])
        if entity.crop is not None:
            kept = await self._stores.run(
                files.keep_crop(str(self._policy.id), entity.entity_id, entity.crop)
            )
            metadata["crop_image_uris"] = [
                *metadata.get("crop_image_uris", []),
                build_object_uri(self._stores, kept.key),
            ]
        return NewChunk(
            id=make_uuid(),
            content_type=entity.content_type,
            content_text=to_postgres_text(entity.text),
            source_page=entity.page,
            section_title=None
            if entity.section_title is None
            else to_postgres_text(entity.section_title)[:MAX_TITLE_CHARS],
            reading_order=entity.reading_order,
            bda_entity_id=to_postgres_text(entity.entity_id)[:MAX_ENTITY_ID_CHARS],
            bda_entity_subtype=entity.subtype[:MAX_SUBTYPE_CHARS],
            embedding=vector,
            metadata=metadata,
        )


def build_embedding_text(entity: ParsedEntity, file_name: str) -> str:
    """Return the text to embed: the heading and the entity's text; the file name if both are empty.

    A paragraph alone often does not name its subject.
    """
    heading = entity.section_title
    # A heading entity is its own section title; include it once.
    return (
        "\n".join(each for each in (heading if heading != entity.text else None, entity.text) if each)
        or file_name
    )


@contextmanager
def _convert_parser_errors(file_name: str) -> Iterator[None]:
    """Convert any unexpected parser error to `DocumentDamaged`.

    The error's own text is left out of the row, because it may quote the document.
    """
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        from tripcortex.documents import DocumentDamaged

        raise DocumentDamaged(
            file_name,
            f"its parser failed ({type(error).__name__})",
            "Open it, save a new copy, and upload that.",
        ) from error


def _open_parser(file_name: str, body: bytes) -> Parser:
    # Imported here because processes that only answer questions do not need the parsers' packages.
    """Return the parser for the file, with the page limit of the settings."""
    from tripcortex.documents import open_parser
    from tripcortex.documents.passages import PassageParser
    from tripcortex.settings import TripCortexSettings

    return PassageParser(open_parser(file_name, body, pages_max=TripCortexSettings.load().policy_pages_max))


async def _mark_failed(stores: Stores, policy: Policy, reason: str) -> Policy:
    """Mark the policy failed and delete its chunks."""
    (failed,) = await stores.run(
        patterns.advance(
            policy.id,
            policy.version,
            PolicyStatus.failed,
            get_now(stores),
            error_message=reason[:MAX_REASON_CHARS],
        )
    )
    await stores.run(patterns.delete_chunks(policy.id))
    return failed


async def _return_to_pending(stores: Stores, policy: Policy, error: HoldfastError) -> Policy:
    """Return the policy to pending for another attempt, or mark it failed after too many.

    Other policies continue.
    """
    kind, attempt = error_label(error), f"attempt {policy.attempts} of {MAX_UNANSWERED}"
    log.warning("Policy %s could not be ingested (%s, %s): %s", policy.id, kind, attempt, error.message)
    reason = f"{kind}: {error.message}"
    if policy.attempts >= MAX_UNANSWERED:
        return await _mark_failed(
            stores, policy, f"Ingestion failed {policy.attempts} times. Last error: {reason}"
        )
    (waiting,) = await stores.run(
        patterns.advance(
            policy.id,
            policy.version,
            PolicyStatus.pending,
            get_now(stores),
            error_message=reason[:MAX_REASON_CHARS],
        )
    )
    return waiting


# --- the worker -------------------------------------------------------------------------------------------


async def ingest_pending(
    stores: Stores, embedding: Embedding, open_parser: ParserFactory = _open_parser
) -> list[Policy]:
    """Ingest all pending policies one after the other, skipping those that another process has started.

    Return those that are ready or failed; a policy that is pending again is not among them.
    """
    await sweep(stores)
    done: list[Policy] = []
    for waiting in await stores.run(patterns.policies_in(PolicyStatus.pending)):
        try:
            policy = await ingest(stores, waiting.id, LazyParser(open_parser), embedding)
        except ConditionFailed:
            continue
        if policy.status is not PolicyStatus.pending:
            done.append(policy)
    return done


class LazyParser:
    """A parser that is chosen when the file's content is known."""

    def __init__(self, open_parser: ParserFactory) -> None:
        self._open_parser = open_parser

    def parse(
        self, body: bytes, file_name: str, *, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[ParsedEntity]:
        """Choose the parser by name and content, and yield its entities."""
        return self._open_parser(file_name, body).parse(body, file_name, progress=progress)


async def sweep(
    stores: Stores, *, stale_s: float = STALE_S, max_attempts: int = MAX_ATTEMPTS
) -> list[Policy]:
    """Return policies whose ingestion made no progress for `stale_s` to pending; return those policies.

    After `max_attempts` attempts they are marked failed instead.
    """
    before = get_now(stores) - timedelta(seconds=stale_s)
    swept: list[Policy] = []
    for found in await stores.run(patterns.policies_in(PolicyStatus.processing)):
        if found.updated_at > before:
            continue
        try:
            swept.append(await _release(stores, found, max_attempts))
        except ConditionFailed:
            continue
    return swept


async def _release(stores: Stores, policy: Policy, max_attempts: int) -> Policy:
    """Return an abandoned policy to pending, or mark it failed after `max_attempts`."""
    if policy.attempts >= max_attempts:
        reason = (
            f"Ingestion started {policy.attempts} times and never finished. Upload a smaller or simpler file."
        )
        return await _mark_failed(stores, policy, reason)
    (waiting,) = await stores.run(
        patterns.advance(policy.id, policy.version, PolicyStatus.pending, get_now(stores))
    )
    return waiting
