"""Response compression: the encoding that an Accept-Encoding header selects, and compressed bodies."""

from __future__ import annotations

import gzip
import zlib

from holdfast.wire.http.compression import choose_encoding, compress
from tests.cases import all_cases


@all_cases(
    ("accepted", "encoding"),
    [
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("GZIP, identity", "gzip"),
        ("dog, gzip ,, cat", "gzip"),
        ("gzip, deflate", "gzip"),
        ("br, identity, deflate, gzip", "deflate"),
        ("gzip;q=0.8, deflate;q=0.5", "gzip"),
        ("deflate;q=0.5, gzip;q=0.2", "deflate"),
        ("br, gzip;q=0, deflate; q = 0.5 , identity;q=0", "deflate"),
        ("br,identity;q=0.5,gzip;q=0.0001", "gzip"),
        ("gzip;q=0.5,identity;q=0.8", "gzip"),
    ],
)
def test_prefers_the_highest_weight_then_the_first(accepted: str, encoding: str) -> None:
    assert choose_encoding(accepted.encode()) == encoding.encode()


@all_cases(
    ("accepted", "encoding"),
    [
        ("*", "gzip"),
        ("*, identity", "gzip"),
        ("*;q=0.5,identity", "gzip"),
        ("*, deflate", "deflate"),
        ("*, deflate;q=0.5", "gzip"),
        ("*, gzip;q=0.5", "deflate"),
    ],
)
def test_star_applies_to_unnamed_encodings(accepted: str, encoding: str) -> None:
    assert choose_encoding(accepted.encode()) == encoding.encode()


@all_cases(
    "accepted",
    [
        "",
        "identity",
        "identity;q=0",
        "br",
        "x-gzip",
        '"gzip"',
        "gzip br",
        "gzip:q=1",
        "gzip ;q=0",
        "*;q=0",
        "br;q=0.8,identity;q=0.5,*;q=0",
        "gzip;nq=1;q=0 ",
    ],
)
def test_does_not_compress_unless_requested(accepted: str) -> None:
    assert choose_encoding(accepted.encode()) is None


@all_cases(
    ("accepted", "encoding"),
    [
        ("deflate;q=0.5, gzip;q=31", "gzip"),
        ("gzip;q=31,deflate;q=51", "gzip"),
        ("deflate;q=0.5, gzip;q=1;q=0.2", "gzip"),
        ("deflate;q=0.5,gzip;q=0.", "deflate"),
        ("deflate;q=0.5,gzip;q=0.x", "gzip"),
        ("deflate;q=-0.5,gzip;q=0.2", "gzip"),
        ("gzip;q=0, gzip;q=1, gzip;q=0", "gzip"),
    ],
)
def test_reads_malformed_headers_leniently(accepted: str, encoding: str) -> None:
    assert choose_encoding(accepted.encode()) == encoding.encode()


def test_compressed_answer_can_be_decompressed() -> None:
    body = b'{"Items": []}' * 1000
    assert gzip.decompress(compress(body, b"gzip")) == body
    assert zlib.decompress(compress(body, b"deflate")) == body
