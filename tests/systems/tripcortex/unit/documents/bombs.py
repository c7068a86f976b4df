"""Small PDF documents that cost an unbounded reader gigabytes or hours, and a command that reads them.

Run as a module, it reads each as an upload is read and prints one line per document: the outcome and the
memory used.
"""

from __future__ import annotations

import json
import resource
import sys
import zlib
from typing import Final

from tripcortex.documents import DocumentRefused, PdfParser

PAPER: Final = "0 0 612 792"
WORDS: Final = b"BT /F1 12 Tf 72 700 Td (Economy class is required on flights.) Tj ET\n"
HELVETICA: Final = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
CATALOG: Final = b"<</Type/Catalog/Pages 2 0 R>>"


def huge_page() -> bytes:
    """Build a page of a million points on each side."""
    side = 1_000_000
    strokes = f"100 100 {side / 2} {side / 2} re S 100 100 m 2000 3000 l S 150 100 m 2000 3000 l S 200 100 m 20 300 l S"  # noqa: E501
    return _build_page(WORDS + strokes.encode() * 2, paper=f"0 0 {side} {side}")


def repeated_letters(times: int) -> bytes:
    """Build a page with nine letters written `times` times."""
    return _build_page(WORDS + b"BT /F1 1 Tf 72 600 Td " + b"(aaaa bbbb) Tj " * times + b"ET\n")


def strokes() -> bytes:
    """Build a page with a hundred thousand strokes."""
    return _build_page(WORDS + b"10 10 m 300 300 l S\n" * 100_000)


def scattered_letters() -> bytes:
    """Build a page of single letters, as if in hundreds of columns."""
    placed = b"".join(
        b"1 0 0 1 %d %d Tm (x) Tj " % (10 + 4 * (number % 148), 10 + 3 * (number // 148))
        for number in range(20_000)
    )
    return _build_page(b"BT /F1 1 Tf " + placed + b"ET\n")


def fine_grid() -> bytes:
    """Build a table of a quarter of a million cells."""
    lines = b"".join(
        b"10 %.2f m 600 %.2f l S %.2f 10 m %.2f 780 l S " % (at * 1.54 + 10, at * 1.54 + 10, at + 10, at + 10)
        for at in range(0, 500, 3)
    )
    return _build_page(
        WORDS + lines + b"BT /F1 1 Tf 3 TL 10 770 Td " + b"(a b c d e f g h i j k l) ' " * 250 + b"ET\n"
    )


def nested_forms() -> bytes:
    """Nest ten forms in each form, ten levels deep."""
    forms = [
        _build_stream(
            b"/X Do " * 10,
            b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X %d 0 R>>>>" % (7 + level),
        )
        for level in range(10)
    ]
    last = _build_stream(b"0 0 5 5 re S " * 10, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]")
    return _build_page(WORDS + b"/X Do\n", *forms, last, resources=b"/XObject<</X 6 0 R>>")


def unpacked_stream() -> bytes:
    """Compress half a billion spaces twice into a few kilobytes."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 10_000_000) for _ in range(50)) + packer.flush()
    return _build_page(
        WORDS,
        content=_build_compressed_stream(zlib.compress(packed, 9), b"/Filter[/FlateDecode/FlateDecode]"),
    )


def huge_picture() -> bytes:
    """Build a page with a picture of 60,000 by 60,000 pixels."""
    size = b"/Width 60000/Height 60000/ColorSpace/DeviceRGB/BitsPerComponent 8"
    picture = _build_stream(b"\x00" * 3_000_000, b"/Type/XObject/Subtype/Image" + size)
    return _build_page(
        WORDS + b"q 400 0 0 400 100 100 cm /I Do Q\n", picture, resources=b"/XObject<</I 6 0 R>>"
    )


def tiny_tiles() -> bytes:
    """Fill a shape with tiles of a thousandth of a point."""
    tile = _build_stream(
        b"0 0 .001 .001 re f ",
        b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 .001 .001]/XStep .001/YStep .001/Resources<<>>",  # noqa: E501
    )
    filled = b"/Pattern cs /P scn " + b"100 100 300 300 re f 110 110 200 250 re f " * 4
    return _build_page(WORDS + filled, tile, resources=b"/Pattern<</P 6 0 R>>")


def many_fonts() -> bytes:
    """Build a page with three thousand fonts."""
    names = b"".join(b"/G%d %d 0 R" % (number, 6 + number) for number in range(3_000))
    shown = b"".join(b"/G%d 1 Tf (a) Tj " % number for number in range(3_000))
    return _build_page(WORDS + b"BT " + shown + b"ET\n", *[HELVETICA] * 3_000, fonts=names)


def deep_pages() -> bytes:
    """Put a page under five thousand nodes."""
    depth = 5_000
    nodes = [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (number + 1) for number in range(2, 2 + depth)]
    page = f"<</Type/Page/Parent {1 + depth} 0 R/MediaBox[{PAPER}]>>".encode()
    return _build_document([CATALOG, *nodes, page])


def unpacked_objects() -> bytes:
    """Put an object into an object stream that decompresses to half a billion bytes."""
    packer = zlib.compressobj(9)
    start = b"2 0 " + b"<</Type/Pages/Kids[]/Count 0>>"
    packed = (
        packer.compress(start)
        + b"".join(packer.compress(b" " * 10_000_000) for _ in range(50))
        + packer.flush()
    )
    body = b"%PDF-1.5\n1 0 obj\n" + CATALOG + b"\nendobj\n"
    held_at = len(body)
    body += (
        b"3 0 obj\n"
        + _build_compressed_stream(packed, b"/Type/ObjStm/N 1/First 4/Filter/FlateDecode")
        + b"\nendobj\n"
    )
    table_at = len(body)
    places = [(0, 0, 65535), (1, 9, 0), (2, 3, 0), (1, held_at, 0), (1, table_at, 0)]
    table = b"".join(
        bytes([kind]) + at.to_bytes(4, "big") + rest.to_bytes(2, "big") for kind, at, rest in places
    )
    return (
        body
        + b"4 0 obj\n"
        + _build_compressed_stream(table, b"/Type/XRef/Size 5/W[1 4 2]/Root 1 0 R")
        + b"\nendobj\nstartxref\n%d\n%%%%EOF\n" % table_at
    )


BOMBS: Final = {
    "huge_page": huge_page,
    "many_letters": lambda: repeated_letters(10_000),
    "millions_of_letters": lambda: repeated_letters(400_000),
    "strokes": strokes,
    "scattered_letters": scattered_letters,
    "fine_grid": fine_grid,
    "nested_forms": nested_forms,
    "unpacked_stream": unpacked_stream,
    "huge_picture": huge_picture,
    "tiny_tiles": tiny_tiles,
    "many_fonts": many_fonts,
    "deep_pages": deep_pages,
    "unpacked_objects": unpacked_objects,
}


def _build_page(
    drawn: bytes,
    *more: bytes,
    paper: str = PAPER,
    resources: bytes = b"",
    fonts: bytes = b"",
    content: bytes | None = None,
) -> bytes:
    """Build a document of one page; its additional objects are numbered from 6."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[%s]/Contents 4 0 R/Resources<</Font<</F1 5 0 R%s>>%s>>>>" % (
        paper.encode(),
        fonts,
        resources,
    )
    tree = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return _build_document([CATALOG, tree, page, content or _build_stream(drawn), HELVETICA, *more])


def _build_stream(content: bytes, entries: bytes = b"") -> bytes:
    """Return a PDF stream object with the content compressed."""
    return _build_compressed_stream(zlib.compress(content, 9), entries + b"/Filter/FlateDecode")


def _build_compressed_stream(content: bytes, entries: bytes) -> bytes:
    """Return a PDF stream object with content that is already compressed."""
    return b"<<%s/Length %d>>stream\n%s\nendstream" % (entries, len(content), content)


def _build_document(objects: list[bytes]) -> bytes:
    """Return a PDF of these objects, numbered from 1, with its cross-reference table."""
    body, places = b"%PDF-1.4\n", []
    parts = [body]
    at = len(body)
    for number, each in enumerate(objects, 1):
        places.append(at)
        parts.append(b"%d 0 obj\n%s\nendobj\n" % (number, each))
        at += len(parts[-1])
    size = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(
        b"%010d 00000 n \n" % place for place in places
    )
    return b"".join(parts) + table + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, at)


def _read_bomb(name: str, seconds: float) -> dict[str, object]:
    """Read a document in a subprocess; return its outcome and the largest child's peak memory."""
    body = BOMBS[name]()
    try:
        entities = sum(1 for _ in PdfParser(seconds=seconds).parse(body, "bomb.pdf"))
        ended: dict[str, object] = {"entities": entities}
    except DocumentRefused as error:
        ended = {"refused": error.code, "why": error.why}
    # The peak of the largest child process so far.
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"name": name, "bytes": len(body), "largest_kilobytes": largest, **ended}


if __name__ == "__main__":
    for bomb in sys.argv[2:] or BOMBS:
        sys.stdout.write(json.dumps(_read_bomb(bomb, float(sys.argv[1]))) + "\n")
        sys.stdout.flush()
