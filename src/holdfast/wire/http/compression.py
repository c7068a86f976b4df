"""Response compression for callers that accept it: the last step before a response is sent.

DynamoDB compresses responses of 4 KB and more with gzip or deflate if the Accept-Encoding header names one,
and computes its checksum over the compressed bytes. It parses the header leniently (an unreadable weight
counts as 1) and takes the encoding with the highest weight; among equals the first, and gzip if there is only
`*`.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import Final

MIN_COMPRESSIBLE_BYTES: Final = 4096
# The fastest level: the caller is on the same machine or near it.
_LEVEL: Final = 1
_WBITS: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_WEIGHT_PATTERN: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


def compress(body: bytes, encoding: bytes) -> bytes:
    """Compress a body with gzip or deflate, at the fastest level."""
    packer = zlib.compressobj(_LEVEL, wbits=_WBITS[encoding])
    return packer.compress(body) + packer.flush()


@lru_cache(maxsize=64)
def choose_encoding(accept_encoding: bytes) -> bytes | None:
    """Return the encoding that an Accept-Encoding header selects, or None if none is supported."""
    weights: dict[bytes, float] = {}
    for entry in accept_encoding.lower().split(b","):
        name, *parameters = (part.strip() for part in entry.split(b";"))
        weights[name] = max(weights.get(name, 0.0), _parse_weight(parameters))
    named = [name for name in weights if name in _WBITS]
    offered = {name: weights[name] for name in named}
    if b"*" in weights:
        offered |= {name: weights[b"*"] for name in _WBITS if name not in offered}
    best = max(offered, key=lambda name: offered[name], default=None)
    return best if best is not None and offered[best] > 0 else None


def _parse_weight(parameters: list[bytes]) -> float:
    """Return the value of the first `q` parameter, at most 1; 1 without a readable one."""
    for parameter in parameters:
        name, _, value = (part.strip() for part in parameter.partition(b"="))
        if name == b"q":
            return min(float(value), 1.0) if _WEIGHT_PATTERN.fullmatch(value) else 1.0
    return 1.0
