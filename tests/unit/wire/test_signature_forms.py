"""Arbitrary signatures, verified or not, never cause a server error (5xx) in the wire app."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.operations.tables import Operation
from holdfast.operations.tables.list_tables import ListTablesResult
from holdfast.wire.http.app import App

DATES = st.one_of(
    st.sampled_from(
        ["99991231T235959Z", "00010101T000000Z", "20150830T123600Z", "20150830T123660Z", "19700101T000000Z"]
    ),
    st.sampled_from(
        ["Sun, 30 Aug 2015 12:36:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "Mon, 1 Jan 0001 00:00:00 +2359"]
    ),
    st.from_regex("[0-9]{8}T[0-9]{6}Z", fullmatch=True),
    st.text(st.characters(max_codepoint=255), max_size=30),
)
SCOPES = st.one_of(
    st.just("AKID/20150830/us-east-1/dynamodb/aws4_request"),
    st.just("AKID/99991231/us-east-1/dynamodb/aws4_request"),
    st.text(st.characters(max_codepoint=255), max_size=60),
)
SIGNED_HEADERS = st.one_of(st.just("host;x-amz-date"), st.text(st.characters(max_codepoint=255), max_size=20))
SIGNATURES = st.one_of(st.just("a" * 64), st.text(st.characters(max_codepoint=255), max_size=20))
ALGORITHMS = st.sampled_from(["AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "AWS4-", "AWS4", "Basic", ""])
LIFETIMES = st.one_of(
    st.sampled_from(["604800", "0", "-1", "604801", "9" * 7, "9" * 400, "1e9", "", "٣"]), st.text(max_size=5)
)


class NoTables:
    """A tables store without tables."""

    async def run(self, operation: Operation[Any]) -> Any:
        return ListTablesResult(names=())


APPS = {
    "verified": App(NoTables(), credentials={"AKID": "secret"}),
    "not verified": App(NoTables()),
}


async def status_of(app: App, query: bytes, headers: dict[str, str]) -> int:
    """Send a ListTables request with this query and these headers to the app, and return the status."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    given = {
        "host": "localhost",
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": "DynamoDB_20120810.ListTables",
    } | headers
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "raw_path": b"/",
        "query_string": query,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
@given(
    algorithm=ALGORITHMS,
    credential=SCOPES,
    date=DATES,
    expires=st.none() | LIFETIMES,
    signed_headers=SIGNED_HEADERS,
    signature=SIGNATURES,
)
@example(
    algorithm="AWS4-HMAC-SHA256",
    credential="AKID/99991231/us-east-1/dynamodb/aws4_request",
    date="99991231T235959Z",
    expires="604800",
    signed_headers="host",
    signature="a" * 64,
)
async def test_no_query_signature_causes_a_server_error(
    app: App,
    algorithm: str,
    credential: str,
    date: str,
    expires: str | None,
    signed_headers: str,
    signature: str,
) -> None:
    parameters = {
        "X-Amz-Algorithm": algorithm,
        "X-Amz-Credential": credential,
        "X-Amz-Date": date,
        "X-Amz-SignedHeaders": signed_headers,
        "X-Amz-Signature": signature,
    } | ({} if expires is None else {"X-Amz-Expires": expires})
    query = "&".join(f"{name}={quote(value, encoding='utf-8')}" for name, value in parameters.items())
    assert await status_of(app, query.encode(), {}) < 500


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
@pytest.mark.parametrize("dated_by", ["x-amz-date", "date"])
@given(
    algorithm=ALGORITHMS,
    credential=SCOPES,
    date=DATES,
    signed_headers=SIGNED_HEADERS,
    signature=SIGNATURES,
)
async def test_no_header_signature_causes_a_server_error(
    app: App, dated_by: str, algorithm: str, credential: str, date: str, signed_headers: str, signature: str
) -> None:
    authorization = (
        f"{algorithm} Credential={credential}, SignedHeaders={signed_headers}, Signature={signature}"
    )
    assert await status_of(app, b"", {"authorization": authorization, dated_by: date}) < 500


@pytest.mark.parametrize("app", APPS.values(), ids=APPS)
@given(
    authorization=st.text(st.characters(max_codepoint=255), max_size=80),
    date=DATES,
    query=st.binary(max_size=40),
)
async def test_no_authorization_text_causes_a_server_error(
    app: App, authorization: str, date: str, query: bytes
) -> None:
    assert await status_of(app, query, {"authorization": f"AWS4-{authorization}", "x-amz-date": date}) < 500
    assert await status_of(app, query, {"authorization": authorization, "x-amz-date": date}) < 500
