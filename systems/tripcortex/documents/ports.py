"""The `Parser` and `RemoteParser` protocols, the entities that they return, and the refusals of documents.

A `Parser` (`open_parser` chooses it) takes the document's bytes and yields `ParsedEntity` after
`ParsedEntity` in reading order; `tripcortex.policies` embeds each and stores it as a row of `policy_chunks`.
A `RemoteParser` is a service that parses a file in S3: the caller starts it once and polls for the result.
Both return the same entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from holdfast.core.errors import InvalidRequest

# The width of the column `policy_chunks.section_title`.
MAX_TITLE_CHARS: Final = 255

# The longest entity of a policy is a table of about ten thousand characters; ingestion keeps fifty entities
# in memory.
MAX_TEXT_CHARS: Final = 200_000
# Two thousand pages of twenty-five entities each. Every entity is embedded and becomes a row.
MAX_ENTITIES: Final = 50_000

# Entity subtypes, named as in Bedrock Data Automation.
TITLE: Final = "TITLE"
SECTION_TITLE: Final = "SECTION_TITLE"
PARAGRAPH: Final = "PARAGRAPH"
LIST: Final = "LIST"
CODE: Final = "CODE"
TABLE: Final = "TABLE"
CHART: Final = "CHART"
DIAGRAM: Final = "DIAGRAM"
IMAGE: Final = "IMAGE"

# Called with the number of the finished page, from 1, and the number of all pages.
Progress = Callable[[int, int], None]


class ContentType(StrEnum):
    """The kind of an entity, as stored in `policy_chunks.content_type`."""

    text = "text"
    table = "table"
    figure = "figure"


@dataclass(frozen=True, slots=True)
class Box:
    """The position of an entity: fractions of its page, from the upper left corner. Pages count from 1."""

    page: int
    left: float
    top: float
    width: float
    height: float

    def to_json(self) -> dict[str, float]:
        return {
            "page": self.page,
            "left": round(self.left, 4),
            "top": round(self.top, 4),
            "width": round(self.width, 4),
            "height": round(self.height, 4),
        }


@dataclass(frozen=True, slots=True)
class ParsedEntity:
    """One paragraph, list, table, figure or heading of a document.

    `section_title` is the nearest heading above it, `sections` are all headings above it from the outermost;
    a heading belongs to itself. Tables are Markdown. `page` is None for a format without pages.
    """

    content_type: ContentType
    text: str
    page: int | None
    section_title: str | None
    reading_order: int
    entity_id: str
    subtype: str
    boxes: tuple[Box, ...] = ()
    sections: tuple[str, ...] = ()
    # The picture of a figure as PNG, or the URIs where a service stored it.
    crop: bytes | None = None
    crop_uris: tuple[str, ...] = ()
    # The entities that were joined to this passage, if it is one (`passages.py`).
    parts: tuple[ParsedEntity, ...] = ()

    def to_metadata(self) -> dict[str, Any]:
        """Return the value for `policy_chunks.metadata`: boxes, sections, crop URIs and the parts of a
        passage.

        The caller adds the location of a crop that it stores.
        """
        found: dict[str, Any] = {"bounding_boxes": [box.to_json() for box in self.boxes]}
        if self.sections:
            found["sections"] = list(self.sections)
        if self.crop_uris:
            found["crop_image_uris"] = list(self.crop_uris)
        if self.parts:
            found["parts"] = [
                {
                    "content_type": each.content_type,
                    "subtype": each.subtype,
                    "text": each.text,
                    "page": each.page,
                }
                for each in self.parts
            ]
        return found


class Parser(Protocol):
    """A parser of one document format."""

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities in reading order, page by page; call `progress` after each page.

        Raise `DocumentRefused` if the document is unreadable.
        """
        ...


class RemoteParser(Protocol):
    """A service that parses a file in S3 in the background."""

    async def start(self, source_uri: str, token: str) -> str:
        """Start a job and return its id. The same token never starts a second job."""
        ...

    async def get_result(self, invocation: str) -> tuple[ParsedEntity, ...] | None:
        """Return the entities of a finished job, or None while it runs."""
        ...


# --- refusals of documents ----------------------------------------------------------------------------------


class DocumentRefused(InvalidRequest, label="DocumentRefused"):
    """A document that the parser refuses. The message is for the person who uploaded it."""

    code = "DocumentRefused"

    def __init__(self, file_name: str, why: str, remedy: str) -> None:
        super().__init__(f"{file_name} cannot be read: {why}. {remedy}")
        self.file_name, self.why, self.remedy = file_name, why, remedy


class DocumentUnknown(DocumentRefused, label="DocumentUnknown"):
    """The document has an unsupported format."""

    code = "DocumentUnknown"


class DocumentEmpty(DocumentRefused, label="DocumentEmpty"):
    """The document has no pages or no content."""

    code = "DocumentEmpty"


class DocumentEncrypted(DocumentRefused, label="DocumentEncrypted"):
    """The document needs a password."""

    code = "DocumentEncrypted"


class DocumentDamaged(DocumentRefused, label="DocumentDamaged"):
    """The document starts like its format, but the rest is damaged."""

    code = "DocumentDamaged"


class DocumentTooLong(DocumentRefused, label="DocumentTooLong"):
    """The document has more pages than the limit."""

    code = "DocumentTooLong"


class DocumentTooLarge(DocumentRefused, label="DocumentTooLarge"):
    """A part of the document, or the memory or time to parse it, exceeds a limit."""

    code = "DocumentTooLarge"


class DocumentScanned(DocumentRefused, label="DocumentScanned"):
    """The pages are images without text."""

    code = "DocumentScanned"


def require_within_limits(file_name: str, text: str, count: int) -> None:
    """Raise `DocumentTooLarge` if the text of an entity or the number of entities exceeds its limit.

    `count` is the number of the entity, from 1.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise DocumentTooLarge(
            file_name,
            f"its part no. {count:,} has {len(text):,} characters, and the limit is {MAX_TEXT_CHARS:,}",
            "Divide it by headings or paragraphs.",
        )
    if count > MAX_ENTITIES:
        raise DocumentTooLarge(
            file_name,
            f"it has more than {MAX_ENTITIES:,} paragraphs, tables and figures",
            "Divide it into several documents.",
        )
