"""Files of policies in the bucket, with access patterns: uploaded documents, and images of figures."""

from __future__ import annotations

from typing import Final

from holdfast import pattern
from holdfast.model.objects import DeleteObject, GetObject, ListObjects, PutObject
from tripcortex.model.entities import policy_files
from tripcortex.model.policies.patterns import ADMIN, UPLOAD

_ID: Final = "018f3c1e-0000-7000-8000-000000000001"

sources = policy_files.objects("policies/{policy_id}/source", content_type="application/octet-stream")
crops = policy_files.objects("crops/{policy_id}/{entity_id}.png", content_type="image/png")


@pattern("PF1", "Store an uploaded policy document", rate=UPLOAD, example=(_ID, b"%PDF-"))
def keep_source(policy_id: str, body: bytes) -> PutObject:
    return sources.put(body, policy_id=policy_id)


@pattern("PF2", "Get an uploaded policy document", rate=UPLOAD, example=(_ID,))
def source(policy_id: str) -> GetObject:
    return sources.get(policy_id=policy_id)


@pattern("PF3", "Store the image of a figure", rate=UPLOAD, example=(_ID, "e-1", b"\x89PNG"))
def keep_crop(policy_id: str, entity_id: str, body: bytes) -> PutObject:
    """Overwrite an existing image: the same file produces the same image."""
    return crops.put(body, create_only=False, policy_id=policy_id, entity_id=entity_id)


@pattern("PF4", "Get the image of a figure", rate=ADMIN, example=(_ID, "e-1"))
def crop(policy_id: str, entity_id: str) -> GetObject:
    return crops.get(policy_id=policy_id, entity_id=entity_id)


@pattern("PF5", "List the images of a policy's figures", rate=ADMIN, example=(_ID,))
def crops_of(policy_id: str, cursor: str | None = None) -> ListObjects:
    return crops.list_objects(cursor=cursor, policy_id=policy_id)


@pattern("PF6", "Delete the image of a figure", rate=ADMIN, example=(_ID, "e-1"))
def delete_crop(policy_id: str, entity_id: str) -> DeleteObject:
    return crops.delete(policy_id=policy_id, entity_id=entity_id)


@pattern("PF7", "Delete a policy document", rate=ADMIN, example=(_ID,))
def delete_source(policy_id: str) -> DeleteObject:
    return sources.delete(policy_id=policy_id)


READS: Final = (source, crop, crops_of)
WRITES: Final = (keep_source, keep_crop, delete_crop, delete_source)
