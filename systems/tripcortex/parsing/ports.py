"""What a policy document is taken apart into, and what takes it apart.

A document's bytes go into a `Parser` (`opened` chooses it), which gives `ParsedEntity` after `ParsedEntity` in the order in
which a person reads them; `knowledge` embeds each and keeps it as a row of `policy_chunks`. A service that works by itself on
a file in S3 is a `RemoteParser` instead: begun once, asked until it is done. Both give the same entities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from holdfast.errors import InvalidRequest

# `policy_chunks.section_title` holds no more.
TITLE_CHARS_MAX: Final = 255

# The longest part of a policy is a table of some ten thousand characters; a reader keeps fifty parts in memory at once.
TEXT_CHARS_MAX: Final = 200_000
# Two thousand pages of twenty-five parts each: every part is embedded and is a row.
ENTITIES_MAX: Final = 50_000

# What the local parsers call a thing, in the words of Bedrock Data Automation.
TITLE: Final = "TITLE"
SECTION_TITLE: Final = "SECTION_TITLE"
PARAGRAPH: Final = "PARAGRAPH"
LIST: Final = "LIST"
CODE: Final = "CODE"
TABLE: Final = "TABLE"
CHART: Final = "CHART"
DIAGRAM: Final = "DIAGRAM"
IMAGE: Final = "IMAGE"

# Called with the page that is done, from 1, and the number of all pages.
Progress = Callable[[int, int], None]


class ContentType(StrEnum):
    text = "text"
    table = "table"
    figure = "figure"


@dataclass(frozen=True, slots=True)
class Box:
    """Where something stands: fractions of its page, from the upper left corner. Pages count from 1."""

    page: int
    left: float
    top: float
    width: float
    height: float

    def as_json(self) -> dict[str, float]:
        return {
            "page": self.page,
            "left": round(self.left, 4),
            "top": round(self.top, 4),
            "width": round(self.width, 4),
            "height": round(self.height, 4),
        }


@dataclass(frozen=True, slots=True)
class ParsedEntity:
    """One thing a person reads. `section_title` is the heading that it stands under, `sections` all headings above it from
    the outermost; a heading stands under itself. Tables are Markdown. `page` is None where a format has no pages."""

    content_type: ContentType
    text: str
    page: int | None
    section_title: str | None
    reading_order: int
    entity_id: str
    subtype: str
    boxes: tuple[Box, ...] = ()
    sections: tuple[str, ...] = ()
    # What a figure looks like, as PNG, or where a service has put that.
    crop: bytes | None = None
    crop_uris: tuple[str, ...] = ()

    def metadata(self) -> dict[str, Any]:
        """For `policy_chunks.metadata`. Where a crop is kept is for who keeps it to add."""
        found: dict[str, Any] = {"bounding_boxes": [box.as_json() for box in self.boxes]}
        if self.sections:
            found["sections"] = list(self.sections)
        if self.crop_uris:
            found["crop_image_uris"] = list(self.crop_uris)
        return found


class Parser(Protocol):
    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """In reading order, page by page. `DocumentRefused` where it cannot be read."""
        ...


class RemoteParser(Protocol):
    async def begin(self, source_uri: str, token: str) -> str:
        """The name of the work that was begun. The same token never begins it twice."""
        ...

    async def outcome(self, invocation: str) -> tuple[ParsedEntity, ...] | None:
        """None while it is being worked on."""
        ...


# --- why a document is refused -------------------------------------------------------------------------------------


class DocumentRefused(InvalidRequest, label="DocumentRefused"):
    """A document that cannot be taken apart. Its message is for the person who uploaded it."""

    code: ClassVar[str] = "DocumentRefused"

    def __init__(self, file_name: str, why: str, remedy: str) -> None:
        super().__init__(f"{file_name} cannot be read: {why}. {remedy}")
        self.file_name, self.why, self.remedy = file_name, why, remedy


class DocumentUnknown(DocumentRefused, label="DocumentUnknown"):
    """Of no format that is read here."""

    code = "DocumentUnknown"


class DocumentEmpty(DocumentRefused, label="DocumentEmpty"):
    """No page, or nothing on any."""

    code = "DocumentEmpty"


class DocumentEncrypted(DocumentRefused, label="DocumentEncrypted"):
    """Opens with a password only."""

    code = "DocumentEncrypted"


class DocumentDamaged(DocumentRefused, label="DocumentDamaged"):
    """Begins like its format, and does not go on like it."""

    code = "DocumentDamaged"


class DocumentTooLong(DocumentRefused, label="DocumentTooLong"):
    """More pages than are read."""

    code = "DocumentTooLong"


class DocumentTooLarge(DocumentRefused, label="DocumentTooLarge"):
    """Some part of it, or what reading it takes of memory or time, is beyond what is given to a document."""

    code = "DocumentTooLarge"


class DocumentScanned(DocumentRefused, label="DocumentScanned"):
    """Pictures of pages, without a letter."""

    code = "DocumentScanned"


def require_bounded(file_name: str, text: str, count: int) -> None:
    """Of the entity that is the document's `count`th."""
    if len(text) > TEXT_CHARS_MAX:
        raise DocumentTooLarge(
            file_name,
            f"its part no. {count:,} has {len(text):,} characters, and at most {TEXT_CHARS_MAX:,} are read as one",
            "Divide it by headings or paragraphs.",
        )
    if count > ENTITIES_MAX:
        raise DocumentTooLarge(
            file_name,
            f"it is made of more than {ENTITIES_MAX:,} paragraphs, tables and figures",
            "Upload it in several documents.",
        )
