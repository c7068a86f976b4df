"""Decode request bodies by their Content-Encoding: gzip, deflate and identity, in bounded time and space.

The work grows linearly with the bytes that go in and come out, whatever the input: a body is decoded in
slices, a gzip body has a bounded number of members, and decoding stops at the first byte over the limit. The
DynamoDB endpoint decodes whole bodies (`decode_body`); the APIs decode each piece as it arrives
(`BodyDecoder`). Both do it in one of a few threads, unless the piece is tiny and stays small.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from holdfast.core.limits import KIB
from holdfast.core.rng import call_after_fork

__all__ = [
    "BodyDecoder",
    "CodingUnsupported",
    "DecodedTooLarge",
    "EncodingInvalid",
    "decode_body",
    "estimate_decoded_bytes",
    "parse_codings",
    "run_decoding",
]

GZIP: Final = "gzip"
DEFLATE: Final = "deflate"
IDENTITY: Final = "identity"
_ALIASES: Final = {"x-gzip": GZIP}
# Encoding a body twice makes it larger. A list of three is an attack or a mistake.
MAX_CODINGS: Final = 2
# Tools that write blocks as members make one per 64 KiB, so the largest body has a few hundred.
MAX_MEMBERS: Final = 1000
# What follows a member is copied once per member, and never more than a slice of it.
SLICE_BYTES: Final = 64 * KIB
# Deflate expands a byte to 1,032 at most, so such a piece takes about a millisecond in its last coding.
MAX_INLINE_BYTES: Final = KIB
_MAX_RATIO: Final = 1032
# More at the same time would take the processors, and the threads of the default pool, from other work.
MAX_DECODINGS: Final = 2

_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_DEFLATE_METHOD: Final = 8

T = TypeVar("T")


class CodingUnsupported(Exception):
    """The Content-Encoding names an unknown coding, or too many."""


class EncodingInvalid(Exception):
    """The body is not what its Content-Encoding says: damaged, cut short, or with bytes behind its end."""


class DecodedTooLarge(Exception):
    """The decoded body is larger than the limit."""


def parse_codings(values: Iterable[bytes]) -> tuple[str, ...]:
    """Return the codings in the values of all Content-Encoding headers, in the order of their application.

    `identity` is left out. Raise `CodingUnsupported`.
    """
    names = [name.strip().lower() for value in values for name in value.decode("latin-1").split(",")]
    codings = [_ALIASES.get(name, name) for name in names if name not in ("", IDENTITY)]
    for coding in codings:
        if coding not in (GZIP, DEFLATE):
            raise CodingUnsupported(
                f"unsupported Content-Encoding {coding[:50]}, expected gzip, deflate or identity"
            )
    if len(codings) > MAX_CODINGS:
        raise CodingUnsupported(
            f"unsupported Content-Encoding: expected at most {MAX_CODINGS} codings, got {len(codings)}"
        )
    return tuple(codings)


async def decode_body(codings: Sequence[str], body: bytes, max_bytes: int) -> bytes:
    """Return a whole body decoded. Raise `EncodingInvalid` or `DecodedTooLarge`."""
    decoder = BodyDecoder(codings, max_bytes)

    def decode() -> bytes:
        decoded = decoder.decode(body)
        decoder.finish()
        return decoded

    return await run_decoding(decode, codings, len(body))


def estimate_decoded_bytes(codings: Sequence[str], encoded_bytes: int, max_bytes: int) -> int:
    """Return how much memory decoding may take: the most that the codings can expand to, or the limit."""
    expanded: int = encoded_bytes * _MAX_RATIO ** len(codings)
    return min(expanded, max_bytes * len(codings))


async def run_decoding(decode: Callable[[], T], codings: Sequence[str], encoded_bytes: int) -> T:
    """Run a function that decodes so many bytes: in a thread, so that other requests do not wait for it.

    At most `MAX_DECODINGS` run at the same time; the others wait. Only the last coding of a tiny piece is
    undone here: what the one before may expand it to counts.
    """
    if encoded_bytes * _MAX_RATIO ** (len(codings) - 1) <= MAX_INLINE_BYTES:
        return decode()
    return await asyncio.get_running_loop().run_in_executor(_get_threads(), decode)


@functools.cache
def _get_threads() -> ThreadPoolExecutor:
    """Return the threads of this process that decode, for all servers and event loops."""
    return ThreadPoolExecutor(MAX_DECODINGS, "holdfast-decode")


# A forked child has none of its parent's threads.
call_after_fork(_get_threads.cache_clear)


class BodyDecoder:
    """Decodes one body piece by piece, up to `max_bytes` after each coding."""

    def __init__(self, codings: Sequence[str], max_bytes: int) -> None:
        self.codings = codings
        self._inflaters = [_Inflater(coding, max_bytes) for coding in reversed(codings)]

    def decode(self, data: bytes) -> bytes:
        """Return the next piece decoded. Raise `EncodingInvalid` or `DecodedTooLarge`."""
        for inflater in self._inflaters:
            data = inflater.inflate(data)
        return data

    def finish(self) -> None:
        """Raise `EncodingInvalid` if the body is cut short."""
        for inflater in self._inflaters:
            inflater.finish()


class _Inflater:
    """Undoes one coding. `_member` is the stream that has begun and not ended."""

    def __init__(self, coding: str, max_bytes: int) -> None:
        self._coding, self._bytes_left = coding, max_bytes
        self._max_members = MAX_MEMBERS if coding == GZIP else 1
        self._members = 0
        self._member: zlib._Decompress | None = None

    def inflate(self, data: bytes) -> bytes:
        inflated, view = bytearray(), memoryview(data)
        try:
            for start in range(0, len(view), SLICE_BYTES):
                self._inflate_slice(view[start : start + SLICE_BYTES], inflated)
        except zlib.error as error:
            raise EncodingInvalid(f"invalid {self._coding} data ({error})") from None
        return bytes(inflated)

    def finish(self) -> None:
        if self._member is not None or self._members == 0:
            raise EncodingInvalid(f"truncated {self._coding} data")

    def _inflate_slice(self, data: memoryview | bytes, inflated: bytearray) -> None:
        """Inflate one slice, which may hold the end of a member and many others."""
        while len(data):
            member = self._member = self._member or self._begin_member(data[0])
            part = member.decompress(data, self._bytes_left + 1)
            self._bytes_left -= len(part)
            if self._bytes_left < 0:
                raise DecodedTooLarge
            inflated += part
            if not member.eof:
                return
            data, self._member = member.unused_data, None

    def _begin_member(self, first_byte: int) -> zlib._Decompress:
        """Return the stream of the next member. Raise `EncodingInvalid` if there are too many."""
        if self._members == self._max_members:
            wrong = "too many members in" if self._coding == GZIP else "bytes behind the end of"
            raise EncodingInvalid(f"{wrong} {self._coding} data")
        self._members += 1
        if self._coding == GZIP:
            return zlib.decompressobj(wbits=_GZIP_WBITS)
        # `deflate` means the zlib format, and some clients send the bare stream. No encoder begins that with
        # the method of zlib's header: it would be a stored block with padding that is not zero.
        is_zlib = first_byte & 0x0F == _DEFLATE_METHOD
        return zlib.decompressobj(wbits=zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
