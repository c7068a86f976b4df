"""What an employee is told of a document of ours: plain JSON under the names that the API uses."""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_camel

from holdfast import Document
from tripcortex.model import FlightOption


def shown(document: Document, **options: Any) -> dict[str, Any]:
    """`options` are those of `model_dump`."""
    told: dict[str, Any] = _camel(document.model_dump(mode="json", exclude_none=True, **options))
    return told


def shown_option(option: FlightOption) -> dict[str, Any]:
    """Without the portal's own name for it: who chooses names the option."""
    return shown(option, exclude={"offer_id"})


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {to_camel(name): _camel(each) for name, each in value.items()}
    return [_camel(each) for each in value] if isinstance(value, list) else value
