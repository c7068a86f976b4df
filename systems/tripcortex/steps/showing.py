"""What an employee is told of a document of ours: plain JSON under the names that it is stored by, as over HTTP."""

from __future__ import annotations

from typing import Any

from holdfast import Document
from tripcortex.model import FlightOption


def shown(document: Document, **options: Any) -> dict[str, Any]:
    """`options` are those of `model_dump`."""
    return document.model_dump(mode="json", exclude_none=True, **options)


def shown_option(option: FlightOption) -> dict[str, Any]:
    """Without the portal's own name for it: who chooses names the option."""
    return shown(option, exclude={"offer_id"})
