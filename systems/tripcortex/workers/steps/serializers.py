"""JSON serializers for messages to employees: documents under their stored names, as over HTTP."""

from __future__ import annotations

from typing import Any

from holdfast import Document
from tripcortex.model.entities import FlightOption


def to_json(document: Document, **options: Any) -> dict[str, Any]:
    """Return a document as JSON without fields that are None. `options` are those of `model_dump`."""
    return document.model_dump(mode="json", exclude_none=True, **options)


def option_to_json(option: FlightOption) -> dict[str, Any]:
    """Return an option as JSON without the portal's offer id: employees choose by the option id."""
    return to_json(option, exclude={"offer_id"})
