"""The choice of a parser for a file by its content; a file name that contradicts the content is refused."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from .markdown import MarkdownParser
from .pdf.parser import MAX_PAGES, PdfParser
from .ports import DocumentEmpty, DocumentUnknown, Parser

SUPPORTED_FORMATS: Final = "PDF and Markdown files are supported."

# The PDF specification allows other bytes before the header.
_PDF_HEADER_BYTES: Final = 1_024
_PDF_HEADER: Final = b"%PDF-"
_TEXT_SUFFIXES: Final = (".md", ".markdown", "")
_UNSUPPORTED_FORMATS: Final = {
    b"PK\x03\x04": "a ZIP archive or an Office document (DOCX, XLSX, PPTX)",
    b"\xd0\xcf\x11\xe0": "an old Office document (DOC, XLS, PPT)",
    b"{\\rtf": "a rich text document (RTF)",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"II*\x00": "a TIFF picture",
    b"MM\x00*": "a TIFF picture",
    b"%!PS": "a PostScript document",
    b"\x1f\x8b": "a gzip archive",
}


def open_parser(file_name: str, body: bytes, *, pages_max: int = MAX_PAGES) -> Parser:
    """Return the parser for a file: PDF by its header, else Markdown.

    Raise `DocumentEmpty` for an empty file, `DocumentUnknown` for any other format.
    """
    suffix = PurePath(file_name).suffix.lower()
    if not body.strip():
        raise DocumentEmpty(file_name, "it is empty", "Upload the file that contains the policy.")
    if _PDF_HEADER in body[:_PDF_HEADER_BYTES]:
        return PdfParser(pages_max=pages_max)
    kind = next((kind for start, kind in _UNSUPPORTED_FORMATS.items() if body.startswith(start)), None)
    if suffix == ".pdf":
        looks = f"it looks like {kind}" if kind else "it has no PDF header"
        raise DocumentUnknown(
            file_name, f"it is named as a PDF, but {looks}", f"Save it as a PDF. {SUPPORTED_FORMATS}"
        )
    if kind or suffix not in _TEXT_SUFFIXES or not _is_text(body):
        looks = f"it looks like {kind}" if kind else f"the format {suffix or 'of this file'} is not supported"
        raise DocumentUnknown(file_name, looks, f"Save it as a PDF. {SUPPORTED_FORMATS}")
    return MarkdownParser()


def _is_text(body: bytes) -> bool:
    """Return whether the bytes contain no NUL."""
    return b"\x00" not in body
