"""Which parser a file is for: its content decides, its name is only compared with that."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from .markdown import MarkdownParser
from .pdf import PAGES_MAX, PdfParser
from .ports import DocumentEmpty, DocumentUnknown, Parser

READ_HERE: Final = "PDF and Markdown files are read."

# The specification lets a PDF begin a little late.
_PDF_WITHIN: Final = 1_024
_PDF: Final = b"%PDF-"
_TEXT_SUFFIXES: Final = (".md", ".markdown", "")
_OTHERS: Final = {
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


def opened(file_name: str, body: bytes, *, pages_max: int = PAGES_MAX) -> Parser:
    suffix = PurePath(file_name).suffix.lower()
    if not body.strip():
        raise DocumentEmpty(file_name, "it is empty", "Upload the file that has the policy in it.")
    if _PDF in body[:_PDF_WITHIN]:
        return PdfParser(pages_max=pages_max)
    kind = next((kind for start, kind in _OTHERS.items() if body.startswith(start)), None)
    if suffix == ".pdf":
        looks = f"it looks like {kind}" if kind else "it does not begin like one"
        raise DocumentUnknown(
            file_name, f"it is named as a PDF, but {looks}", f"Save it as a PDF. {READ_HERE}"
        )
    if kind or suffix not in _TEXT_SUFFIXES or not _is_text(body):
        looks = f"it looks like {kind}" if kind else f"files like {suffix or 'this'} are not known here"
        raise DocumentUnknown(file_name, looks, f"Save it as a PDF. {READ_HERE}")
    return MarkdownParser()


def _is_text(body: bytes) -> bool:
    return b"\x00" not in body
