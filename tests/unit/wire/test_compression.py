"""Which encoding an Accept-Encoding header asks for, as DynamoDB reads it, and answers packed in it."""

from __future__ import annotations

import gzip
import zlib

import pytest

from holdfast.wire.compression import chosen_encoding, packed


@pytest.mark.parametrize(
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
def test_the_heaviest_encoding_wins_and_among_equals_the_first(accepted: str, encoding: str) -> None:
    assert chosen_encoding(accepted.encode()) == encoding.encode()


@pytest.mark.parametrize(
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
def test_a_star_speaks_for_what_is_not_named(accepted: str, encoding: str) -> None:
    assert chosen_encoding(accepted.encode()) == encoding.encode()


@pytest.mark.parametrize(
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
def test_nothing_is_packed_for_a_caller_who_does_not_ask(accepted: str) -> None:
    assert chosen_encoding(accepted.encode()) is None


@pytest.mark.parametrize(
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
def test_what_is_wrong_in_a_header_is_read_leniently(accepted: str, encoding: str) -> None:
    assert chosen_encoding(accepted.encode()) == encoding.encode()


def test_what_is_packed_can_be_unpacked() -> None:
    body = b'{"Items": []}' * 1000
    assert gzip.decompress(packed(body, b"gzip")) == body
    assert zlib.decompress(packed(body, b"deflate")) == body
