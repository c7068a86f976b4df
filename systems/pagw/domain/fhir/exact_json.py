"""JSON without loss of precision: a decimal keeps its digits (`1.10` stays `1.10`), as FHIR requires.

Python's own parser reads decimals as binary floating-point numbers, which drops trailing zeros and may change
the last digits. Everything that passes through the gateway unchanged is read and written here.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import msgspec

_DECODER: Final = msgspec.json.Decoder(float_hook=Decimal)
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


def parse_exact(body: bytes) -> Any:
    """Parse JSON; decimals become `Decimal`. Raise `ValueError` for anything that is not JSON."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, ArithmeticError) as error:
        # The parser's message may quote the text, which holds patient data.
        raise ValueError("it is not JSON") from error


def dump_exact(value: Any) -> bytes:
    """Return compact JSON. A `Decimal` keeps all of its digits, and fields keep their order."""
    return _ENCODER.encode(value)
