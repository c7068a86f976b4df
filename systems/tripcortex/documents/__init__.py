"""Parsers of policy documents: PDF and Markdown in this package, Bedrock Data Automation in production.

    bytes → `open_parser` → `PdfParser` | `MarkdownParser` → `ParsedEntity` after `ParsedEntity`
    s3:// → `tripcortex.integrations.bedrock_data_automation.DataAutomation` → the same entities

A document that no parser can read raises `DocumentRefused`; its message is for the person who uploaded the
document.
"""

from __future__ import annotations

from .factory import open_parser
from .markdown import MarkdownParser
from .pdf.parser import PAGES_MAX, PdfParser
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
    "open_parser",
]
