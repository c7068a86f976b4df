"""Files that become policies: kept as they came, each with a row that waits to be ingested."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from holdfast import Stores
from holdfast.errors import InvalidRequest, NotFound
from tripcortex.knowledge import files, patterns
from tripcortex.knowledge.schema import FILE_NAME_CHARS_MAX, NewPolicy, Policy
from tripcortex.model import policy_files

BODY_BYTES_MAX: Final = 50_000_000
# Anything may be text; what is meant as a policy is named so.
SUFFIXES: Final = (".pdf", ".md", ".markdown")


@dataclass(frozen=True)
class Upload:
    """A file as it comes. `rules` are the same policy for programs (`tripcortex.rules`)."""

    file_name: str
    body: bytes
    uploaded_by: str | None = None
    rules: dict[str, Any] | None = None


async def upload(
    stores: Stores, given: Upload, *, bytes_max: int = BODY_BYTES_MAX, wakes: bool = True
) -> Policy:
    """The first edition of a document. The ingester is woken, unless the caller says that it ingests it itself."""
    new = await _kept(stores, given, bytes_max)
    (policy,) = await stores.run(patterns.create_policy(new, moment(stores), wakes=wakes))
    return policy


async def replace(stores: Stores, named: UUID, given: Upload, *, bytes_max: int = BODY_BYTES_MAX) -> Policy:
    """The next edition of a document, which any of its editions names. The one that serves goes on until this is ingested."""
    document_id = await document_of(stores, named)
    new = await _kept(stores, given, bytes_max)
    (policy,) = await stores.run(patterns.create_edition(new, moment(stores), document_id))
    return policy


async def _kept(stores: Stores, given: Upload, bytes_max: int) -> NewPolicy:
    """The file first: a row whose file is missing could never be read."""
    _refuse(given, bytes_max)
    policy_id = uuid.uuid4()
    info = await stores.run(files.keep_source(str(policy_id), given.body))
    return NewPolicy(
        id=policy_id,
        source_s3_uri=object_uri(stores, info.key),
        file_name=given.file_name,
        uploaded_by=given.uploaded_by,
        rules=given.rules,
    )


def _refuse(given: Upload, bytes_max: int) -> None:
    if not given.file_name.strip() or len(given.file_name) > FILE_NAME_CHARS_MAX:
        raise InvalidRequest(
            f"A policy needs a file name of 1 to {FILE_NAME_CHARS_MAX} characters: name the file, and upload it again."
        )
    if PurePath(given.file_name).suffix.lower() not in SUFFIXES:
        raise InvalidRequest(
            f"{given.file_name!r:.80} is not named as a policy document is: {', '.join(SUFFIXES)} are taken, and what is in the file "
            "decides how it is read. Save it as a PDF or as Markdown, and upload that."
        )
    if not given.body:
        raise InvalidRequest("The file is empty: upload the policy document itself.")
    if len(given.body) > bytes_max:
        raise InvalidRequest(
            f"The file has {len(given.body):,} bytes, and {bytes_max:,} is the most: upload it in parts, each a policy of "
            "its own."
        )


def object_uri(stores: Stores, key: str) -> str:
    return f"s3://{policy_files.physical_name(stores.environment)}/{key}"


async def known(stores: Stores, policy_id: UUID) -> Policy:
    found = await stores.run(patterns.policy(policy_id))
    if found is None:
        raise _unknown(policy_id)
    return found


async def document_of(stores: Stores, named: UUID) -> UUID:
    """By the id of any of its editions, or by its own, which stays when the first edition is gone."""
    found = await stores.run(patterns.policy(named))
    if found is not None:
        return found.document_id
    async with stores.transaction() as work:
        if not await work.run(patterns.locked_editions(named)):
            raise _unknown(named)
    return named


def _unknown(named: UUID) -> NotFound:
    return NotFound(f"There is no policy {named}: the list of policies has those that are.")


def moment(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)
