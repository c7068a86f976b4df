"""Policy uploads: store the file unchanged and create a row that waits for ingestion; look policies up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, Conflict, InvalidRequest, NotFound, RowAlreadyExists
from holdfast.core.rng import make_uuid
from tripcortex.model.entities import policy_files
from tripcortex.model.policies import files, patterns
from tripcortex.model.policies.schema import MAX_FILE_NAME_CHARS, NewPolicy, Policy

MAX_BODY_BYTES: Final = 50_000_000
# Any bytes may be text, so the file name must say that it is a document.
SUFFIXES: Final = (".pdf", ".md", ".markdown")


class PolicyChanged(Conflict, label="PolicyChanged"):
    """Another request changed the policy after this one had read it."""

    http_status = 409

    def __init__(self, named: UUID) -> None:
        super().__init__(
            f"Another request changed the policy {named} at the same time, and this one changed nothing. "
            "Read the policy, then decide again."
        )


@dataclass(frozen=True)
class Upload:
    """An uploaded file.

    `rules` is the machine-readable form of the policy (`tripcortex.domain.policy_rules`).
    """

    file_name: str
    body: bytes
    uploaded_by: str | None = None
    rules: dict[str, Any] | None = None


async def upload(
    stores: Stores, file: Upload, *, max_bytes: int = MAX_BODY_BYTES, wakes: bool = True
) -> Policy:
    """Store the file and create the first edition of a new document, pending ingestion.

    With `wakes` the commit notifies the ingestion worker; pass False to ingest it yourself. Raise
    `InvalidRequest` for a bad name, an empty file or one above `max_bytes`.
    """
    new = await _store_file(stores, file, max_bytes)
    (policy,) = await stores.run(patterns.create_policy(new, get_now(stores), wakes=wakes))
    return policy


async def replace(stores: Stores, named: UUID, file: Upload, *, max_bytes: int = MAX_BODY_BYTES) -> Policy:
    """Store the file and create the next edition of a document, pending ingestion.

    `named` is the document's id or that of any edition; raise `NotFound` if it is unknown, `PolicyChanged`
    if another upload created the edition at the same time. The serving edition serves until this one is
    ingested.
    """
    document_id = await get_document_id(stores, named)
    new = await _store_file(stores, file, max_bytes)
    try:
        (policy,) = await stores.run(patterns.create_edition(new, get_now(stores), document_id))
    except (ConditionFailed, RowAlreadyExists) as error:
        # Nothing refers to the file that was stored for this edition.
        await stores.run(files.delete_source(str(new.id)))
        raise PolicyChanged(document_id) from error
    return policy


async def _store_file(stores: Stores, file: Upload, max_bytes: int) -> NewPolicy:
    """Check the upload, store the file under a new id, and return the row to insert.

    The file comes before its row: a row without its file could never be ingested.
    """
    _check_upload(file, max_bytes)
    policy_id = make_uuid()
    info = await stores.run(files.keep_source(str(policy_id), file.body))
    return NewPolicy(
        id=policy_id,
        source_s3_uri=build_object_uri(stores, info.key),
        file_name=file.file_name,
        uploaded_by=file.uploaded_by,
        rules=file.rules,
    )


def _check_upload(file: Upload, max_bytes: int) -> None:
    """Raise `InvalidRequest` for an invalid name or suffix, or a body that is empty or too large."""
    if not file.file_name.strip() or len(file.file_name) > MAX_FILE_NAME_CHARS:
        raise InvalidRequest(
            f"Invalid file name: expected 1 to {MAX_FILE_NAME_CHARS} characters. Rename the file and upload "
            "it again."
        )
    if PurePath(file.file_name).suffix.lower() not in SUFFIXES:
        raise InvalidRequest(
            f"Invalid file name {file.file_name!r:.80}: expected one that ends with {', '.join(SUFFIXES)} "
            "(the content decides how it is parsed). Save it as PDF or Markdown and upload that."
        )
    if not file.body:
        raise InvalidRequest("The file is empty. Upload the policy document itself.")
    if len(file.body) > max_bytes:
        raise InvalidRequest(
            f"The file has {len(file.body):,} bytes: expected at most {max_bytes:,} bytes. Upload it in "
            "parts, each as a separate policy."
        )


def build_object_uri(stores: Stores, key: str) -> str:
    """Return the S3 URI of a policy file."""
    return f"s3://{policy_files.physical_name(stores.environment)}/{key}"


async def load_policy(stores: Stores, policy_id: UUID) -> Policy:
    """Return the policy. Raise `NotFound` if it does not exist."""
    found = await stores.run(patterns.policy(policy_id))
    if found is None:
        raise _build_not_found(policy_id)
    return found


async def get_document_id(stores: Stores, named: UUID) -> UUID:
    """Return the document's id, given that id or the id of any edition. Raise `NotFound` if it is unknown.

    The document's id remains valid after its first edition was deleted.
    """
    found = await stores.run(patterns.policy(named))
    if found is not None:
        return found.document_id
    async with stores.sql_transaction() as work:
        if not await work.run(patterns.locked_editions(named)):
            raise _build_not_found(named)
    return named


def _build_not_found(named: UUID) -> NotFound:
    """Return the error for an unknown policy or document id; the caller raises it."""
    return NotFound(f"Unknown policy {named}. List the policies to see their ids.")


def get_now(stores: Stores) -> datetime:
    """Return the stores' current time in UTC."""
    return stores.now()
