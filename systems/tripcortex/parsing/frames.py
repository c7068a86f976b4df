"""What goes between a process and the one that reads a document for it: an order in, then frames out, each a line of JSON.

Plain values and no pickled objects: whoever has written the document must not be able to make the receiver run anything.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from typing import Any, Final

from .ports import Box, ContentType, DocumentDamaged, DocumentRefused, ParsedEntity

# How the process ends when its memory is at its end: it may be in no state to say it in a frame.
OUT_OF_MEMORY: Final = 77
# A page takes some 0.03 s; machines differ.
SECONDS: Final = 12.0
END: Final[dict[str, Any]] = {"end": True}


@dataclass(frozen=True, slots=True)
class Order:
    format: str
    file_name: str
    pages_max: int
    # Time of a processor for the document, beside what each of its pages is given.
    seconds: float

    @classmethod
    def of(cls, values: dict[str, Any]) -> Order:
        return cls(**values)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def page_frame(page: int, pages: int) -> dict[str, Any]:
    return {"page": page, "pages": pages}


def entity_frame(entity: ParsedEntity) -> dict[str, Any]:
    values = asdict(entity)
    values["crop"] = b64encode(entity.crop).decode() if entity.crop is not None else None
    return {"entity": values}


def entity_of(frame: dict[str, Any]) -> ParsedEntity:
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


def refusal_frame(error: DocumentRefused) -> dict[str, Any]:
    return {"refused": error.code, "why": error.why, "remedy": error.remedy}


def failure_frame(error: Exception) -> dict[str, Any]:
    return {
        "refused": DocumentDamaged.code,
        "why": f"its parser fell over it ({type(error).__name__})",
        "remedy": "Open it, save it anew, and upload that.",
    }


def refusal_of(frame: dict[str, Any], file_name: str) -> DocumentRefused:
    kind = next(kind for kind in DocumentRefused.__subclasses__() if kind.code == frame["refused"])
    return kind(file_name, frame["why"], frame["remedy"])
