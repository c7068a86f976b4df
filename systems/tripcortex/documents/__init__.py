"""Parsers that turn a policy document into entities: PDF and Markdown locally, Bedrock in production.

    bytes → `open_parser` → `PdfParser` | `MarkdownParser` → `ParsedEntity` after `ParsedEntity`
    s3:// → `tripcortex.integrations.bedrock_data_automation.DataAutomation` → the same entities

A document that no parser can read raises `DocumentRefused`; its message is for the person who uploaded the
document.
"""

from __future__ import annotations

from .factory import open_parser
from .markdown import MarkdownParser
from .pdf.parser import MAX_PAGES, PdfParser
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
    "MAX_PAGES",
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
    "open_parser",
]
