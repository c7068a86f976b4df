"""Tests that unreadable documents are refused with the reason and the remedy for the uploader."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
from tests.cases import all_cases
from tests.systems.tripcortex.unit.documents import documents
from tripcortex.documents import (
    DocumentDamaged,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentRefused,
    DocumentScanned,
    DocumentTooLong,
    DocumentUnknown,
    MarkdownParser,
    PdfParser,
    open_parser,
)
from tripcortex.documents.frames import decode_refusal, encode_refusal


def parse_and_get_refusal(
    body: bytes, file_name: str = "policy.pdf", *, pages_max: int = 2_000
) -> DocumentRefused:
    """Parse the file, check that it is refused, and return the refusal."""
    with pytest.raises(DocumentRefused) as refused:
        list(open_parser(file_name, body, pages_max=pages_max).parse(body, file_name))
    assert isinstance(refused.value, InvalidRequest)
    assert refused.value.message.startswith(f"{file_name} cannot be read: ")
    return refused.value


CUT_OFF = documents.layout_document([documents.paragraph(f"Words, number {n}.") for n in range(200)])


@all_cases(
    ("file_name", "body", "kind", "reasons"),
    [
        ("policy.pdf", documents.build_encrypted_document(), DocumentEncrypted, ["without a password"]),
        # PDFium keeps the last error until another document fails to open: this follows the encrypted one.
        ("policy.pdf", documents.build_document_without_pages(), DocumentEmpty, ["no page"]),
        ("policy.pdf", b"%PDF-1.7\nand nothing that follows", DocumentDamaged, []),
        ("policy.pdf", b"%PDF-1.4\n\x00\x01\x02" * 200, DocumentDamaged, []),
        ("policy.pdf", CUT_OFF[: len(CUT_OFF) // 8], DocumentRefused, []),
        (
            "policy.pdf",
            documents.draw_document(documents.scan, documents.scan),
            DocumentScanned,
            ["OCR", "Bedrock Data Automation"],
        ),
        ("policy.pdf", b"PK\x03\x04 and so on", DocumentUnknown, ["named as a PDF", "DOCX"]),
        ("policy.docx", b"PK\x03\x04...", DocumentUnknown, ["Office document"]),
        ("policy.md", b"\x89PNG\r\n", DocumentUnknown, ["PNG picture"]),
        ("policy.txt", b"a\x00b", DocumentUnknown, [".txt"]),
        ("policy.html", b"<html>", DocumentUnknown, [".html"]),
        ("policy.md", b"", DocumentEmpty, []),
        ("policy.md", b" \n\t\n", DocumentEmpty, []),
        ("policy.md", b"---\ntitle: Empty\n---\n\n<!-- nothing -->\n", DocumentEmpty, []),
        ("policy.md", "Füße".encode("latin-1"), DocumentDamaged, []),
    ],
)
def test_refuses_an_unreadable_document_with_its_reason(
    file_name: str, body: bytes, kind: type[DocumentRefused], reasons: list[str]
) -> None:
    error = parse_and_get_refusal(body, file_name)
    assert isinstance(error, kind)
    assert all(reason in error.message for reason in reasons)


def test_refuses_more_pages_than_the_limit_and_names_both_numbers() -> None:
    body = documents.draw_document(*[lambda canvas: canvas.drawString(72, 700, "A page.")] * 4)
    error = parse_and_get_refusal(body, pages_max=3)
    assert isinstance(error, DocumentTooLong) and "4 pages" in error.message and "at most 3" in error.message
    assert len(list(PdfParser(pages_max=4).parse(body, "policy.pdf"))) == 4


def test_a_scanned_page_among_others_is_a_figure() -> None:
    body = documents.draw_document(
        lambda canvas: canvas.drawString(72, 700, "The first page has words."), documents.scan
    )
    words, page = documents.read(body)
    assert (words.content_type, page.content_type, page.page) == ("text", "figure", 2)
    assert "without a caption" in page.text


def test_content_decides_the_format() -> None:
    pdf = documents.draw_document(lambda canvas: canvas.drawString(72, 700, "words"))
    assert isinstance(open_parser("policy.md", pdf), PdfParser)
    assert isinstance(open_parser("policy", b"# Policy\n"), MarkdownParser)
    assert isinstance(open_parser("late.pdf", b"\n" * 20 + pdf), PdfParser)


CODES = {
    "DocumentDamaged",
    "DocumentEmpty",
    "DocumentEncrypted",
    "DocumentScanned",
    "DocumentTooLarge",
    "DocumentTooLong",
    "DocumentUnknown",
}


def test_refusal_keeps_its_class_across_the_parser_process() -> None:
    kinds = DocumentRefused.__subclasses__()

    assert {kind.code for kind in kinds} == CODES
    for kind in kinds:
        sent = kind("policy.pdf", "it is torn", "Mend it.")
        came = decode_refusal(encode_refusal(sent), "policy.pdf")
        assert (type(came), came.message) == (kind, sent.message)
