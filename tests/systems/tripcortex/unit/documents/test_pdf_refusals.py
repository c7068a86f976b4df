"""Tests that unreadable documents are refused with the reason and the remedy for the uploader."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest
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


def test_refuses_a_pdf_without_pages() -> None:
    # PDFium keeps the last error until another document fails to open.
    parse_and_get_refusal(documents.build_encrypted_document())
    error = parse_and_get_refusal(documents.build_document_without_pages())
    assert isinstance(error, DocumentEmpty) and "no page" in error.message


def test_refuses_an_encrypted_pdf_and_asks_for_one_without_a_password() -> None:
    error = parse_and_get_refusal(documents.build_encrypted_document())
    assert isinstance(error, DocumentEncrypted) and "without a password" in error.message


@pytest.mark.parametrize("body", [b"%PDF-1.7\nand nothing that follows", b"%PDF-1.4\n\x00\x01\x02" * 200])
def test_refuses_a_damaged_pdf(body: bytes) -> None:
    assert isinstance(parse_and_get_refusal(body), DocumentDamaged)


def test_refuses_a_pdf_that_is_cut_off() -> None:
    whole = documents.layout_document(
        [documents.paragraph(f"Words that stand here, {number}.") for number in range(200)]
    )
    assert isinstance(parse_and_get_refusal(whole[: len(whole) // 8]), DocumentRefused)


def test_refuses_more_pages_than_the_limit_and_names_both_numbers() -> None:
    body = documents.draw_document(*[lambda canvas: canvas.drawString(72, 700, "A page.")] * 4)
    error = parse_and_get_refusal(body, pages_max=3)
    assert isinstance(error, DocumentTooLong) and "4 pages" in error.message and "at most 3" in error.message
    assert len(list(PdfParser(pages_max=4).parse(body, "policy.pdf"))) == 4


def test_refuses_scanned_pages_and_says_what_would_read_them() -> None:
    error = parse_and_get_refusal(documents.draw_document(documents.scan, documents.scan))
    assert isinstance(error, DocumentScanned)
    assert "OCR" in error.message and "Bedrock Data Automation" in error.message


def test_a_scanned_page_among_others_is_a_figure() -> None:
    body = documents.draw_document(
        lambda canvas: canvas.drawString(72, 700, "The first page has words."), documents.scan
    )
    words, page = documents.read(body)
    assert (words.content_type, page.content_type, page.page) == ("text", "figure", 2)
    assert "without a caption" in page.text


def test_refuses_a_pdf_name_without_pdf_content() -> None:
    error = parse_and_get_refusal(b"PK\x03\x04 and so on", "policy.pdf")
    assert (
        isinstance(error, DocumentUnknown) and "named as a PDF" in error.message and "DOCX" in error.message
    )


@pytest.mark.parametrize(
    ("file_name", "body", "looks"),
    [
        ("policy.docx", b"PK\x03\x04...", "Office document"),
        ("policy.md", b"\x89PNG\r\n", "PNG picture"),
        ("policy.txt", b"a\x00b", ".txt"),
        ("policy.html", b"<html>", ".html"),
    ],
)
def test_refuses_what_is_neither_pdf_nor_markdown(file_name: str, body: bytes, looks: str) -> None:
    error = parse_and_get_refusal(body, file_name)
    assert isinstance(error, DocumentUnknown) and looks in error.message


@pytest.mark.parametrize("body", [b"", b" \n\t\n"])
def test_refuses_an_empty_file(body: bytes) -> None:
    assert isinstance(parse_and_get_refusal(body, "policy.md"), DocumentEmpty)


def test_refuses_markdown_with_nothing_in_it() -> None:
    assert isinstance(
        parse_and_get_refusal(b"---\ntitle: Empty\n---\n\n<!-- nothing -->\n", "policy.md"), DocumentEmpty
    )


def test_refuses_text_that_is_not_utf_8() -> None:
    assert isinstance(parse_and_get_refusal("Füße".encode("latin-1"), "policy.md"), DocumentDamaged)


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
