"""SigV4 verification: accepts what botocore signs, and rejects everything else with AWS's messages."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import AccessRefused
from holdfast.security.sigv4 import (
    Claim,
    SignedRequest,
    Verifier,
    build_canonical_request,
    derive_signing_key,
    read_claim,
)
from tests.cases import all_cases

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TARGET = "DynamoDB_20120810.ListTables"
WRONG_SIGNATURE = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
    "Access Key and signing method. Consult the service documentation for details."
)


class StoppedClock:
    """A clock that always returns the given time."""

    def __init__(self, text: str) -> None:
        self._moment = datetime.fromisoformat(text).timestamp()

    def now(self) -> float:
        return self._moment


def sign_with_botocore(
    body: bytes = b"{}",
    *,
    headers: dict[str, str] | None = None,
    key: str = KEY,
    secret: str = SECRET,
    token: str | None = None,
    region: str = "eu-west-1",
    service: str = "dynamodb",
    url: str = "http://localhost:8000/",
    signer: Any = SigV4Auth,
) -> SignedRequest:
    """Return a POST request that botocore signed, in the header or (SigV4QueryAuth) in the query."""
    given = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": TARGET, **(headers or {})}
    request = AWSRequest(method="POST", url=url, data=body, headers=given)
    signer(Credentials(key, secret, token), service, region).add_auth(request)
    split = urlsplit(request.url)
    sent = [(b"host", split.netloc.encode())]
    sent += [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
    return SignedRequest("POST", split.path or "/", split.query.encode(), sent, body)


def with_header(request: SignedRequest, name: bytes, value: bytes | None) -> SignedRequest:
    """Return the request with one header replaced, or removed if the value is None."""
    kept = [(known, old) for known, old in request.headers if known != name]
    return request._replace(headers=kept if value is None else [*kept, (name, value)])


def with_authorization(request: SignedRequest, old: str, new: str) -> SignedRequest:
    """Return the request with a part of its Authorization header replaced."""
    authorization = dict(request.headers)[b"authorization"].decode()
    assert old in authorization
    return with_header(request, b"authorization", authorization.replace(old, new).encode())


def get_refusal(request: SignedRequest, verifier: Verifier | None = None) -> tuple[str, str]:
    """Verify an invalid request and return the code and message of its error."""
    with pytest.raises(AccessRefused) as refused:
        (verifier or Verifier({KEY: SECRET})).verify(request)
    return refused.value.code, refused.value.message


# --- accepted requests --------------------------------------------------------------------------------------


def test_a_request_signed_by_botocore_is_accepted() -> None:
    claim = Verifier({"other": "x", KEY: SECRET}).verify(sign_with_botocore())
    assert claim.region == "eu-west-1"


def test_a_second_request_uses_the_cached_key_and_is_accepted() -> None:
    """Verify two different requests with one verifier, whose signing key is cached after the first."""
    verifier = Verifier({KEY: SECRET})
    verifier.verify(sign_with_botocore(b"{}"))
    verifier.verify(sign_with_botocore(b'{"Limit":1}'))


def test_many_region_names_do_not_grow_the_cache_without_limit() -> None:
    verifier = Verifier({KEY: SECRET})
    for number in range(300):
        verifier._get_signing_key(KEY, "20150830", f"region-{number}")
    assert len(verifier._signing_keys) <= 256


def test_a_request_signed_in_its_query_is_accepted() -> None:
    # botocore moves a body into the query, so there is none.
    request = sign_with_botocore(b"", url="http://localhost:8000/?b=2&a=%20x", signer=SigV4QueryAuth)
    assert Verifier({KEY: SECRET}).verify(request).in_query


def test_accepts_white_space_around_and_inside_signed_headers() -> None:
    request = sign_with_botocore(headers={"X-Amz-Meta-Note": "a   b"})
    Verifier({KEY: SECRET}).verify(with_header(request, b"x-amz-meta-note", b"  a b  "))


def test_header_parts_may_be_separated_by_commas_or_spaces() -> None:
    request = sign_with_botocore()
    Verifier({KEY: SECRET}).verify(with_authorization(request, ", ", ","))
    Verifier({KEY: SECRET}).verify(with_authorization(request, ", ", " "))


def test_accepts_an_http_date() -> None:
    request = SignedRequest(
        "POST", "/", b"", [(b"host", b"h"), (b"date", b"Sun, 30 Aug 2015 12:36:00 GMT")], b"{}"
    )
    canonical = build_canonical_request(request, ["host", "date"])
    text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/dynamodb/aws4_request\n"
    text += hashlib.sha256(canonical).hexdigest()
    key = derive_signing_key(SECRET, "20150830", "us-east-1", "dynamodb")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={KEY}/20150830/us-east-1/dynamodb/aws4_request, "
        f"SignedHeaders=date;host, Signature={signature}"
    )
    verifier = Verifier({KEY: SECRET}, clock=StoppedClock("2015-08-30T12:40:00+00:00"))
    verifier.verify(with_header(request, b"authorization", authorization.encode()))


@given(st.binary(max_size=200), st.text("abcdefgh-. ;,\t", max_size=30))
def test_accepts_whatever_botocore_signs(body: bytes, value: str) -> None:
    Verifier({KEY: SECRET}).verify(sign_with_botocore(body, headers={"X-Amz-Meta-Any": value}))


# --- the published test suite of Signature Version 4 --------------------------------------------------------

HOST_AND_DATE = [(b"host", b"example.amazonaws.com"), (b"x-amz-date", b"20150830T123600Z")]


def make_request(
    method: str = "GET", path: str = "/", query: bytes = b"", *more: tuple[bytes, bytes]
) -> SignedRequest:
    return SignedRequest(method, path, query, [*HOST_AND_DATE, *more], b"")


PUBLISHED = [
    ("get-vanilla", make_request(), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        "get-relative",
        make_request("GET", "/example/.."),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-slash",
        make_request("GET", "//"),
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    (
        "get-utf8",
        make_request("GET", "/\u1234"),
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    (
        "get-vanilla-query-order-key-case",
        make_request("GET", "/", b"Param2=value2&Param1=value1"),
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "post-vanilla",
        make_request("POST"),
        "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
    ),
    (
        "post-header-key-sort",
        make_request("POST", "/", b"", (b"my-header1", b"value1")),
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    (
        "get-header-key-duplicate",
        make_request(
            "GET",
            "/",
            b"",
            (b"my-header1", b"value2"),
            (b"my-header1", b"value2"),
            (b"my-header1", b"value1"),
        ),
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    (
        "get-header-value-order",
        make_request(
            "GET",
            "/",
            b"",
            (b"my-header1", b"value4"),
            (b"my-header1", b"value1"),
            (b"my-header1", b"value3"),
            (b"my-header1", b"value2"),
        ),
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    (
        "get-header-value-trim",
        make_request("GET", "/", b"", (b"my-header1", b" value1"), (b"my-header2", b' "a   b   c"')),
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
]


@all_cases(("signed", "signature"), [case[1:] for case in PUBLISHED])
def test_published_cases_match_their_signatures(signed: SignedRequest, signature: str) -> None:
    names = sorted({name.decode() for name, _ in signed.headers})
    text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/service/aws4_request\n"
    text += hashlib.sha256(build_canonical_request(signed, names)).hexdigest()
    key = derive_signing_key(SECRET, "20150830", "us-east-1", "service")
    assert hmac.digest(key, text.encode(), "sha256").hex() == signature


# --- rejected requests, in the service's order --------------------------------------------------------------


def test_missing_signature_is_a_missing_token() -> None:
    expected = ("MissingAuthenticationTokenException", "Request is missing Authentication Token")
    unsigned = with_header(sign_with_botocore(), b"authorization", None)
    assert get_refusal(unsigned) == expected
    assert get_refusal(with_header(unsigned, b"authorization", b"AWS4")) == expected
    assert get_refusal(with_header(unsigned, b"authorization", b"Basic abc")) == expected


def test_rejects_header_and_query_signatures_together() -> None:
    assert get_refusal(sign_with_botocore()._replace(query=b"X-Amz-Algorithm")) == (
        "InvalidSignatureException",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    )


def test_error_names_every_missing_part_of_the_header() -> None:
    empty = SignedRequest("POST", "/", b"", [(b"authorization", b"AWS4-")], b"")
    assert get_refusal(empty) == (
        "IncompleteSignatureException",
        "Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' "
        "parameter. Authorization header requires 'SignedHeaders' parameter. Authorization header requires "
        "existence of either a 'X-Amz-Date' or a 'Date' header. Authorization=AWS4-",
    )
    partly = [(b"authorization", b"AWS4- Signature=b, Credential=a"), (b"date", b"a")]
    assert get_refusal(empty._replace(headers=partly)) == (
        "IncompleteSignatureException",
        "Authorization header requires 'SignedHeaders' parameter. Authorization=AWS4- Signature=b, "
        "Credential=a",
    )


def test_error_names_every_missing_part_of_the_query() -> None:
    query = b"X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Signature=c&X-Amz-Date=d"
    assert get_refusal(SignedRequest("POST", "/", query, [], b"")) == (
        "IncompleteSignatureException",
        "AWS query-string parameters must include 'X-Amz-SignedHeaders'. Re-examine the query-string "
        "parameters.",
    )


def test_rejects_an_invalid_date() -> None:
    assert get_refusal(with_header(sign_with_botocore(), b"x-amz-date", b"201")) == (
        "IncompleteSignatureException",
        "Date must be in ISO-8601 'basic format'. Got '201'. See http://en.wikipedia.org/wiki/ISO_8601",
    )


def test_an_old_signature_has_expired() -> None:
    verifier = Verifier({KEY: SECRET}, clock=StoppedClock("2013-06-09T10:00:15+00:00"))
    assert get_refusal(with_header(sign_with_botocore(), b"x-amz-date", b"20130301T000000Z"), verifier) == (
        "InvalidSignatureException",
        "Signature expired: 20130301T000000Z is now earlier than 20130609T095515Z (20130609T100015Z - 5 "
        "min.)",
    )


def test_a_signature_from_the_future_is_not_yet_current() -> None:
    verifier = Verifier({KEY: SECRET}, clock=StoppedClock("2013-06-09T10:00:15+00:00"))
    assert get_refusal(with_header(sign_with_botocore(), b"x-amz-date", b"20130610T000000Z"), verifier) == (
        "InvalidSignatureException",
        "Signature not yet current: 20130610T000000Z is still later than 20130609T100515Z "
        "(20130609T100015Z + 5 min.)",
    )


def test_query_signature_expires_after_its_declared_lifetime() -> None:
    signed = sign_with_botocore(b"", signer=SigV4QueryAuth)
    date = datetime.strptime(read_claim(signed).date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    soon, late = date.replace(second=0).timestamp() + 1800, date.timestamp() + 3601

    class At(StoppedClock):
        def __init__(self, moment: float) -> None:
            self._moment = moment

    Verifier({KEY: SECRET}, clock=At(soon)).verify(signed)
    code, message = get_refusal(signed, Verifier({KEY: SECRET}, clock=At(late)))
    assert (code, message[:18]) == ("InvalidSignatureException", "Signature expired:")


@pytest.mark.parametrize("expires", [b"99999999999999999999", b"604801", b"-1", b"soon"])
def test_rejects_a_lifetime_above_a_week_or_invalid(expires: bytes) -> None:
    signed = sign_with_botocore(signer=SigV4QueryAuth)
    query = signed.query.replace(b"X-Amz-Expires=3600", b"X-Amz-Expires=" + expires)
    assert get_refusal(signed._replace(query=query))[0] == "IncompleteSignatureException"


def test_the_host_must_be_signed() -> None:
    assert get_refusal(with_authorization(sign_with_botocore(), ";host;", ";")) == (
        "InvalidSignatureException",
        "'Host' must be a 'SignedHeader' in the AWS Authorization.",
    )


def test_another_algorithm_is_refused() -> None:
    assert get_refusal(with_authorization(sign_with_botocore(), "SHA256", "SHA25")) == (
        "IncompleteSignatureException",
        "Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA25' (only AWS4-HMAC-SHA256 for now). ",
    )


def test_a_credential_has_five_parts() -> None:
    assert get_refusal(with_authorization(sign_with_botocore(), "/eu-west-1/", "/")) == (
        "IncompleteSignatureException",
        "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, "
        f"got '{KEY}/{datetime.now(UTC):%Y%m%d}/dynamodb/aws4_request'",
    )


def test_reports_all_errors_of_the_scope_at_once() -> None:
    signed = sign_with_botocore()
    stamp = dict(signed.headers)[b"x-amz-date"].decode()
    scope = f"{stamp[:8]}/eu-west-1/dynamodb/aws4_request"
    assert get_refusal(with_authorization(signed, scope, "b/c?/d/e")) == (
        "InvalidSignatureException",
        "Credential should be scoped to a valid region, not 'c?'. Credential should be scoped to correct "
        "service: 'dynamodb'. Credential should be scoped with a valid terminator: 'aws4_request', not "
        "'e'. Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
        f"'b' != '{stamp[:8]}', from '{stamp}'.",
    )


def test_a_signature_for_another_service_is_refused() -> None:
    assert get_refusal(sign_with_botocore(service="s3")) == (
        "InvalidSignatureException",
        "Credential should be scoped to correct service: 'dynamodb'.",
    )


def test_an_unknown_key_is_refused() -> None:
    assert get_refusal(sign_with_botocore(key="AKIDOTHER")) == (
        "UnrecognizedClientException",
        "The security token included in the request is invalid.",
    )


def test_a_wrong_secret_is_refused() -> None:
    assert get_refusal(sign_with_botocore(secret="guess")) == ("InvalidSignatureException", WRONG_SIGNATURE)


@all_cases(
    "tampers",
    [
        lambda signed: signed._replace(body=b'{"Limit":1}'),
        lambda signed: signed._replace(method="PUT"),
        lambda signed: signed._replace(path="/other"),
        lambda signed: signed._replace(query=b"a=1"),
        lambda signed: with_header(signed, b"x-amz-target", b"DynamoDB_20120810.DeleteTable"),
        lambda signed: with_header(signed, b"host", b"elsewhere"),
        lambda signed: with_header(signed, b"x-amz-target", None),
        lambda signed: with_authorization(signed, "Signature=", "Signature=\xe9"),
    ],
)
def test_changed_request_does_not_match_its_signature(
    tampers: Callable[[SignedRequest], SignedRequest],
) -> None:
    # Signed here and not at collection: a signature is valid for five minutes.
    assert get_refusal(tampers(sign_with_botocore())) == ("InvalidSignatureException", WRONG_SIGNATURE)


def test_duplicated_signed_header_does_not_match() -> None:
    signed = sign_with_botocore()
    doubled = signed._replace(headers=[*signed.headers, (b"x-amz-target", TARGET.encode())])
    assert get_refusal(doubled) == ("InvalidSignatureException", WRONG_SIGNATURE)


def test_rejects_session_tokens() -> None:
    assert get_refusal(sign_with_botocore(token="session"))[0] == "UnrecognizedClientException"


@given(st.binary(max_size=80), st.binary(max_size=40), st.binary(max_size=40))
def test_rejects_any_bytes_without_an_internal_error(authorization: bytes, date: bytes, query: bytes) -> None:
    headers = [(b"authorization", b"AWS4-" + authorization), (b"x-amz-date", date)]
    get_refusal(SignedRequest("POST", "/", query, headers, b""))
    get_refusal(SignedRequest("POST", "/", b"X-Amz-Algorithm=a&" + query, [], b""))


# --- unverified claims --------------------------------------------------------------------------------------


def test_claimed_region_is_the_callers_or_none() -> None:
    assert read_claim(sign_with_botocore(region="local")).region == "local"
    assert Claim("", "key/date/region", "", "", "").region is None
    assert Claim("", "key/date/a:b/dynamodb/aws4_request", "", "", "").region is None
