"""Policy documents taken apart: PDF and Markdown here, Bedrock Data Automation in production.

    bytes → `opened` → `PdfParser` | `MarkdownParser` → `ParsedEntity` after `ParsedEntity`
    s3:// → `bedrock_data_automation.DataAutomation` → the same

Every document that cannot be read is refused with a `DocumentRefused` whose message is for the person who uploaded it.
"""

from __future__ import annotations

from .markdown import MarkdownParser
from .opening import opened
from .pdf import PAGES_MAX, PdfParser
from .ports import (
    Box,
    ContentType,
    DocumentDamaged,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentRefused,
    DocumentScanned,
    DocumentTooLarge,
    DocumentTooLong,
    DocumentUnknown,
    ParsedEntity,
    Parser,
    Progress,
    RemoteParser,
)

__all__ = [
    "PAGES_MAX",
    "Box",
    "ContentType",
    "DocumentDamaged",
    "DocumentEmpty",
    "DocumentEncrypted",
    "DocumentRefused",
    "DocumentScanned",
    "DocumentTooLarge",
    "DocumentTooLong",
    "DocumentUnknown",
    "MarkdownParser",
    "ParsedEntity",
    "Parser",
    "PdfParser",
    "Progress",
    "RemoteParser",
    "opened",
]
