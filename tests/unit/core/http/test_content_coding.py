"""Content codings: what is decoded, what is refused, and how much work it takes."""

from __future__ import annotations

import asyncio
import gzip
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.http import content_coding
from holdfast.core.http.content_coding import (
    MAX_DECODINGS,
    MAX_INLINE_BYTES,
    MAX_MEMBERS,
    SLICE_BYTES,
    BodyDecoder,
    CodingUnsupported,
    DecodedTooLarge,
    EncodingInvalid,
    decode_body,
    estimate_decoded_bytes,
    parse_codings,
    run_decoding,
)
from tests.cases import all_cases

TEXT = b'{"TableName": "orders"}'
EMPTY_MEMBER = gzip.compress(b"")


def pack_raw(data: bytes) -> bytes:
    """Return the bare deflate stream, without zlib's header and checksum."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def encode(coding: str, data: bytes) -> bytes:
    return gzip.compress(data) if coding == "gzip" else zlib.compress(data)


def decode(codings: Sequence[str], *pieces: bytes, max_bytes: int = 1_000_000) -> bytes:
    decoder = BodyDecoder(codings, max_bytes)
    decoded = b"".join(decoder.decode(piece) for piece in pieces)
    decoder.finish()
    return decoded


@dataclass
class Work:
    """The work of zlib: how often it was called, how many bytes went in, and how many it copied back."""

    calls: int = 0
    bytes_in: int = 0
    bytes_copied: int = 0


class CountingStream:
    """A decompressor that counts its work."""

    def __init__(self, work: Work, stream: Any) -> None:
        self._work, self._stream = work, stream

    def decompress(self, data: bytes, max_length: int) -> bytes:
        self._work.calls += 1
        self._work.bytes_in += len(data)
        part: bytes = self._stream.decompress(data, max_length)
        self._work.bytes_copied += len(self._stream.unused_data)
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    counted, make = Work(), zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", lambda wbits: CountingStream(counted, make(wbits=wbits)))
    return counted


# --- what is decoded ----------------------------------------------------------------------------------------


@all_cases(
    ("header", "codings"),
    [
        ("gzip", ("gzip",)),
        (" GZip ", ("gzip",)),
        ("x-gzip", ("gzip",)),
        ("deflate", ("deflate",)),
        ("identity", ()),
        ("", ()),
        ("deflate, gzip", ("deflate", "gzip")),
        ("identity,gzip,identity", ("gzip",)),
    ],
)
def test_header_names_the_codings(header: str, codings: tuple[str, ...]) -> None:
    assert parse_codings([header.encode()]) == codings


def test_several_headers_are_one_list() -> None:
    assert parse_codings([b"deflate", b"gzip"]) == ("deflate", "gzip")


@all_cases("header", ["br", "compress", "gzip;q=1", "gzip gzip", "gzip, br", "gzip,gzip,gzip", "\xff", "*"])
def test_other_codings_and_long_lists_are_unsupported(header: str) -> None:
    with pytest.raises(CodingUnsupported, match="unsupported Content-Encoding"):
        parse_codings([header.encode("latin-1")])


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=20))
def test_every_format_and_every_split_gives_the_same_bytes(body: bytes, cuts: list[int]) -> None:
    both = gzip.compress(zlib.compress(body))
    for codings, packed in (
        (("gzip",), gzip.compress(body)),
        (("deflate",), zlib.compress(body)),
        (("deflate",), pack_raw(body)),
        (("deflate", "gzip"), both),
    ):
        pieces, rest = [], packed
        for cut in cuts:
            pieces.append(rest[:cut])
            rest = rest[cut:]
        assert decode(codings, *pieces, rest) == body


def test_joins_the_members_of_a_gzip_body() -> None:
    assert decode(["gzip"], gzip.compress(TEXT[:5]) + EMPTY_MEMBER + gzip.compress(TEXT[5:])) == TEXT


# --- what is refused ----------------------------------------------------------------------------------------


@all_cases("coding", ["gzip", "deflate"])
def test_cut_damaged_and_continued_bodies_are_invalid(coding: str) -> None:
    packed = encode(coding, TEXT)
    for wrong in (b"", packed[:-1], packed[:5], packed + b"junk", b"\0" + packed, packed + b"\0"):
        with pytest.raises(EncodingInvalid, match=coding):
            decode([coding], wrong)


def test_a_deflate_body_has_one_stream() -> None:
    with pytest.raises(EncodingInvalid, match="bytes behind the end of deflate data"):
        decode(["deflate"], zlib.compress(b"a") + zlib.compress(b"b"))


@all_cases("codings", [("gzip",), ("deflate",), ("gzip", "gzip")])
def test_a_bomb_stops_at_the_limit(codings: tuple[str, ...], work: Work) -> None:
    packed, calls = bytes(10_000_000), work.calls
    for coding in codings:
        packed = encode(coding, packed)
    with pytest.raises(DecodedTooLarge):
        decode(codings, packed, max_bytes=1000)
    assert work.calls - calls <= len(codings)


def test_a_body_of_exactly_the_limit_is_decoded() -> None:
    packed = gzip.compress(bytes(1000)) + EMPTY_MEMBER
    assert decode(["gzip"], packed, max_bytes=1000) == bytes(1000)
    with pytest.raises(DecodedTooLarge):
        decode(["gzip"], packed, max_bytes=999)


# --- how much work it takes ---------------------------------------------------------------------------------


def test_many_empty_members_take_bounded_work(work: Work) -> None:
    """Each member copies what follows it: without slices and a limit, the work grows with the square."""
    body = EMPTY_MEMBER * 800_000
    with pytest.raises(EncodingInvalid, match="too many members in gzip data"):
        decode(["gzip"], body)
    assert work.calls <= MAX_MEMBERS
    assert work.bytes_copied <= MAX_MEMBERS * SLICE_BYTES


def test_work_grows_with_the_size_of_the_body_only(work: Work) -> None:
    """As many members as allowed, in a body twice as large: twice the calls and bytes, not four times."""
    done = []
    for size in (4_000, 8_000):
        member = gzip.compress(bytes(range(256)) * (size // 256), compresslevel=0)
        body = member * MAX_MEMBERS
        before = (work.calls, work.bytes_in)
        decode(["gzip"], body, max_bytes=20_000_000)
        done.append((work.calls - before[0], work.bytes_in - before[1]))
        slices = len(body) // SLICE_BYTES + 1
        assert done[-1][0] <= MAX_MEMBERS + slices
        assert done[-1][1] <= len(body) + MAX_MEMBERS * SLICE_BYTES
    assert done[1][0] <= 2 * done[0][0]
    assert done[1][1] <= 2 * done[0][1]


def test_bytes_that_arrive_one_by_one_are_handled_once_each(work: Work) -> None:
    packed = gzip.compress(TEXT * 20)
    assert decode(["gzip"], *(bytes([byte]) for byte in packed)) == TEXT * 20
    assert (work.calls, work.bytes_in) == (len(packed), len(packed))


async def test_only_tiny_bodies_are_decoded_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    inflate = content_coding._Inflater.inflate

    def note_thread(inflater: Any, data: bytes) -> bytes:
        threads.append(threading.current_thread() is threading.main_thread())
        return inflate(inflater, data)

    monkeypatch.setattr(content_coding._Inflater, "inflate", note_thread)
    large = gzip.compress(bytes(MAX_INLINE_BYTES), compresslevel=0)
    assert await decode_body(["gzip"], EMPTY_MEMBER, 10) == b""
    assert await decode_body(["gzip"], large, 10_000) == bytes(MAX_INLINE_BYTES)
    assert threads == [True, False]
    threads.clear()
    # A few bytes that two codings may expand to a million times as many.
    twice = encode("gzip", encode("deflate", bytes(2_000_000)))
    assert len(twice) < MAX_INLINE_BYTES
    assert await decode_body(["deflate", "gzip"], twice, 10_000_000) == bytes(2_000_000)
    assert threads == [False, False]


async def test_only_a_few_bodies_are_decoded_at_the_same_time() -> None:
    running, most, lock = 0, 0, threading.Lock()
    # Each decoding waits until as many run as may, so that more would be seen.
    full, released = threading.Semaphore(0), threading.Event()

    def decode_slowly() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.release()
        assert released.wait(30)
        with lock:
            running -= 1

    decodings = [
        asyncio.create_task(run_decoding(decode_slowly, ["gzip"], MAX_INLINE_BYTES + 1)) for _ in range(10)
    ]
    for _ in range(MAX_DECODINGS):
        assert await asyncio.to_thread(full.acquire, timeout=30)
    # Other work has its own threads.
    assert await asyncio.to_thread(lambda: "done") == "done"
    released.set()
    await asyncio.gather(*decodings)
    assert most == MAX_DECODINGS


def test_estimate_is_never_below_the_decoded_size() -> None:
    body = bytes(1_000_000)
    assert estimate_decoded_bytes(["gzip"], len(gzip.compress(body)), 10**9) >= len(body)
    assert estimate_decoded_bytes(["gzip"], 10_000_000, 1000) == 1000
