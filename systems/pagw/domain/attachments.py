"""Attachments of a request: found in its bundle, decoded, bounded, hashed and typed by content. Pure.

The attachment handler passes the bundle to `extract_attachments` and stores each body as an object under its
key. Numbers follow the order of the bundle, so that the same bundle always gives the same keys. An attachment
may be anywhere: every Binary is one, as an entry or contained, and so is every element of the type Attachment
(in a document, supporting information, a report, an answer to a questionnaire, an extension), with inline
data or with the url of a Binary in the bundle. Base64 data elsewhere is refused, except short signatures.

The declared content type must agree with the bytes. Archives, programs, pages with scripts and unknown types
are refused. An error names the location and the reason, and never quotes the content.

`Scanner` is the port for a virus scanner. None is built in: `NoScanner` says so in each result. The EICAR
test string is refused here, so that the refusal can be tested without a scanner.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias
from xml.parsers import expat

from holdfast.core.errors import RequestError

MAX_ATTACHMENT_BYTES: Final = 10 * 2**20
MAX_ATTACHMENTS_BYTES: Final = 25 * 2**20
MAX_ATTACHMENTS: Final = 50
# Names of FHIR R4 elements of the type Attachment: valueAttachment and the like, and the three exceptions.
ATTACHMENT_ELEMENTS: Final = re.compile(r"[A-Za-z]*Attachment|attachment|presentedForm|photo")
# Fields that identify the two other FHIR types with `data`, and the characters that SampledData.data may
# hold.
SAMPLED_DATA_FIELDS: Final = frozenset({"data", "origin", "period", "dimensions"})
SIGNATURE_FIELDS: Final = frozenset({"data", "when", "who"})
SAMPLED_DATA_VALUES: Final = re.compile(r"[0-9EUL.+\- ]*")
MAX_SIGNATURE_CHARS: Final = 65_536
# Text without any of these has no attachment, no Binary and no other bytes. A `\\u` may hide a name.
ATTACHMENT_TEXTS: Final = (b"ttachment", b"presentedForm", b"photo", b'"data', b"Base64", b'"Binary', b"\\u")
# Content types that declare nothing.
UNSPECIFIED_TYPES: Final = frozenset({"", "application/octet-stream"})
EICAR: Final = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$" + rb"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"

Resource = Mapping[str, Any]
# `Attachment.bytes` is a count and hides the builtin in that class.
Body: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class FileType:
    """A supported file type. `declared_types` are the content types that senders use for it."""

    content_type: str
    extension: str
    declared_types: frozenset[str]


PDF: Final = FileType("application/pdf", "pdf", frozenset({"application/pdf", "application/x-pdf"}))
JPEG: Final = FileType("image/jpeg", "jpg", frozenset({"image/jpeg", "image/jpg", "image/pjpeg"}))
PNG: Final = FileType("image/png", "png", frozenset({"image/png"}))
GIF: Final = FileType("image/gif", "gif", frozenset({"image/gif"}))
TIFF: Final = FileType("image/tiff", "tif", frozenset({"image/tiff", "image/tif"}))
RTF: Final = FileType("application/rtf", "rtf", frozenset({"application/rtf", "text/rtf", "text/richtext"}))
XML: Final = FileType(
    "application/xml",
    "xml",
    frozenset(
        {
            "application/xml",
            "text/xml",
            "application/cda+xml",
            "application/hl7-cda+xml",
            "application/fhir+xml",
        }
    ),
)
TEXT: Final = FileType("text/plain", "txt", frozenset({"text/plain"}))

MAGIC_NUMBERS: Final = (
    (b"%PDF-", PDF),
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"{\\rtf1", RTF),
)
# Listed only for a better error: unknown types are refused too.
REFUSED_MAGIC_NUMBERS: Final = (
    (b"MZ", "a program"),
    (b"\x7fELF", "a program"),
    (b"\xca\xfe\xba\xbe", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"\xfe\xed\xfa", "a program"),
    (b"#!", "a program"),
    (b"PK", "an archive"),
    (b"\x1f\x8b", "an archive"),
    (b"7z\xbc\xaf\x27\x1c", "an archive"),
    (b"Rar!", "an archive"),
    (b"BZh", "an archive"),
    (b"\xfd7zXZ", "an archive"),
    (b"\xd0\xcf\x11\xe0", "an office document that may hold programs"),
)
# Browsers execute scripts in such markup.
ACTIVE_MARKUP: Final = re.compile(
    rb"<\s*(!doctype\s+html|html|script|svg|iframe|object|embed)\b", re.IGNORECASE
)
# `<` in UTF-16, after the byte order mark.
UTF16_MARKUP: Final = (b"\xff\xfe<\x00", b"\xfe\xff\x00<")
ACTIVE_ELEMENTS: Final = frozenset({"html", "script", "svg", "iframe", "object", "embed"})
CONTROL_CHARS: Final = re.compile(r"[^\t\n\r\f\x20-\x7e\x85\xa0-\U0010ffff]")
WHITESPACE: Final = re.compile(r"[ \t\r\n]+")


class AttachmentRefused(RequestError, label="AttachmentRefused"):
    """An attachment is refused. `expression` is its location in the bundle (FHIRPath), `reason` says why,
    `code` is the issue type for the OperationOutcome.
    """

    http_status = 422

    def __init__(self, expression: str, reason: str, *, code: str = "invalid") -> None:
        super().__init__(
            f"Attachment at {expression} refused: {reason}. Fix it and send the request again, or leave it "
            "out."
        )
        self.expression, self.reason = expression, reason
        self.code = code


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment as it is stored. `repr` hides `body`, which is PHI."""

    number: int
    extension: str
    content_type: str
    sha256: str
    bytes: int
    body: Body = field(repr=False)
    expression: str = ""

    @property
    def key(self) -> str:
        """The object key, relative to the request's folder in the bucket."""
        return build_attachment_key(self.number, self.extension)


def build_attachment_key(number: int, extension: str) -> str:
    """Return the object key of an attachment, relative to the request's folder."""
    return f"attachments/attachment_{number:03d}.{extension}"


def may_have_attachments(body: bytes) -> bool:
    """Return False for the JSON text of a bundle in which `extract_attachments` surely finds nothing."""
    return any(text in body for text in ATTACHMENT_TEXTS)


def extract_attachments(bundle: Resource) -> tuple[Attachment, ...]:
    """Return all attachments in bundle order. Raise `AttachmentRefused` for the first invalid one."""
    found: list[Attachment] = []
    total = 0
    for location in _find_locations(bundle):
        if len(found) == MAX_ATTACHMENTS:
            raise _build_size_error(location.expression, f"a request has at most {MAX_ATTACHMENTS}")
        body = _decode(location)
        total += len(body)
        if total > MAX_ATTACHMENTS_BYTES:
            raise _build_size_error(
                location.expression, f"all together are larger than {MAX_ATTACHMENTS_BYTES} bytes"
            )
        found.append(_build_attachment(len(found) + 1, location, body))
    return tuple(found)


# --- locations ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Location:
    """The element of an attachment and its FHIRPath in the bundle."""

    expression: str
    element: Resource


def _find_locations(bundle: Resource) -> Iterator[_Location]:
    """Yield the location of each attachment. A Binary with references to it is one attachment, at the
    Binary's location.
    """
    entries = bundle.get("entry")
    within = _find_binary_urls(entries if isinstance(entries, list) else [])
    yield from _walk("Bundle", bundle, within)


def _walk(expression: str, element: Any, binary_urls: frozenset[str]) -> Iterator[_Location]:
    """Yield the attachments in an element, at any depth. They are recognised by type, not by path."""
    if isinstance(element, list):
        for index, each in enumerate(element):
            if isinstance(each, dict | list):
                yield from _walk(f"{expression}[{index}]", each, binary_urls)
        return
    if element.get("resourceType") == "Binary":
        yield _Location(expression, element)
        return
    if contained := element.get("contained"):
        binary_urls |= _find_contained_urls(contained)
    for name, each in element.items():
        if not isinstance(each, dict | list):
            _refuse_stray_bytes(f"{expression}.{name}", name, element)
        elif ATTACHMENT_ELEMENTS.fullmatch(name):
            yield from _walk_attachment(f"{expression}.{name}", each, binary_urls)
        else:
            yield from _walk(f"{expression}.{name}", each, binary_urls)
    if isinstance(element.get("data"), str) and not _is_sampled_data_or_signature(expression, element):
        yield _Location(expression, element)


def _walk_attachment(expression: str, element: Any, binary_urls: frozenset[str]) -> Iterator[_Location]:
    """Yield the location of an Attachment element with inline data, or of each in a list, and of those in its
    extensions. Raise `AttachmentRefused` for one without data in the bundle.
    """
    if isinstance(element, list):
        for index, each in enumerate(element):
            if isinstance(each, dict | list):
                yield from _walk_attachment(f"{expression}[{index}]", each, binary_urls)
        return
    location = _Location(expression, element)
    if ("data" in element or "url" in element or "extension" not in element) and _has_inline_data(
        location, binary_urls
    ):
        yield location
    for name, each in element.items():
        if isinstance(each, dict | list):
            yield from _walk(f"{expression}.{name}", each, binary_urls)


def _refuse_stray_bytes(expression: str, name: str, element: Resource) -> None:
    """Raise `AttachmentRefused` for base64 data outside of attachments, which would be neither typed nor
    listed, and for a long signature.
    """
    if name.endswith("Base64Binary"):
        raise AttachmentRefused(
            expression, "base64 data is only allowed in an attachment", code="not-supported"
        )
    if (
        name == "data"
        and element.keys() >= SIGNATURE_FIELDS
        and len(str(element["data"])) > MAX_SIGNATURE_CHARS
    ):
        raise _build_size_error(
            expression, f"a signature has at most {MAX_SIGNATURE_CHARS} characters of base64"
        )


def _is_sampled_data_or_signature(expression: str, element: Resource) -> bool:
    """Return True for SampledData and Signature elements, whose data is not a file. Raise `AttachmentRefused`
    for SampledData with other characters.
    """
    if element.keys() >= SIGNATURE_FIELDS:
        return True
    if not element.keys() >= SAMPLED_DATA_FIELDS:
        return False
    if not SAMPLED_DATA_VALUES.fullmatch(element["data"]):
        raise AttachmentRefused(expression, "its data is not a series of sampled values", code="value")
    return True


def _find_binary_urls(entries: Sequence[Any]) -> frozenset[str]:
    """Return the urls and references that name the bundle's Binary resources."""
    names: set[str] = set()
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and resource.get("resourceType") == "Binary":
            names |= {entry["fullUrl"]} if isinstance(entry.get("fullUrl"), str) else set()
            names |= {f"Binary/{resource['id']}"} if isinstance(resource.get("id"), str) else set()
    return frozenset(names)


def _find_contained_urls(resources: Any) -> frozenset[str]:
    """Return the references (`#id`) that name contained Binary resources."""
    listed = resources if isinstance(resources, list) else []
    return frozenset(
        f"#{each['id']}"
        for each in listed
        if isinstance(each, dict) and each.get("resourceType") == "Binary" and isinstance(each.get("id"), str)
    )


def _has_inline_data(location: _Location, binary_urls: frozenset[str]) -> bool:
    """Return True for inline data, False for a reference to a Binary in the bundle. Nothing is fetched from
    other places: raise `AttachmentRefused` for any other url, or none.
    """
    if "data" in location.element:
        return True
    url = location.element.get("url")
    if url is None:
        raise AttachmentRefused(location.expression, "it has neither data nor a url", code="required")
    if not isinstance(url, str) or url not in binary_urls:
        raise AttachmentRefused(
            location.expression, "its url does not name a Binary in the bundle", code="not-found"
        )
    return False


# --- content ------------------------------------------------------------------------------------------------


def _decode(location: _Location) -> bytes:
    """Decode the base64 data strictly. Raise `AttachmentRefused` for data that two readers could decode
    differently, or that is empty or too large.
    """
    data = location.element.get("data")
    if not isinstance(data, str):
        raise AttachmentRefused(location.expression, "its data is not valid base64", code="value")
    # Base64 takes four characters for three bytes, plus line breaks.
    if len(data) > 2 * MAX_ATTACHMENT_BYTES:
        raise _build_size_error(location.expression, f"it is larger than {MAX_ATTACHMENT_BYTES} bytes")
    text = WHITESPACE.sub("", data)
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AttachmentRefused(location.expression, "its data is not valid base64", code="value") from None
    if base64.b64encode(body).decode() != text:
        raise AttachmentRefused(location.expression, "its data is not valid base64", code="value")
    if not body:
        raise AttachmentRefused(location.expression, "it is empty", code="value")
    if len(body) > MAX_ATTACHMENT_BYTES:
        raise _build_size_error(location.expression, f"it is larger than {MAX_ATTACHMENT_BYTES} bytes")
    return body


def _build_attachment(number: int, location: _Location, body: bytes) -> Attachment:
    """Check the content of an attachment and build it. Raise `AttachmentRefused`."""
    refuse_eicar(location.expression, body)
    kind = _detect_type(location.expression, body)
    _refuse_contradiction(location, kind, body)
    digest = hashlib.sha256(body).hexdigest()
    return Attachment(number, kind.extension, kind.content_type, digest, len(body), body, location.expression)


def refuse_eicar(expression: str, body: bytes) -> None:
    """Raise `AttachmentRefused` for the EICAR string, a harmless test string that every virus scanner
    reports.
    """
    if EICAR in body:
        raise AttachmentRefused(
            expression, "it contains the EICAR test string of virus scanners", code="security"
        )


def _detect_type(expression: str, body: bytes) -> FileType:
    """Return the file type of the bytes. Raise `AttachmentRefused` for programs, archives, active pages and
    unknown types.
    """
    for beginning, kind in MAGIC_NUMBERS:
        if body.startswith(beginning):
            return kind
    for beginning, what in REFUSED_MAGIC_NUMBERS:
        if body.startswith(beginning):
            raise AttachmentRefused(expression, f"it is {what}", code="not-supported")
    if ACTIVE_MARKUP.search(body):
        raise _build_active_content_error(expression)
    is_marked = body.startswith(UTF16_MARKUP) or body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    if is_marked and _is_xml(expression, body):
        return XML
    if not _is_text(body):
        raise AttachmentRefused(expression, "its file type is not supported", code="not-supported")
    return TEXT


def _is_xml(expression: str, body: bytes) -> bool:
    """Return True for well-formed XML. Refuse a document type: its entities could expand without limit or
    refer to other files.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    active: list[str] = []

    def on_doctype(*_: Any) -> None:
        raise AttachmentRefused(expression, "its XML declares a document type", code="not-supported")

    def on_element(name: str, _: Any) -> None:
        active.extend({name.rpartition(" ")[2].lower()} & ACTIVE_ELEMENTS)

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = on_doctype, on_element
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError, LookupError):
        return False
    if active:
        # The parser also finds elements in encodings that the byte search does not read.
        raise _build_active_content_error(expression)
    return True


def _is_text(body: bytes) -> bool:
    """Return whether the bytes are UTF-8 without control characters."""
    try:
        return CONTROL_CHARS.search(body.decode("utf-8-sig")) is None
    except UnicodeDecodeError:
        return False


def _refuse_contradiction(location: _Location, file_type: FileType, body: bytes) -> None:
    """Raise `AttachmentRefused` if the declared type, size or hash (SHA-1, as FHIR has it) differs from the
    content.
    """
    element = location.element
    declared = str(element.get("contentType") or "").partition(";")[0].strip().lower()
    if declared not in UNSPECIFIED_TYPES and declared not in file_type.declared_types:
        reason = f"its content is {file_type.content_type}, and contentType declares another type"
        raise AttachmentRefused(location.expression, reason, code="value")
    if element.get("size") not in (None, len(body)):
        raise AttachmentRefused(location.expression, "its size differs from the declared size", code="value")
    digest = base64.b64encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    if element.get("hash") not in (None, digest):
        raise AttachmentRefused(location.expression, "its hash differs from the declared hash", code="value")


def _build_active_content_error(expression: str) -> AttachmentRefused:
    """Build the refusal of a page that may run scripts."""
    return AttachmentRefused(expression, "it is a page that may run scripts", code="not-supported")


def _build_size_error(expression: str, reason: str) -> AttachmentRefused:
    """Build the refusal of an attachment that exceeds a limit."""
    return AttachmentRefused(expression, reason, code="too-long")


# --- viruses ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScanResult:
    """A scanner's result for one attachment. `is_clean` is None if no scanner examined it."""

    scanner: str
    is_clean: bool | None


class Scanner(Protocol):
    """A virus scanner. `scan` examines one body and raises `RetryLater` while it has no result."""

    async def scan(self, body: bytes) -> ScanResult: ...


class NoScanner:
    """The default scanner: it examines nothing and says so in its result."""

    async def scan(self, body: bytes) -> ScanResult:
        return ScanResult("none", None)


async def scan_attachments(attachments: Sequence[Attachment], scanner: Scanner) -> tuple[ScanResult, ...]:
    """Return one result per attachment, in order. Raise `AttachmentRefused` for one that is not clean."""
    findings: list[ScanResult] = []
    for each in attachments:
        finding = await scanner.scan(each.body)
        if finding.is_clean is False:
            raise AttachmentRefused(each.expression, "the virus scanner rejected it", code="security")
        findings.append(finding)
    return tuple(findings)
