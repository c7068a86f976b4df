"""From an uploaded file to a policy that questions are answered from.

    upload │ replace   → pending      the file is kept, and a row says so
    ingest             → processing   parsed, embedded and written, batch by batch; nobody is answered from it yet
                       → ready, and in the same transaction its former edition stops to serve
                       → failed       with the reason; what served before serves on
                       → pending      where the file cannot help it: the model is out of reach or set wrong. Tried again, and
                                      failed with that reason once it was tried too often
    roll_back          the former edition serves again, in one transaction as well

Who reads finds one edition of a document or the other, never none and never both. The edition before the one that serves keeps
its chunks, for a roll back; older ones are retired: their rows and files stay, their chunks go. A process that was killed leaves
`processing` behind: `sweep` lets another begin anew, and whatever the first still tries to write is refused.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holdfast import Stores
from holdfast.errors import (
    ConditionFailed,
    HoldfastError,
    InvalidRequest,
    NotFound,
    PartyFailed,
    PartyRefused,
    SettingsError,
    error_label,
)
from tripcortex.knowledge import files, patterns
from tripcortex.knowledge.editions import finish, remove, roll_back, serve
from tripcortex.knowledge.embedding import Embedding
from tripcortex.knowledge.schema import NewChunk, Policy, PolicyStatus
from tripcortex.knowledge.uploading import Upload, known, moment, object_uri, replace, upload
from tripcortex.knowledge.wording import sendable

if TYPE_CHECKING:
    from tripcortex.parsing.ports import ParsedEntity, Parser

__all__ = [
    "Upload",
    "embedded_text",
    "ingest",
    "ingest_waiting",
    "known",
    "remove",
    "replace",
    "roll_back",
    "serve",
    "sweep",
    "upload",
]

log = logging.getLogger(__name__)

BATCH: Final = 50
# Longer without a batch is a process that is no more.
STALE_S: Final = 300.0
ATTEMPTS_MAX: Final = 3
# Rounds in which the model did not answer: with a look every few seconds, some ten minutes.
UNANSWERED_MAX: Final = 120
REASON_CHARS_MAX: Final = 1_000
TITLE_CHARS_MAX: Final = 255
ENTITY_ID_CHARS_MAX: Final = 255
SUBTYPE_CHARS_MAX: Final = 50
# Of the shortest sentence that says a rule.
SENTENCE_WORDS: Final = 4
# Embedded in place of an entity that says nothing which the model knows.
UNNAMED: Final = "travel policy"

# Called with how many chunks are written, the page reached, and the number of all pages where that is known.
Progress = Callable[[int, int | None, int | None], None]
Opened = Callable[[str, bytes], "Parser"]


async def ingest(
    stores: Stores,
    policy_id: UUID,
    parser: Parser | None,
    embedding: Embedding,
    *,
    progress: Progress | None = None,
) -> Policy:
    """Ready and serving, or failed with the reason: that a file cannot be read is an answer, and no error. Pending again where the
    model is out of reach or set wrong, which is told in its `error_message` and to the log.

    `ConditionFailed`: somebody else ingests it, or took over. What a store raises is raised, and leaves it to the sweep.
    Without a parser, that for the file's content is taken.
    """
    found = await known(stores, policy_id)
    if found.status not in (PolicyStatus.pending, PolicyStatus.failed):
        raise ConditionFailed(
            f"Policy {policy_id} is {found.status}: only what is pending or failed is ingested. Upload a new edition instead."
        )
    (policy,) = await stores.run(
        patterns.advance(
            policy_id,
            found.version,
            PolicyStatus.processing,
            moment(stores),
            embedding_model=embedding.model_id,
        )
    )
    reading = Reading(stores, policy, embedding, progress)
    try:
        await reading.run(parser)
    except (InvalidRequest, NotFound, PartyRefused) as error:
        return await _failed(stores, policy, error.message)
    except (SettingsError, PartyFailed) as error:
        return await _put_back(stores, policy, error)
    return await finish(stores, policy)


class Reading:
    """One run through a file: entities come from the parser a batch at a time, and no more of them are held."""

    def __init__(
        self, stores: Stores, policy: Policy, embedding: Embedding, progress: Progress | None
    ) -> None:
        self._stores, self._policy, self._embedding, self._progress = stores, policy, embedding, progress
        self._chunks = self._words = 0
        self._has_heading = False
        self._page: int | None = None
        self._pages: int | None = None

    async def run(self, parser: Parser | None) -> None:
        # What an earlier attempt has left.
        await self._stores.run(patterns.delete_chunks(self._policy.id))
        body = (await self._stores.run(files.source(str(self._policy.id)))).body
        entities = await asyncio.to_thread(self._entities, parser, body)
        while batch := await asyncio.to_thread(self._next, entities):
            await self._write(batch)
        if not self._chunks:
            raise InvalidRequest(
                f"{self._policy.file_name} has no text, table or figure in it: upload a document that has."
            )
        if not self._has_heading and self._words < SENTENCE_WORDS:
            raise InvalidRequest(
                f"{self._policy.file_name} says too little to be a policy: it has no heading, and fewer words than a sentence. "
                "Upload the document that was meant."
            )

    def _entities(self, parser: Parser | None, body: bytes) -> Iterator[ParsedEntity]:
        name = self._policy.file_name
        with _told(name):
            return iter((parser or ByContent(_opened)).parse(body, name, progress=self._on_page))

    def _on_page(self, page: int, pages: int) -> None:
        self._page, self._pages = page, pages

    def _next(self, entities: Iterator[ParsedEntity]) -> list[tuple[ParsedEntity, str]]:
        """Parsed and embedded in a thread: both are work for a processor."""
        with _told(self._policy.file_name):
            batch = list(islice(entities, BATCH))
        vectors = self._embedding.passages([embedded_text(each, self._policy.file_name) for each in batch])
        unnamed = self._embedding.passages([UNNAMED])[0] if None in vectors else None
        if None in vectors and unnamed is None:
            raise InvalidRequest(
                f"{self._policy.file_name} has a part of which {self._embedding.model_id} knows no word: it is of another "
                "language or script than the model."
            )
        return [(each, vector or unnamed or "") for each, vector in zip(batch, vectors, strict=True)]

    async def _write(self, batch: Sequence[tuple[ParsedEntity, str]]) -> None:
        chunks = [await self._chunk(entity, vector) for entity, vector in batch]
        self._chunks += len(chunks)
        self._words += sum(len(each.content_text.split()) for each in chunks)
        self._has_heading |= any(each.section_title for each in chunks)
        now = moment(self._stores)
        await self._stores.transact(
            patterns.note_progress(self._policy.id, self._policy.version, self._chunks, self._pages, now),
            patterns.insert_chunks(self._policy.id, chunks, now),
        )
        if self._progress is not None:
            self._progress(self._chunks, self._page, self._pages)

    async def _chunk(self, entity: ParsedEntity, vector: str) -> NewChunk:
        metadata = entity.metadata()
        if entity.sections:
            metadata["sections"] = [sendable(each) for each in entity.sections]
        if entity.crop is not None:
            kept = await self._stores.run(
                files.keep_crop(str(self._policy.id), entity.entity_id, entity.crop)
            )
            metadata["crop_image_uris"] = [
                *metadata.get("crop_image_uris", []),
                object_uri(self._stores, kept.key),
            ]
        return NewChunk(
            id=uuid.uuid4(),
            content_type=entity.content_type,
            content_text=sendable(entity.text),
            source_page=entity.page,
            section_title=None
            if entity.section_title is None
            else sendable(entity.section_title)[:TITLE_CHARS_MAX],
            reading_order=entity.reading_order,
            bda_entity_id=sendable(entity.entity_id)[:ENTITY_ID_CHARS_MAX],
            bda_entity_subtype=entity.subtype[:SUBTYPE_CHARS_MAX],
            embedding=vector,
            metadata=metadata,
        )


def embedded_text(entity: ParsedEntity, file_name: str) -> str:
    """What is embedded of an entity: its heading, then itself. A paragraph alone often does not say what it is about."""
    heading = entity.section_title
    # A heading stands under itself, and is said once.
    return (
        "\n".join(each for each in (heading if heading != entity.text else None, entity.text) if each)
        or file_name
    )


@contextmanager
def _told(file_name: str) -> Iterator[None]:
    """Whatever a parser raises of its own: a document may be broken in more ways than anybody has thought of. What it says stays
    out of the row: it may quote the document."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        from tripcortex.parsing import DocumentDamaged

        raise DocumentDamaged(
            file_name,
            f"its parser fell over it ({type(error).__name__})",
            "Open it, save it anew, and upload that.",
        ) from error


def _opened(file_name: str, body: bytes) -> Parser:
    # Brings the packages of the parsers, which nobody needs who only asks questions.
    from tripcortex.parsing import opened
    from tripcortex.settings import TripCortexSettings

    return opened(file_name, body, pages_max=TripCortexSettings.load().policy_pages_max)


async def _failed(stores: Stores, policy: Policy, reason: str) -> Policy:
    """What was written of it goes: nobody would ever be answered from it."""
    (failed,) = await stores.run(
        patterns.advance(
            policy.id,
            policy.version,
            PolicyStatus.failed,
            moment(stores),
            error_message=reason[:REASON_CHARS_MAX],
        )
    )
    await stores.run(patterns.delete_chunks(policy.id))
    return failed


async def _put_back(stores: Stores, policy: Policy, error: HoldfastError) -> Policy:
    """To be read again in the next round, or failed if that was done too often; others are read meanwhile."""
    kind, attempt = error_label(error), f"attempt {policy.attempts} of {UNANSWERED_MAX}"
    log.warning("Policy %s could not be read (%s, %s): %s", policy.id, kind, attempt, error.message)
    reason = f"{kind}: {error.message}"
    if policy.attempts >= UNANSWERED_MAX:
        return await _failed(stores, policy, f"It was tried {policy.attempts} times. The last time, {reason}")
    (waiting,) = await stores.run(
        patterns.advance(
            policy.id,
            policy.version,
            PolicyStatus.pending,
            moment(stores),
            error_message=reason[:REASON_CHARS_MAX],
        )
    )
    return waiting


# --- the orchestrator ----------------------------------------------------------------------------------------------


async def ingest_waiting(stores: Stores, embedding: Embedding, opened: Opened = _opened) -> list[Policy]:
    """All that is pending, one after the other; what another process has begun is left to it. Gives those that are done with: what
    waits again is not among them."""
    await sweep(stores)
    done: list[Policy] = []
    for waiting in await stores.run(patterns.policies_in(PolicyStatus.pending)):
        try:
            policy = await ingest(stores, waiting.id, ByContent(opened), embedding)
        except ConditionFailed:
            continue
        if policy.status is not PolicyStatus.pending:
            done.append(policy)
    return done


class ByContent:
    """A parser that is chosen when the file is there."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def parse(
        self, body: bytes, file_name: str, *, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[ParsedEntity]:
        return self._opened(file_name, body).parse(body, file_name, progress=progress)


async def sweep(
    stores: Stores, *, stale_s: float = STALE_S, attempts_max: int = ATTEMPTS_MAX
) -> list[Policy]:
    """What was begun and has written nothing for so long waits again, or has failed if that happened too often."""
    before = moment(stores) - timedelta(seconds=stale_s)
    swept: list[Policy] = []
    for found in await stores.run(patterns.policies_in(PolicyStatus.processing)):
        if found.updated_at > before:
            continue
        try:
            swept.append(await _let_go(stores, found, attempts_max))
        except ConditionFailed:
            continue
    return swept


async def _let_go(stores: Stores, policy: Policy, attempts_max: int) -> Policy:
    if policy.attempts >= attempts_max:
        reason = f"Its ingestion was begun {policy.attempts} times and never ended: upload a smaller or simpler file."
        return await _failed(stores, policy, reason)
    (waiting,) = await stores.run(
        patterns.advance(policy.id, policy.version, PolicyStatus.pending, moment(stores))
    )
    return waiting
