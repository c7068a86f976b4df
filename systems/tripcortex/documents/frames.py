"""The protocol between a caller and the parser process: one `ParseOrder` in, then frames of JSON out.

Each is one line. Frames are plain values, not pickled objects: a malicious document must not be able to run
code in the caller.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from typing import Any, Final

from .ports import Box, ContentType, DocumentDamaged, DocumentRefused, ParsedEntity

# The exit code of a process that ran out of memory: it may be unable to send a frame.
OUT_OF_MEMORY_EXIT_CODE: Final = 77
# CPU time. A page takes about 0.03 s; machines differ.
MAX_PARSE_S: Final = 12.0
END: Final[dict[str, Any]] = {"end": True}


@dataclass(frozen=True, slots=True)
class ParseOrder:
    """An order to parse one document, with its limits. `format` is "pdf" or "markdown"."""

    format: str
    file_name: str
    pages_max: int
    # CPU time for the document, in addition to the time for each page.
    seconds: float

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ParseOrder:
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def encode_page(page: int, pages: int) -> dict[str, Any]:
    """Return the frame of progress: the number of the finished page and of all pages."""
    return {"page": page, "pages": pages}


def encode_entity(entity: ParsedEntity) -> dict[str, Any]:
    """Return the frame of an entity; its crop is in base64."""
    values = asdict(entity)
    # The process reads entities; they are joined to passages outside of it.
    del values["parts"]
    values["crop"] = b64encode(entity.crop).decode() if entity.crop is not None else None
    return {"entity": values}


def decode_entity(frame: dict[str, Any]) -> ParsedEntity:
    """Return the entity of a frame."""
    values = frame["entity"]
    return ParsedEntity(
        **{
            **values,
            "content_type": ContentType(values["content_type"]),
            "boxes": tuple(Box(**box) for box in values["boxes"]),
            "sections": tuple(values["sections"]),
            "crop": b64decode(values["crop"]) if values["crop"] is not None else None,
            "crop_uris": tuple(values["crop_uris"]),
        }
    )


def encode_refusal(error: DocumentRefused) -> dict[str, Any]:
    """Return the frame of a refusal of the document."""
    return {"refused": error.code, "why": error.why, "remedy": error.remedy}


def encode_failure(error: Exception) -> dict[str, Any]:
    """Return the frame of an unexpected failure of the parser, as the refusal `DocumentDamaged`.

    The error's message is left out: it may quote the document.
    """
    return {
        "refused": DocumentDamaged.code,
        "why": f"its parser failed ({type(error).__name__})",
        "remedy": "Open it, save a new copy, and upload that.",
    }


def decode_refusal(frame: dict[str, Any], file_name: str) -> DocumentRefused:
    """Return the `DocumentRefused` subclass that a frame of refusal names; the caller raises it."""
    kind = next(kind for kind in DocumentRefused.__subclasses__() if kind.code == frame["refused"])
    return kind(file_name, frame["why"], frame["remedy"])
