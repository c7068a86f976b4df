"""Check that the Host header of a request names this machine, against DNS rebinding.

Without signature verification, access to the port is enough, and a browser on this machine has it. The
browser blocks pages of other origins, unless a page points its own name to 127.0.0.1 after it was loaded: the
browser then takes this server for the page's origin. The Host header still carries the page's name, so the
wire checks it here and answers only for names that no one else can own.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.core.http.addresses import is_loopback

# Sent by a client that was configured to find DynamoDB here. Only AWS controls where these names point.
_DYNAMODB_HOST: Final = re.compile(r"(streams\.)?dynamodb\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]*)?")


def is_local_host(host: bytes) -> bool:
    """Return whether the value of the Host header, with or without a port, is a loopback name or address, or
    the name of a DynamoDB endpoint of AWS.
    """
    matched = _HOST.fullmatch(host.decode("latin-1").strip().lower())
    if matched is None:
        return False
    name = matched["name"].removesuffix(".")
    return is_loopback(name) or name.endswith(".localhost") or bool(_DYNAMODB_HOST.fullmatch(name))
