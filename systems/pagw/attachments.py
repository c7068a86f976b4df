"""Attachments of a request: found in its bundle, decoded, bounded, hashed and typed by what they are. Pure.

The attachment handler calls `attachments_in` with the bundle and puts each body as an object under its key. They are
numbered in the order of the bundle, so that the same bundle gives the same keys again. An attachment may stand anywhere: every
Binary is one, by itself or contained, and every element of the type Attachment (of a document, of supporting information, of
a report, of an answer to a questionnaire, of an extension), with its data or with the url of a Binary in the bundle. Bytes
that stand elsewhere are refused, but for short signatures.

What a sender says an attachment is counts for nothing unless the bytes agree. Archives, programs, pages with scripts and
whatever is not known are refused. An error names the place and the reason, and never a part of the content.

`Scanner` is the port for a scanner of viruses. None is built in: `NoScanner` says so with every attachment. The string by
which scanners are tested (EICAR) is refused here, so that the way of a refusal can be tried without a scanner.
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

from holdfast.errors import RequestError

ATTACHMENT_BYTES_MAX: Final = 10 * 2**20
ATTACHMENTS_BYTES_MAX: Final = 25 * 2**20
ATTACHMENTS_MAX: Final = 50
# Elements of FHIR R4 that are of the type Attachment, by their names: value[x] of any element, and those that end so.
IS_ATTACHMENT: Final = re.compile(r"[A-Za-z]*Attachment|attachment|presentedForm|photo")
# By what two other types with `data` are known, and what the first of them may hold.
SAMPLED: Final = frozenset({"data", "origin", "period", "dimensions"})
SIGNATURE: Final = frozenset({"data", "when", "who"})
MEASURED: Final = re.compile(r"[0-9EUL.+\- ]*")
SIGNATURE_CHARS_MAX: Final = 65_536
# What a sender says when it does not know, or does not say.
UNSAID: Final = frozenset({"", "application/octet-stream"})
EICAR: Final = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$" + rb"EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"

Resource = Mapping[str, Any]
# `Attachment.bytes` is their number.
Body: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class Kind:
    """What an attachment is. `said` are the names by which senders call it."""

    content_type: str
    extension: str
    said: frozenset[str]


PDF: Final = Kind("application/pdf", "pdf", frozenset({"application/pdf", "application/x-pdf"}))
JPEG: Final = Kind("image/jpeg", "jpg", frozenset({"image/jpeg", "image/jpg", "image/pjpeg"}))
PNG: Final = Kind("image/png", "png", frozenset({"image/png"}))
GIF: Final = Kind("image/gif", "gif", frozenset({"image/gif"}))
TIFF: Final = Kind("image/tiff", "tif", frozenset({"image/tiff", "image/tif"}))
RTF: Final = Kind("application/rtf", "rtf", frozenset({"application/rtf", "text/rtf", "text/richtext"}))
XML: Final = Kind(
    "application/xml",
    "xml",
    frozenset({"application/xml", "text/xml", "application/cda+xml", "application/hl7-cda+xml", "application/fhir+xml"}),
)  # fmt: skip
TEXT: Final = Kind("text/plain", "txt", frozenset({"text/plain"}))

BEGINNINGS: Final = (
    (b"%PDF-", PDF),
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\x00", TIFF),
    (b"MM\x00*", TIFF),
    (b"{\\rtf1", RTF),
)
# Named only so that the sender learns what it is; what is not known is refused too.
REFUSED_BEGINNINGS: Final = (
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
# Pages run what is written in them.
ACTIVE: Final = re.compile(rb"<\s*(!doctype\s+html|html|script|svg|iframe|object|embed)\b", re.IGNORECASE)
# `<` in two bytes, after the mark that tells which comes first.
WIDE_MARKUP: Final = (b"\xff\xfe<\x00", b"\xfe\xff\x00<")
ACTIVE_ELEMENTS: Final = frozenset({"html", "script", "svg", "iframe", "object", "embed"})
CONTROLS: Final = re.compile(r"[^\t\n\r\f\x20-\x7e\x85\xa0-\U0010ffff]")
WHITESPACE: Final = re.compile(r"[ \t\r\n]+")


class AttachmentRefused(RequestError, label="AttachmentRefused"):
    """`expression` is the place in the bundle (FHIRPath), `reason` why; `code` is the issue type of an OperationOutcome."""

    http_status = 422

    def __init__(self, expression: str, reason: str, *, code: str = "invalid") -> None:
        super().__init__(
            f"The attachment at {expression} is refused: {reason}. Send it anew, or leave it out."
        )
        self.expression, self.reason = expression, reason
        self.code = code  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment as it is kept. Its `body` is not shown by accident: it is about a patient."""

    number: int
    extension: str
    content_type: str
    sha256: str
    bytes: int
    body: Body = field(repr=False)
    expression: str = ""

    @property
    def key(self) -> str:
        """Below the request's own part of the bucket."""
        return attachment_key(self.number, self.extension)


def attachment_key(number: int, extension: str) -> str:
    return f"attachments/attachment_{number:03d}.{extension}"


def attachments_in(bundle: Resource) -> tuple[Attachment, ...]:
    """All of them, in the order of the bundle. Raises `AttachmentRefused` for the first that cannot be kept."""
    found: list[Attachment] = []
    total = 0
    for place in _places(bundle):
        if len(found) == ATTACHMENTS_MAX:
            raise _too_large(place.expression, f"a request has at most {ATTACHMENTS_MAX}")
        body = _decoded(place)
        total += len(body)
        if total > ATTACHMENTS_BYTES_MAX:
            raise _too_large(place.expression, f"all together are larger than {ATTACHMENTS_BYTES_MAX} bytes")
        found.append(_kept(len(found) + 1, place, body))
    return tuple(found)


# --- where they stand ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    expression: str
    told: Resource


def _places(bundle: Resource) -> Iterator[_Place]:
    """A Binary that others point at is one attachment, and stands where the Binary does."""
    entries = bundle.get("entry")
    within = _binaries(entries if isinstance(entries, list) else [])
    yield from _walked("Bundle", bundle, within)


def _walked(expression: str, element: Any, within: frozenset[str]) -> Iterator[_Place]:
    """Everything is looked at, wherever it stands: an attachment is known by what it is, and not by a list of places."""
    if isinstance(element, list):
        for index, each in enumerate(element):
            if isinstance(each, dict | list):
                yield from _walked(f"{expression}[{index}]", each, within)
        return
    if element.get("resourceType") == "Binary":
        yield _Place(expression, element)
        return
    if contained := element.get("contained"):
        within |= _contained(contained)
    for name, each in element.items():
        if not isinstance(each, dict | list):
            _refuse_bytes(f"{expression}.{name}", name, element)
        elif IS_ATTACHMENT.fullmatch(name):
            yield from _attached(f"{expression}.{name}", each, within)
        else:
            yield from _walked(f"{expression}.{name}", each, within)
    if isinstance(element.get("data"), str) and not _is_plain_data(expression, element):
        yield _Place(expression, element)


def _attached(expression: str, element: Any, within: frozenset[str]) -> Iterator[_Place]:
    """The attachment, or each of several, and what extends it."""
    if isinstance(element, list):
        for index, each in enumerate(element):
            if isinstance(each, dict | list):
                yield from _attached(f"{expression}[{index}]", each, within)
        return
    place = _Place(expression, element)
    if ("data" in element or "url" in element or "extension" not in element) and _is_kept_here(place, within):
        yield place
    for name, each in element.items():
        if isinstance(each, dict | list):
            yield from _walked(f"{expression}.{name}", each, within)


def _refuse_bytes(expression: str, name: str, element: Resource) -> None:
    """Bytes that are nobody's attachment would be neither typed nor listed."""
    if name.endswith("Base64Binary"):
        raise AttachmentRefused(expression, "it stands outside of an attachment", code="not-supported")
    if name == "data" and element.keys() >= SIGNATURE and len(str(element["data"])) > SIGNATURE_CHARS_MAX:
        raise _too_large(
            expression, f"a signature is no longer than {SIGNATURE_CHARS_MAX} characters of base64"
        )


def _is_plain_data(expression: str, element: Resource) -> bool:
    """Measured values, and signatures: their data is no file."""
    if element.keys() >= SIGNATURE:
        return True
    if not element.keys() >= SAMPLED:
        return False
    if not MEASURED.fullmatch(element["data"]):
        raise AttachmentRefused(expression, "its data is no series of measured values", code="value")
    return True


def _binaries(entries: Sequence[Any]) -> frozenset[str]:
    """The names by which the bundle's binaries can be pointed at."""
    names: set[str] = set()
    for entry in entries:
        resource = entry.get("resource") if isinstance(entry, dict) else None
        if isinstance(resource, dict) and resource.get("resourceType") == "Binary":
            names |= {entry["fullUrl"]} if isinstance(entry.get("fullUrl"), str) else set()
            names |= {f"Binary/{resource['id']}"} if isinstance(resource.get("id"), str) else set()
    return frozenset(names)


def _contained(resources: Any) -> frozenset[str]:
    listed = resources if isinstance(resources, list) else []
    return frozenset(
        f"#{each['id']}"
        for each in listed
        if isinstance(each, dict) and each.get("resourceType") == "Binary" and isinstance(each.get("id"), str)
    )


def _is_kept_here(place: _Place, within: frozenset[str]) -> bool:
    """Not one without data that points at a Binary. Nothing is fetched from elsewhere."""
    if "data" in place.told:
        return True
    url = place.told.get("url")
    if url is None:
        raise AttachmentRefused(place.expression, "it has neither data nor a url", code="required")
    if not isinstance(url, str) or url not in within:
        raise AttachmentRefused(place.expression, "its url is of no Binary in the bundle", code="not-found")
    return False


# --- what they are ------------------------------------------------------------------------------------------


def _decoded(place: _Place) -> bytes:
    """Strictly: base64 that two readers could read in two ways is none."""
    data = place.told.get("data")
    if not isinstance(data, str):
        raise AttachmentRefused(place.expression, "its data is no base64", code="value")
    # Three bytes are four characters, and every line may end.
    if len(data) > 2 * ATTACHMENT_BYTES_MAX:
        raise _too_large(place.expression, f"it is larger than {ATTACHMENT_BYTES_MAX} bytes")
    text = WHITESPACE.sub("", data)
    try:
        body = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AttachmentRefused(place.expression, "its data is no base64", code="value") from None
    if base64.b64encode(body).decode() != text:
        raise AttachmentRefused(place.expression, "its data is no base64", code="value")
    if not body:
        raise AttachmentRefused(place.expression, "it is empty", code="value")
    if len(body) > ATTACHMENT_BYTES_MAX:
        raise _too_large(place.expression, f"it is larger than {ATTACHMENT_BYTES_MAX} bytes")
    return body


def _kept(number: int, place: _Place, body: bytes) -> Attachment:
    refuse_test_virus(place.expression, body)
    kind = _kind(place.expression, body)
    _refuse_contradiction(place, kind, body)
    digest = hashlib.sha256(body).hexdigest()
    return Attachment(number, kind.extension, kind.content_type, digest, len(body), body, place.expression)


def refuse_test_virus(expression: str, body: bytes) -> None:
    """The one thing that is told without a scanner, and no virus at all: the string by which scanners are tested."""
    if EICAR in body:
        raise AttachmentRefused(
            expression, "it has the test string of virus scanners (EICAR)", code="security"
        )


def _kind(expression: str, body: bytes) -> Kind:
    for beginning, kind in BEGINNINGS:
        if body.startswith(beginning):
            return kind
    for beginning, what in REFUSED_BEGINNINGS:
        if body.startswith(beginning):
            raise AttachmentRefused(expression, f"it is {what}", code="not-supported")
    if ACTIVE.search(body):
        raise _active(expression)
    is_marked = body.startswith(WIDE_MARKUP) or body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")
    if is_marked and _is_xml(expression, body):
        return XML
    if not _is_text(body):
        raise AttachmentRefused(expression, "it is of no kind that is taken here", code="not-supported")
    return TEXT


def _is_xml(expression: str, body: bytes) -> bool:
    """Well formed, and without a document type: what it declares could grow without end or point elsewhere."""
    parser = expat.ParserCreate(namespace_separator=" ")
    active: list[str] = []

    def declared(*_: Any) -> None:
        raise AttachmentRefused(expression, "its XML declares a document type", code="not-supported")

    def began(name: str, _: Any) -> None:
        active.extend({name.rpartition(" ")[2].lower()} & ACTIVE_ELEMENTS)

    parser.StartDoctypeDeclHandler, parser.StartElementHandler = declared, began
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError, LookupError):
        return False
    if active:
        # By another encoding than the search over the bytes can read, too.
        raise _active(expression)
    return True


def _is_text(body: bytes) -> bool:
    try:
        return CONTROLS.search(body.decode("utf-8-sig")) is None
    except UnicodeDecodeError:
        return False


def _refuse_contradiction(place: _Place, kind: Kind, body: bytes) -> None:
    """Between what the sender says and what came: the type, the size, the hash (of Attachment, SHA-1)."""
    told = place.told
    said = str(told.get("contentType") or "").partition(";")[0].strip().lower()
    if said not in UNSAID and said not in kind.said:
        reason = f"it is {kind.content_type}, and is said to be something else"
        raise AttachmentRefused(place.expression, reason, code="value")
    if told.get("size") not in (None, len(body)):
        raise AttachmentRefused(place.expression, "its size is not the one that is said", code="value")
    digest = base64.b64encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
    if told.get("hash") not in (None, digest):
        raise AttachmentRefused(place.expression, "its hash is not the one that is said", code="value")


def _active(expression: str) -> AttachmentRefused:
    return AttachmentRefused(expression, "it is a page that may run scripts", code="not-supported")


def _too_large(expression: str, reason: str) -> AttachmentRefused:
    return AttachmentRefused(expression, reason, code="too-long")


# --- viruses ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """What a scanner says of one attachment; `is_clean` is None where nobody looked."""

    scanner: str
    is_clean: bool | None


class Scanner(Protocol):
    """Looks for viruses. Raises `RetryLater` where it cannot say."""

    async def scan(self, body: bytes) -> Finding: ...


class NoScanner:
    """The default: it looks at nothing, and says so."""

    async def scan(self, body: bytes) -> Finding:
        return Finding("none", None)


async def scanned(attachments: Sequence[Attachment], scanner: Scanner) -> tuple[Finding, ...]:
    """One finding for each, in their order; raises `AttachmentRefused` for the first that is not clean."""
    findings: list[Finding] = []
    for each in attachments:
        finding = await scanner.scan(each.body)
        if finding.is_clean is False:
            raise AttachmentRefused(each.expression, "the virus scanner refuses it", code="security")
        findings.append(finding)
    return tuple(findings)
