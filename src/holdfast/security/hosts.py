"""Whether a request was meant for this machine, by the name its Host header calls us.

Where no signature is verified, reaching the port is all it takes, and a browser on this machine can reach it. It
keeps the pages of other origins out, unless a page lets its own name point to 127.0.0.1 after it was loaded: to
the browser, we are then where the page came from. Its name stays in the Host header, though, so the wire asks
here and answers only to names that nobody else can own.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

# What a client sends that was told to find the service here: only AWS can let these names point anywhere.
_SERVICE: Final = re.compile(r"(streams\.)?dynamodb\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]*)?")


def is_name_of_this_machine(host: bytes) -> bool:
    """`host` is the header's value: a name or an address, with or without a port."""
    matched = _HOST.fullmatch(host.decode("latin-1").strip().lower())
    if matched is None:
        return False
    name = matched["name"].removesuffix(".")
    if name == "localhost" or name.endswith(".localhost") or _SERVICE.fullmatch(name):
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
