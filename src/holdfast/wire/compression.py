"""Answers compressed for callers who ask for it: the last step before an answer is sent.

DynamoDB packs answers of 4 KB and more with gzip or deflate when the caller's Accept-Encoding names one, and
its checksum is then of the packed bytes. It reads the header leniently (what it cannot read of a weight
counts as 1) and takes the heaviest encoding; among equals the one named first, and gzip where only `*`
speaks.
"""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from typing import Final

PACKED_BYTES_MIN: Final = 4096
# The quickest level: the caller sits on the same machine, or near.
_LEVEL: Final = 1
_WBITS: Final = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
_WEIGHT: Final = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")


def packed(body: bytes, encoding: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=_WBITS[encoding])
    return packer.compress(body) + packer.flush()


@lru_cache(maxsize=64)
def chosen_encoding(accepted: bytes) -> bytes | None:
    """What an Accept-Encoding header asks for, if it is something we do."""
    weights: dict[bytes, float] = {}
    for entry in accepted.lower().split(b","):
        name, *parameters = (part.strip() for part in entry.split(b";"))
        weights[name] = max(weights.get(name, 0.0), _weight(parameters))
    named = [name for name in weights if name in _WBITS]
    offered = {name: weights[name] for name in named}
    if b"*" in weights:
        offered |= {name: weights[b"*"] for name in _WBITS if name not in offered}
    best = max(offered, key=lambda name: offered[name], default=None)
    return best if best is not None and offered[best] > 0 else None


def _weight(parameters: list[bytes]) -> float:
    """The first `q` counts, up to 1."""
    for parameter in parameters:
        name, _, value = (part.strip() for part in parameter.partition(b"="))
        if name == b"q":
            return min(float(value), 1.0) if _WEIGHT.fullmatch(value) else 1.0
    return 1.0
