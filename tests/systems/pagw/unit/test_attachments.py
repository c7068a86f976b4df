"""Attachments, pure: extraction, content types, limits, and refusals that never quote the content."""

from __future__ import annotations

import base64
import hashlib
from random import Random
from typing import Any

import pytest

from holdfast.core.errors import RequestError
from pagw.domain import attachments
from pagw.domain.attachments import (
    EICAR,
    AttachmentRefused,
    NoScanner,
    ScanResult,
    extract_attachments,
    scan_attachments,
)
from tests.cases import all_cases

SECRET = "Amal Haddad MBR-77"
PDF = b"%PDF-1.7\n" + SECRET.encode()
PNG = b"\x89PNG\r\n\x1a\n" + SECRET.encode()
JPEG = b"\xff\xd8\xff\xe0" + SECRET.encode()
TIFF = b"II*\x00" + SECRET.encode()
RTF = b"{\\rtf1\\ansi " + SECRET.encode() + b"}"
TEXT = f"Seen twice: {SECRET}\r\n\tä é 漢".encode()
CDA = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet type="text/xsl" href="CDA.xsl"?>\n'
    b'<ClinicalDocument xmlns="urn:hl7-org:v3"><title>' + SECRET.encode() + b"</title></ClinicalDocument>"
)


def encode(body: bytes) -> str:
    return base64.b64encode(body).decode()


def make_bundle(*resources: dict[str, Any]) -> dict[str, Any]:
    """Make a bundle with one entry per resource."""
    entries = [{"fullUrl": f"urn:uuid:{number}", "resource": each} for number, each in enumerate(resources)]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def make_document(*attachments: dict[str, Any]) -> dict[str, Any]:
    """Make a DocumentReference with these Attachment elements."""
    return {"resourceType": "DocumentReference", "content": [{"attachment": each} for each in attachments]}


def make_inline_document(body: bytes, **members: Any) -> dict[str, Any]:
    """Make a DocumentReference with this body as inline data. `members` are further elements."""
    return make_document({"data": encode(body), **members})


def expect_refusal(*resources: dict[str, Any]) -> AttachmentRefused:
    """Assert that the attachments of these resources are refused, and return the error."""
    with pytest.raises(AttachmentRefused) as raised:
        extract_attachments(make_bundle(*resources))
    return raised.value


@pytest.mark.proves("PG-30")
def test_finds_attachments_anywhere_and_numbers_them_in_bundle_order() -> None:
    claim = {
        "resourceType": "Claim",
        "supportingInfo": [
            {"sequence": 1, "valueAttachment": {"contentType": "application/pdf", "data": encode(PDF)}},
            {"sequence": 2, "valueReference": {"reference": "urn:uuid:1"}},
            {"sequence": 3, "valueAttachment": {"contentType": "image/png", "url": "urn:uuid:2"}},
        ],
    }
    papers = make_document(
        {"contentType": "text/xml", "data": encode(CDA)}, {"contentType": "image/jpeg", "url": "Binary/scan"}
    )
    first = {"resourceType": "Binary", "contentType": "image/png", "data": encode(PNG)}
    second = {"resourceType": "Binary", "id": "scan", "contentType": "image/jpeg", "data": encode(JPEG)}
    found = extract_attachments(make_bundle(claim, papers, first, second))
    assert [(each.key, each.content_type) for each in found] == [
        ("attachments/attachment_001.pdf", "application/pdf"),
        ("attachments/attachment_002.xml", "application/xml"),
        ("attachments/attachment_003.png", "image/png"),
        ("attachments/attachment_004.jpg", "image/jpeg"),
    ]
    assert [each.body for each in found] == [PDF, CDA, PNG, JPEG]
    assert [each.bytes for each in found] == [len(PDF), len(CDA), len(PNG), len(JPEG)]
    assert found[0].sha256 == hashlib.sha256(PDF).hexdigest()
    assert found[1].expression == "Bundle.entry[1].resource.content[0].attachment"


def test_extraction_is_repeatable() -> None:
    given = make_bundle(make_inline_document(PDF), make_inline_document(TEXT))
    assert extract_attachments(given) == extract_attachments(given)


@all_cases(
    "given", [{}, {"entry": None}, {"entry": "x"}, {"entry": [None, {}, {"resource": 3}]}, make_bundle({})]
)
def test_a_bundle_without_attachments_has_none(given: dict[str, Any]) -> None:
    assert extract_attachments(given) == ()


@all_cases(
    ("body", "said", "content_type", "extension"),
    [
        (PDF, "application/pdf", "application/pdf", "pdf"),
        (PDF, "Application/PDF; version=1.7", "application/pdf", "pdf"),
        (PDF, None, "application/pdf", "pdf"),
        (PDF, "application/octet-stream", "application/pdf", "pdf"),
        (JPEG, "image/jpg", "image/jpeg", "jpg"),
        (PNG, "image/png", "image/png", "png"),
        (b"GIF89a" + b"\x00" * 9, "image/gif", "image/gif", "gif"),
        (TIFF, "image/tiff", "image/tiff", "tif"),
        (b"MM\x00*" + b"\x00" * 9, "image/tiff", "image/tiff", "tif"),
        (RTF, "text/rtf", "application/rtf", "rtf"),
        (CDA, "text/xml", "application/xml", "xml"),
        (CDA, "application/hl7-cda+xml", "application/xml", "xml"),
        (CDA.decode().replace("UTF-8", "UTF-16").encode("utf-16"), "text/xml", "application/xml", "xml"),
        (TEXT, "text/plain; charset=utf-8", "text/plain", "txt"),
        (b"\xef\xbb\xbf" + TEXT, "text/plain", "text/plain", "txt"),
        (b"<3 pills a day, not > 4", "text/plain", "text/plain", "txt"),
    ],
)
def test_detects_the_content_type_from_the_bytes(
    body: bytes, said: str | None, content_type: str, extension: str
) -> None:
    members = {} if said is None else {"contentType": said}
    (found,) = extract_attachments(make_bundle(make_inline_document(body, **members)))
    assert (found.content_type, found.extension, found.body) == (content_type, extension, body)


BOMB = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
EXTERNAL_ENTITY = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
XHTML = b'<a:html xmlns:a="http://www.w3.org/1999/xhtml"><a:body/></a:html>'


@all_cases(
    ("body", "reason"),
    [
        (b"MZ\x90\x00", "it is a program"),
        (b"\x7fELF\x02", "it is a program"),
        (b"#!/bin/sh\nrm -rf", "it is a program"),
        (b"PK\x03\x04word/document.xml", "it is an archive"),
        (b"\x1f\x8b\x08", "it is an archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "it is an office document that may hold programs"),
        (b"\x00\x01\x02\x03", "its file type is not supported"),
        (b"plain\x00text", "its file type is not supported"),
        (b"caf\xe9", "its file type is not supported"),
        (b"\x1b[2Jcleared", "its file type is not supported"),
        (b"   %PDF-1.7 \x80", "its file type is not supported"),
        (b"<!DOCTYPE html><p>hello", "it is a page that may run scripts"),
        (b"<HTML><body>", "it is a page that may run scripts"),
        (b"see: < script >alert(1)</script>", "it is a page that may run scripts"),
        (SVG, "it is a page that may run scripts"),
        (SVG.decode().encode("utf-16"), "it is a page that may run scripts"),
        (XHTML, "it is a page that may run scripts"),
        (BOMB, "its XML declares a document type"),
        (EXTERNAL_ENTITY, "its XML declares a document type"),
    ],
)
def test_refuses_active_and_unknown_content(body: bytes, reason: str) -> None:
    error = expect_refusal(make_inline_document(body))
    assert error.reason == reason
    assert error.code == "not-supported"


@all_cases(
    ("body", "said"),
    [(PNG, "image/jpeg"), (TEXT, "application/pdf"), (CDA, "text/plain"), (PDF, "text/html"), (JPEG, "x")],
)
def test_refuses_a_content_type_that_contradicts_the_bytes(body: bytes, said: str) -> None:
    assert expect_refusal(make_inline_document(body, contentType=said)).code == "value"


def test_refuses_a_wrong_size_or_hash() -> None:
    digest = encode(hashlib.sha1(PDF, usedforsecurity=False).digest())
    assert (
        extract_attachments(make_bundle(make_inline_document(PDF, size=len(PDF), hash=digest)))[0].body == PDF
    )
    assert (
        expect_refusal(make_inline_document(PDF, size=1)).reason == "its size differs from the declared size"
    )
    assert (
        expect_refusal(make_inline_document(TEXT, hash=digest)).reason
        == "its hash differs from the declared hash"
    )


@all_cases(
    "data",
    [
        "JVBERi0*",
        "JVBERi0",
        "JVBERi0x=",
        "JVBERi0-_w==",
        "aGk=aGk=",
        "aGl=",
        "====",
        "ä",
        7,
        None,
        [],
        "aGk\u00a0=",
    ],
)
def test_refuses_invalid_base64(data: Any) -> None:
    error = expect_refusal(make_document({"data": data}))
    assert (error.code, error.reason) == ("value", "its data is not valid base64")


def test_accepts_base64_with_line_breaks() -> None:
    lines = base64.encodebytes(PDF * 20).decode()
    assert extract_attachments(make_bundle(make_document({"data": lines})))[0].body == PDF * 20


def test_refuses_an_empty_attachment() -> None:
    assert expect_refusal(make_document({"data": ""})).reason == "it is empty"


def test_refuses_an_attachment_without_data_in_the_bundle() -> None:
    assert expect_refusal(make_document({"contentType": "image/png"})).code == "required"
    for url in ("https://elsewhere.test/scan.png", "urn:uuid:9", "Binary/9", "file:///etc/passwd", 7):
        assert expect_refusal(make_document({"url": url})).code == "not-found"
    # The target exists but is not a Binary.
    assert expect_refusal(make_document({"url": "urn:uuid:0"})).code == "not-found"


def test_refuses_an_oversized_attachment_before_decoding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAX_ATTACHMENT_BYTES", len(PDF))
    assert extract_attachments(make_bundle(make_inline_document(PDF)))[0].bytes == len(PDF)
    assert expect_refusal(make_inline_document(PDF + b"x")).code == "too-long"
    assert expect_refusal(make_document({"data": "*" * (3 * len(PDF))})).code == "too-long"


def test_refuses_too_many_attachments_and_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attachments, "MAX_ATTACHMENTS", 3)
    assert len(extract_attachments(make_bundle(*[make_inline_document(PDF)] * 3))) == 3
    error = expect_refusal(*[make_inline_document(PDF)] * 4)
    assert (error.code, error.expression) == ("too-long", "Bundle.entry[3].resource.content[0].attachment")
    monkeypatch.setattr(attachments, "MAX_ATTACHMENTS_BYTES", 2 * len(PDF))
    assert len(extract_attachments(make_bundle(*[make_inline_document(PDF)] * 2))) == 2
    assert expect_refusal(*[make_inline_document(PDF)] * 3).code == "too-long"


def test_attachment_limit_fits_a_three_digit_key() -> None:
    assert attachments.MAX_ATTACHMENTS <= 999
    assert (
        attachments.build_attachment_key(attachments.MAX_ATTACHMENTS, "pdf")
        == "attachments/attachment_050.pdf"
    )


def test_random_bytes_never_cause_an_internal_error() -> None:
    drawn = Random(6)
    openings = [b"", b"<", b"<?xml", PDF, b"{\\rtf1", b"PK", b"\xff\xfe<\x00", b"\xef\xbb\xbf<a>"]
    for _ in range(2_000):
        body = drawn.choice(openings) + drawn.randbytes(drawn.randrange(1, 60))
        try:
            (found,) = extract_attachments(make_bundle(make_inline_document(body)))
        except AttachmentRefused:
            continue
        assert found.body == body


def test_errors_and_attachments_do_not_show_the_content() -> None:
    for attachment in (
        {"data": encode(PNG), "contentType": SECRET},
        {"data": SECRET},
        {"url": SECRET},
        {"data": encode(b"\x00" + SECRET.encode())},
        {"data": encode(TEXT), "hash": SECRET},
    ):
        error = expect_refusal(make_document(attachment))
        assert isinstance(error, RequestError)
        shown = f"{error!r} {error.__dict__} {error.__cause__!r}"
        assert SECRET not in shown and encode(PNG)[:12] not in shown
        assert error.http_status == 422
    (found,) = extract_attachments(make_bundle(make_inline_document(TEXT)))
    assert SECRET not in repr(found)


@all_cases("body", [EICAR, b"%PDF-1.7\n" + EICAR, TEXT + EICAR])
def test_refuses_the_eicar_test_string(body: bytes) -> None:
    error = expect_refusal(make_inline_document(body))
    assert (error.code, "EICAR" in error.reason) == ("security", True)


class FakeScanner:
    """Scanner that refuses PDFs."""

    async def scan(self, body: bytes) -> ScanResult:
        return ScanResult("sniffer 1", not body.startswith(b"%PDF"))


async def test_refuses_what_the_scanner_refuses() -> None:
    found = extract_attachments(make_bundle(make_inline_document(TEXT), make_inline_document(PDF)))
    assert await scan_attachments(found[:1], FakeScanner()) == (ScanResult("sniffer 1", True),)
    with pytest.raises(AttachmentRefused) as raised:
        await scan_attachments(found, FakeScanner())
    assert raised.value.expression == "Bundle.entry[1].resource.content[0].attachment"


async def test_without_a_scanner_the_verdict_is_unknown() -> None:
    found = extract_attachments(make_bundle(make_inline_document(TEXT)))
    assert await scan_attachments(found, NoScanner()) == (ScanResult("none", None),)
