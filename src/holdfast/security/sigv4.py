"""Verification of AWS Signature Version 4 for requests to DynamoDB, on the service's side.

The wire calls this before it decodes a body. `read_claim` parses the signature and refuses a malformed one;
`Verifier.verify` also checks it against the server's credentials. The order of the checks and their texts are
AWS's, because callers read them when they debug a signature.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import AccessRefused

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "dynamodb"
TERMINATOR: Final = "aws4_request"
MIN_CLOCK_SKEW: Final = 5
# One week: AWS's limit for a signature in a query string.
MAX_EXPIRES_S: Final = 7 * 24 * 3600

Headers = Sequence[tuple[bytes, bytes]]


class SignedRequest(NamedTuple):
    """The parts of a request that a signature covers. Header names are lower case; `path` and `query` are as
    sent.
    """

    method: str
    path: str
    query: bytes
    headers: Headers
    body: bytes


class Claim(NamedTuple):
    """The signature of a request, parsed but not verified. `in_query`: it is in the query string (a presigned
    URL).
    """

    algorithm: str
    credential: str
    signed_headers: str
    signature: str
    date: str
    expires_s: str | None = None
    in_query: bool = False

    @property
    def region(self) -> str | None:
        """The region of the credential, or None if it is not a valid one."""
        parts = self.credential.split("/")
        return parts[2] if len(parts) == _CREDENTIAL_PARTS and _REGION.fullmatch(parts[2]) else None


def read_claim(request: SignedRequest) -> Claim:
    """Parse the signature of a request without verifying it. Raise `AccessRefused` if it is malformed."""
    headers = dict(request.headers)
    authorization = headers.get(b"authorization")
    query = _parse_query(request.query)
    if authorization is not None and "X-Amz-Algorithm" in query:
        raise AccessRefused("InvalidSignatureException", _BOTH_FORMS)
    if authorization is not None and authorization.strip().startswith(b"AWS4-"):
        return _parse_header_claim(authorization.decode("latin-1"), headers)
    if authorization is None and "X-Amz-Algorithm" in query:
        return _parse_query_claim(query)
    raise AccessRefused("MissingAuthenticationTokenException", "Request is missing Authentication Token")


class Verifier:
    """A verifier of claims against known credentials (access key id → secret access key)."""

    def __init__(self, credentials: Mapping[str, str], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._secrets = dict(credentials)
        self._clock = clock
        self._signing_keys: dict[tuple[str, str, str], bytes] = {}

    def verify(self, request: SignedRequest) -> Claim:
        """Return the verified claim. Raise `AccessRefused` with AWS's reason otherwise."""
        claim = read_claim(request)
        moment = _parse_date(claim.date)
        stamp = _format_stamp(moment)
        self._check_age(claim, moment)
        signed_headers = _check_signed_headers(claim)
        _check_algorithm(claim)
        access_key, date, region = _check_scope(claim, stamp)
        signing_key = self._get_signing_key(access_key, date, region)
        scope = f"{date}/{region}/{SERVICE}/{TERMINATOR}"
        digest = hashlib.sha256(build_canonical_request(request, signed_headers)).hexdigest()
        text = f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}"
        expected = hmac.digest(signing_key, text.encode(), "sha256").hex()
        if not hmac.compare_digest(expected.encode(), claim.signature.encode("latin-1")):
            raise AccessRefused("InvalidSignatureException", _WRONG_SIGNATURE)
        _check_no_session(request)
        return claim

    def _check_age(self, claim: Claim, moment: datetime) -> None:
        """Raise `AccessRefused` for a signature that has expired or is from the future, with five minutes of
        tolerance.
        """
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        skew = timedelta(minutes=MIN_CLOCK_SKEW)
        if claim.expires_s is not None:
            _check_lifetime(claim.expires_s, moment, now)
        elif moment < now - skew:
            raise AccessRefused(
                "InvalidSignatureException",
                f"Signature expired: {_format_stamp(moment)} is now earlier than {_format_stamp(now - skew)} "
                f"({_format_stamp(now)} - {MIN_CLOCK_SKEW} min.)",
            )
        if moment > now + skew:
            raise AccessRefused(
                "InvalidSignatureException",
                f"Signature not yet current: {_format_stamp(moment)} is still later than "
                f"{_format_stamp(now + skew)} "
                f"({_format_stamp(now)} + {MIN_CLOCK_SKEW} min.)",
            )

    def _get_signing_key(self, access_key: str, date: str, region: str) -> bytes:
        """Return the signing key, cached. Raise `AccessRefused` for an unknown access key."""
        secret = self._secrets.get(access_key)
        if secret is None:
            raise AccessRefused("UnrecognizedClientException", _UNKNOWN_KEY)
        known = self._signing_keys.get((access_key, date, region))
        if known is not None:
            return known
        # A caller may name any region, so the size of the cache must be bounded.
        if len(self._signing_keys) >= _MAX_SIGNING_KEYS:
            self._signing_keys.clear()
        key = derive_signing_key(secret, date, region, SERVICE)
        self._signing_keys[access_key, date, region] = key
        return key


def derive_signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    """Derive the signing key of a date, region and service from the secret access key."""
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, TERMINATOR):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def build_canonical_request(request: SignedRequest, signed_headers: Sequence[str]) -> bytes:
    """Return the canonical form of a request, which both sides sign."""
    names = sorted(name.encode("latin-1") for name in signed_headers)
    lines = [name + b":" + _canonicalize_value(request.headers, name) for name in names]
    return b"\n".join(
        (
            request.method.encode(),
            _canonicalize_path(request.path),
            _canonicalize_query(request.query),
            *lines,
            b"",
            b";".join(names),
            hashlib.sha256(request.body).hexdigest().encode(),
        )
    )


# --- parsing a claim ----------------------------------------------------------------------------------------


def _parse_header_claim(authorization: str, headers: Mapping[bytes, bytes]) -> Claim:
    """Parse the Authorization header. Raise `AccessRefused` if a part or the date is missing."""
    algorithm, *parameters = (part for part in re.split("[, ]", authorization.strip()) if part)
    given = dict(parameter.partition("=")[::2] for parameter in parameters)
    date = headers.get(b"x-amz-date") or headers.get(b"date")
    missing = [
        f"Authorization header requires '{name}' parameter. "
        for name in ("Credential", "Signature", "SignedHeaders")
        if not given.get(name)
    ]
    if not date:
        missing.append(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        )
    if missing or not date:
        raise AccessRefused(
            "IncompleteSignatureException", "".join(missing) + f"Authorization={authorization}"
        )
    return Claim(
        algorithm, given["Credential"], given["SignedHeaders"], given["Signature"], date.decode("latin-1")
    )


def _parse_query_claim(query: Mapping[str, str]) -> Claim:
    """Parse the signature of a presigned URL. Raise `AccessRefused` if a parameter is missing."""
    required = ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date")
    missing = [
        f"AWS query-string parameters must include '{name}'. " for name in required if not query.get(name)
    ]
    if missing:
        raise AccessRefused(
            "IncompleteSignatureException", "".join(missing) + "Re-examine the query-string parameters."
        )
    algorithm, credential, signature, signed_headers, date = (query[name] for name in required)
    expires = query.get("X-Amz-Expires")
    return Claim(algorithm, credential, signed_headers, signature, date, expires, in_query=True)


def _parse_query(query: bytes) -> dict[str, str]:
    return {_decode(name): _decode(value) for name, value in _split_query(query)} if query else {}


def _split_query(query: bytes) -> list[tuple[bytes, bytes]]:
    """Return the decoded names and values of a query string, in order."""
    split = (pair.partition(b"=") for pair in query.split(b"&") if pair)
    return [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in split]


def _decode(raw: bytes) -> str:
    return raw.decode("latin-1")


# --- checking a claim, in AWS's order -----------------------------------------------------------------------


def _parse_date(date: str) -> datetime:
    """Parse the date as ISO 8601 basic format or as an HTTP date. Raise `AccessRefused` for anything else."""
    try:
        return datetime.strptime(date, _STAMP_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        parsed = parsedate_to_datetime(date)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise AccessRefused(
            "IncompleteSignatureException",
            f"Date must be in ISO-8601 'basic format'. Got '{date}'. "
            "See http://en.wikipedia.org/wiki/ISO_8601",
        ) from None


def _check_lifetime(expires_s: str, moment: datetime, now: datetime) -> None:
    """Raise `AccessRefused` if the lifetime of a presigned URL is invalid or has passed."""
    if not _SECONDS.fullmatch(expires_s) or int(expires_s) > MAX_EXPIRES_S:
        raise AccessRefused(
            "IncompleteSignatureException", "X-Amz-Expires must be a number of seconds of at most a week."
        )
    lifetime = timedelta(seconds=int(expires_s))
    # Not `moment + lifetime < now`: the sum overflows at the end of the calendar.
    if now - moment > lifetime:
        raise AccessRefused(
            "InvalidSignatureException",
            f"Signature expired: {_format_stamp(moment + lifetime)} is now earlier than {_format_stamp(now)}",
        )


def _check_signed_headers(claim: Claim) -> list[str]:
    """Return the lower-case names of the signed headers. Raise `AccessRefused` if Host is not among them."""
    names = [name for name in claim.signed_headers.lower().split(";") if name]
    if "host" not in names:
        raise AccessRefused(
            "InvalidSignatureException", "'Host' must be a 'SignedHeader' in the AWS Authorization."
        )
    return names


def _check_algorithm(claim: Claim) -> None:
    """Raise `AccessRefused` for an algorithm other than AWS4-HMAC-SHA256."""
    if claim.algorithm != ALGORITHM:
        raise AccessRefused(
            "IncompleteSignatureException",
            f"Unsupported AWS 'algorithm': '{claim.algorithm}' (only {ALGORITHM} for now). ",
        )


def _check_scope(claim: Claim, stamp: str) -> tuple[str, str, str]:
    """Return the access key id, date and region of the credential. Raise `AccessRefused` for an invalid
    scope.
    """
    parts = claim.credential.rstrip("/").split("/")
    if len(parts) != _CREDENTIAL_PARTS:
        raise AccessRefused(
            "IncompleteSignatureException",
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
            f"got '{claim.credential}'",
        )
    access_key, date, region, service, terminator = parts
    texts = []
    if not _REGION.fullmatch(region):
        texts.append(f"Credential should be scoped to a valid region, not '{region}'. ")
    if service != SERVICE:
        texts.append(f"Credential should be scoped to correct service: '{SERVICE}'. ")
    if terminator != TERMINATOR:
        texts.append(
            f"Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{terminator}'. "
        )
    if date != stamp[:8]:
        texts.append(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{date}' != '{stamp[:8]}', from '{stamp}'. "
        )
    if texts:
        raise AccessRefused("InvalidSignatureException", "".join(texts).rstrip())
    return access_key, date, region


def _check_no_session(request: SignedRequest) -> None:
    # The server issues no session tokens, so none is valid.
    """Raise `AccessRefused` for a session token."""
    in_header = any(name == b"x-amz-security-token" for name, _ in request.headers)
    if in_header or "X-Amz-Security-Token" in _parse_query(request.query):
        raise AccessRefused("UnrecognizedClientException", _UNKNOWN_KEY)


def _format_stamp(moment: datetime) -> str:
    return moment.strftime(_STAMP_FORMAT)


# --- the canonical form -------------------------------------------------------------------------------------


def _canonicalize_value(headers: Headers, name: bytes) -> bytes:
    """Return a header's values, with white space collapsed, joined by commas."""
    values = (b" ".join(value.split()) for known, value in headers if known == name)
    return b",".join(values)


def _canonicalize_path(path: str) -> bytes:
    """Return the path without empty and dot segments, percent-encoded."""
    if path in {"/", ""}:
        return b"/"
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in {"", "."}:
            kept.append(segment)
    slash = "/" if kept and path.endswith(("/", "/.", "/..")) else ""
    return quote("/" + "/".join(kept) + slash, safe="/-_.~").encode()


def _canonicalize_query(query: bytes) -> bytes:
    """Return the sorted, percent-encoded query without the signature itself."""
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in _split_query(query)
        if name != b"X-Amz-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in pairs).encode()


_STAMP_FORMAT: Final = "%Y%m%dT%H%M%SZ"
_CREDENTIAL_PARTS: Final = 5
_MAX_SIGNING_KEYS: Final = 256
_SECONDS: Final = re.compile("[0-9]{1,7}")
_REGION: Final = re.compile("[A-Za-z0-9-]{1,64}")
_BOTH_FORMS: Final = (
    "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."
)
_UNKNOWN_KEY: Final = "The security token included in the request is invalid."
_WRONG_SIGNATURE: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
    "Access Key and signing method. Consult the service documentation for details."
)
