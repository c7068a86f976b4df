"""SMART on FHIR: the scopes of system clients in versions 1 and 2, and the configuration of the server.

The gateway's routes demand scopes of version 1 (`system/Claim.read`). A token may grant them as such, by
wildcards (`system/*.read`, `system/Claim.*`, `system/*.*`), or in version 2 by letters (`system/Claim.rs`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Final

READ: Final = "read"
WRITE: Final = "write"
# The letters of version 2 that a permission of version 1 stands for. A search alone reads nothing.
_READ_LETTERS: Final = frozenset("r")
# $submit creates a Claim, and only creates; a subscription is created, changed and deleted.
_WRITE_LETTERS: Final = {"Claim": frozenset("c"), "Subscription": frozenset("cud")}
_V1_LETTERS: Final = {READ: frozenset("rs"), WRITE: frozenset("cud"), "*": frozenset("cruds")}
# Version 2 demands this order. Scopes with a query are narrower than the gateway can check, so none matches.
_SCOPE: Final = re.compile(
    r"system/(?P<resource>\*|[A-Z][A-Za-z]+)\.(?P<permission>read|write|\*|(?=[cruds])c?r?u?d?s?)"
)


def expand_scopes(granted: Iterable[str], known: Collection[str]) -> frozenset[str]:
    """Return the granted scopes and those of `known` (of version 1) that they include."""
    given = frozenset(granted)
    parsed = [found for each in given if (found := _SCOPE.fullmatch(each)) is not None]
    return given | {each for each in known if any(_includes(scope, each) for scope in parsed)}


def build_smart_configuration(
    *, issuer: str, jwks_url: str, token_url: str, scopes: Iterable[str]
) -> dict[str, Any]:
    """Build the document at `.well-known/smart-configuration`, for clients without a user."""
    return {
        "issuer": issuer,
        "jwks_uri": jwks_url,
        "token_endpoint": token_url,
        "grant_types_supported": ["client_credentials"],
        "scopes_supported": list(scopes),
        # What the gateway itself does. How a client authenticates is up to the issuer.
        "capabilities": ["permission-v1", "permission-v2"],
        # SMART demands this member of every server.
        "code_challenge_methods_supported": ["S256"],
    }


def _includes(scope: re.Match[str], wanted: str) -> bool:
    """Return whether a granted scope includes one of version 1."""
    resource, _, permission = wanted.removeprefix("system/").partition(".")
    if scope["resource"] not in ("*", resource):
        return False
    letters = _V1_LETTERS.get(scope["permission"], frozenset(scope["permission"]))
    needed = _READ_LETTERS if permission == READ else _WRITE_LETTERS.get(resource, _V1_LETTERS[WRITE])
    return needed <= letters
