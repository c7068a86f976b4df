"""The protocol envelope over the wire: headers, content types, targets, authentication, error formats."""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.cases import all_cases

from .protocol import (
    CONTENT_TYPE,
    DYNAMODB,
    FRAMEWORK_ERROR,
    SERVICE_ERROR,
    VALIDATION_ERROR,
    Raw,
    Response,
    cases,
)

LIST_TABLES = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": f"{DYNAMODB}.ListTables"}
MAX_BODY_BYTES = 16 * 1024 * 1024


def send_signed(raw: Raw, body: bytes, target: str = "ListTables", **changed: str) -> Response:
    """Send a signed request with some headers changed after signing (`_` for `-`)."""
    headers = raw.signed_headers(target, body)
    for name, value in changed.items():
        headers[name.replace("_", "-")] = value
    return raw.send(headers=headers, body=body)


def assert_envelope(response: Response) -> None:
    """Assert the form of the request id, the checksum and the content length."""
    assert re.fullmatch(r"[0-9A-Z]{52}", response.headers["x-amzn-requestid"])
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(response.body))
    assert response.headers["content-length"] == str(len(response.body))


# Answers


def test_an_answer_carries_its_request_id_its_checksum_and_its_type(raw: Raw) -> None:
    response = send_signed(raw, b"{}")
    assert response.status == 200
    assert response.headers["content-type"] == CONTENT_TYPE
    assert_envelope(response)
    assert set(response.json) == {"TableNames"} or set(response.json) == {
        "TableNames",
        "LastEvaluatedTableName",
    }


def test_every_request_has_an_id_of_its_own(raw: Raw) -> None:
    assert len({send_signed(raw, b"{}").headers["x-amzn-requestid"] for _ in range(5)}) == 5


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "application/json;blahblah"]
)
def test_plain_json_request_gets_plain_json(raw: Raw, content_type: str) -> None:
    response = raw.send(
        headers=raw.signed_headers("ListTables", b"{}") | {"Content-Type": content_type}, body=b"{}"
    )
    assert response.status == 200
    assert response.headers["content-type"] == "application/json"
    assert_envelope(response)


# DynamoDB compresses answers of 4 KB and more; neither dynalite nor DynamoDB Local does.
@pytest.mark.parametrize(
    ("accepted", "unpacked"),
    [("gzip", gzip.decompress), ("br, deflate;q=0.5, identity", zlib.decompress)],
    ids=["gzip", "deflate"],
)
def test_long_answer_is_compressed_and_checksummed_after_compression(
    raw: Raw, hash_table: str, accepted: str, unpacked: Callable[[bytes], bytes]
) -> None:
    item = {"pk": {"S": "a"}, "text": {"S": "x" * 5000}}
    raw.put(hash_table, item)
    body = json.dumps({"TableName": hash_table, "Key": {"pk": item["pk"]}}).encode()
    response = raw.send(
        headers=raw.signed_headers("GetItem", body) | {"Accept-Encoding": accepted}, body=body, unpack=False
    )
    assert response.headers["content-encoding"] in accepted
    assert len(response.body) < 500
    assert json.loads(unpacked(response.body)) == {"Item": item}
    assert_envelope(response)


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0"])
def test_long_answer_is_not_compressed_for_clients_that_do_not_accept_it(
    raw: Raw, hash_table: str, accepted: str
) -> None:
    raw.put(hash_table, {"pk": {"S": "a"}, "text": {"S": "x" * 5000}})
    body = json.dumps({"TableName": hash_table, "Key": {"pk": {"S": "a"}}}).encode()
    response = send_signed(raw, body, "GetItem", Accept_Encoding=accepted)
    assert "content-encoding" not in response.headers
    assert len(response.body) > 5000


def test_short_answer_is_never_compressed(raw: Raw) -> None:
    response = send_signed(raw, b'{"Limit": 1}', Accept_Encoding="gzip")
    assert response.status == 200
    assert "content-encoding" not in response.headers


def test_unknown_members_are_ignored(raw: Raw, shared_hash_table: str) -> None:
    body = {"TableName": shared_hash_table, "Key": {"pk": {"S": "a"}}, "NoSuchMember": [1, {"x": None}]}
    assert raw.answer("GetItem", body) == {}


def test_null_members_are_absent_members(raw: Raw, shared_hash_table: str) -> None:
    body = {
        "TableName": shared_hash_table,
        "Key": {"pk": {"S": "a"}},
        "ConsistentRead": None,
        "ProjectionExpression": None,
        "ReturnConsumedCapacity": None,
    }
    assert raw.answer("GetItem", body) == {}


def test_text_survives_however_json_escapes_it(raw: Raw, hash_table: str) -> None:
    body = json.dumps({"TableName": hash_table, "Item": {"pk": {"S": "TEXT"}}})
    raw.answer("PutItem", body.replace("TEXT", r"\u00e9\ud83d\ude00\/").encode())
    assert raw.item(hash_table, {"pk": {"S": "é😀/"}}) == {"pk": {"S": "é😀/"}}


# dynalite does not know the operation; DynamoDB Local names an address of its own.
def test_describe_endpoints_returns_the_requested_endpoint(raw: Raw) -> None:
    host = raw.endpoint.partition("://")[2].rstrip("/")
    answer = raw.answer("DescribeEndpoints", {})
    assert answer == {"Endpoints": [{"Address": host, "CachePeriodInMinutes": 1440}]}


def test_describe_endpoints_needs_a_signature(raw: Raw) -> None:
    headers = LIST_TABLES | {"X-Amz-Target": f"{DYNAMODB}.DescribeEndpoints"}
    response = raw.send(headers=headers, body=b"{}")
    assert response.json["__type"] == FRAMEWORK_ERROR + "MissingAuthenticationTokenException"


# Requests outside the protocol


def test_a_get_request_is_answered_with_healthy(raw: Raw) -> None:
    response = raw.send(method="GET")
    assert response.status == 200
    assert response.body.startswith(b"healthy: ")
    assert response.headers["x-amz-crc32"] == str(zlib.crc32(response.body))


# DynamoDB Local answers all of these with an error of its own.
@all_cases(
    ("method", "headers", "body"),
    cases(
        {
            "PUT": ("PUT", {}, b""),
            "DELETE": ("DELETE", {}, b""),
            "OPTIONS without an origin": ("OPTIONS", {}, b""),
            "a body of no type": ("POST", {"Content-Type": ""}, b"hi"),
            "a body of another type": ("POST", {"Content-Type": "whatever"}, b"hi"),
            "another version of the type": ("POST", {"Content-Type": "application/x-amz-json-1.1"}, b"hi"),
            "nearly the type": ("POST", {"Content-Type": "application/jsonasdf"}, b"hi"),
        }
    ),
)
def test_request_outside_the_protocol_is_not_found(
    raw: Raw, method: str, headers: dict[str, str], body: bytes
) -> None:
    response = raw.send(method=method, headers=headers, body=body)
    assert response.status == 404
    assert response.body == b"<UnknownOperationException/>\n"
    assert_envelope(response)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "whatever",
        "DynamoDB_20120810",
        "DynamoDB_20120810.ListTable",
        "DynamoDB_20990101.ListTables",
        "a.b.c",
    ],
)
@pytest.mark.parametrize("content_type", [CONTENT_TYPE, "application/json"])
def test_unknown_operation_has_no_message(raw: Raw, target: str, content_type: str) -> None:
    headers = {"Content-Type": content_type} | ({"X-Amz-Target": target} if target else {})
    response = raw.send(headers=headers, body=b"{}")
    assert response.status == 400
    assert response.json == {"__type": FRAMEWORK_ERROR + "UnknownOperationException"}
    assert response.headers["content-type"] == content_type
    assert_envelope(response)


@all_cases("body", [b"hi", b"{", b"}{", b'{"a":}', b"{'a': 1}", b"", b"\xff\xfe{}", b'{"a": 1,}', b"{}{}"])
def test_invalid_json_is_a_serialization_error(raw: Raw, body: bytes) -> None:
    response = send_signed(raw, body)
    assert response.status == 400
    assert response.json["__type"] == FRAMEWORK_ERROR + "SerializationException"
    assert response.headers["content-type"] == CONTENT_TYPE
    assert_envelope(response)


def test_reports_bad_json_then_unknown_operation_before_the_signature(
    raw: Raw,
) -> None:
    headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": "whatever"}
    assert raw.send(headers=headers, body=b"hi").json["__type"] == FRAMEWORK_ERROR + "SerializationException"
    assert (
        raw.send(headers=headers, body=b"{}").json["__type"] == FRAMEWORK_ERROR + "UnknownOperationException"
    )


# dynalite reads these as an empty request, and a value nested too deep ends its process.
@pytest.mark.parametrize("body", [b"7", b'"a"', b"[]", b"true"])
def test_json_that_is_not_an_object_is_a_serialization_error(raw: Raw, body: bytes) -> None:
    response = send_signed(raw, body, "PutItem")
    assert response.status == 400
    assert response.json["__type"] == FRAMEWORK_ERROR + "SerializationException"


@all_cases(
    "body",
    cases(
        {
            "nested lists": (b"[" * 100_000,),
            "nested and closed lists": (b'{"Item": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",),
            "nested maps": (
                b'{"TableName": "abc", "Item": {"a": '
                + b'{"M": {"a": ' * 5_000
                + b"{}"
                + b"}}" * 5_000
                + b"}}",
            ),
            "a huge number": (b'{"TableName": ' + b"9" * 100_000 + b"}",),
            "a huge exponent": (b'{"TableName": 1e999999999}',),
            "a member twice": (b'{"TableName": "abc", "TableName": "abd", "Item": {}}',),
            "a lone surrogate": (b'{"TableName": "abc", "Item": {"pk": {"S": "\\ud800"}}}',),
            "bytes that are no text": (b'{"TableName": "\xc3\x28", "Item": {}}',),
            "a null byte": (b'{"TableName": "a\x00b", "Item": {}}',),
        }
    ),
)
def test_server_survives_hostile_json(raw: Raw, body: bytes) -> None:
    response = send_signed(raw, body, "PutItem")
    assert response.status == 400
    assert response.json["__type"]
    assert send_signed(raw, b"{}").status == 200


def test_a_body_over_16_mb_is_too_large(raw: Raw) -> None:
    body = b'{"x": "' + b"a" * MAX_BODY_BYTES + b'"}'
    assert send_signed(raw, body).status == 413


# Authentication


@pytest.mark.parametrize("authorization", [None, "AWS4", "Basic abc"])
def test_unsigned_request_is_a_missing_authentication_token(raw: Raw, authorization: str | None) -> None:
    headers = LIST_TABLES | ({"Authorization": authorization} if authorization else {})
    response = raw.send(headers=headers, body=b"{}")
    assert response.status == 400
    assert response.json == {
        "__type": FRAMEWORK_ERROR + "MissingAuthenticationTokenException",
        "message": "Request is missing Authentication Token",
    }
    assert_envelope(response)


@pytest.mark.parametrize(
    ("authorization", "date", "missing"),
    cases(
        {
            "nothing": ("AWS4-", False, ["Credential", "Signature", "SignedHeaders", "date"]),
            "only a date": ("AWS4-", True, ["Credential", "Signature", "SignedHeaders"]),
            "no signature": ("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b", True, ["Signature"]),
            "no date": ("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=b, Signature=c", False, ["date"]),
        }
    ),
)
def test_an_incomplete_signature_lists_what_is_missing(
    raw: Raw, authorization: str, date: bool, missing: list[str]
) -> None:
    headers = (
        LIST_TABLES | {"Authorization": authorization} | ({"X-Amz-Date": "20300101T000000Z"} if date else {})
    )
    sentences = {
        name: f"Authorization header requires '{name}' parameter. "
        for name in ("Credential", "Signature", "SignedHeaders")
    }
    sentences["date"] = (
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
    )
    response = raw.send(headers=headers, body=b"{}")
    assert response.status == 400
    assert response.json == {
        "__type": FRAMEWORK_ERROR + "IncompleteSignatureException",
        "message": "".join(sentences[name] for name in missing) + f"Authorization={authorization}",
    }


def test_rejects_two_signatures(raw: Raw) -> None:
    headers = raw.signed_headers("ListTables", b"{}")
    response = raw.send(path="/?X-Amz-Algorithm=AWS4-HMAC-SHA256", headers=headers, body=b"{}")
    assert response.status == 400
    assert response.json == {
        "__type": FRAMEWORK_ERROR + "InvalidSignatureException",
        "message": "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    }


@pytest.mark.parametrize(
    ("query", "missing"),
    cases(
        {
            "nothing": (
                "X-Amz-Algorithm",
                [
                    "X-Amz-Algorithm",
                    "X-Amz-Credential",
                    "X-Amz-Signature",
                    "X-Amz-SignedHeaders",
                    "X-Amz-Date",
                ],
            ),
            "no signed headers": (
                "X-Amz-Algorithm=a&X-Amz-Credential=b&X-Amz-Signature=c&X-Amz-Date=d",
                ["X-Amz-SignedHeaders"],
            ),
        }
    ),
)
def test_an_incomplete_signature_in_the_query_lists_what_is_missing(
    raw: Raw, query: str, missing: list[str]
) -> None:
    response = raw.send(path=f"/?{query}", headers=LIST_TABLES, body=b"{}")
    assert response.status == 400
    assert response.json == {
        "__type": FRAMEWORK_ERROR + "IncompleteSignatureException",
        "message": "".join(f"AWS query-string parameters must include '{name}'. " for name in missing)
        + "Re-examine the query-string parameters.",
    }


# Error formats: the type and the name of the text member depend on the refusing layer


@pytest.mark.parametrize(
    ("operation", "body", "answer"),
    cases(
        {
            "a serialization error": (
                "GetItem",
                {"TableName": 1},
                {
                    "__type": FRAMEWORK_ERROR + "SerializationException",
                    "Message": "NUMBER_VALUE cannot be converted to String",
                },
            ),
            "a constraint": (
                "GetItem",
                {"TableName": "abc"},
                {
                    "__type": VALIDATION_ERROR + "ValidationException",
                    "message": "1 validation error detected: Value null at 'key' failed to satisfy constraint: "  # noqa: E501
                    "Member must not be null",
                },
            ),
            "a validation": (
                "GetItem",
                {"TableName": "abc", "Key": {"pk": {}}},
                {
                    "__type": VALIDATION_ERROR + "ValidationException",
                    "message": "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",  # noqa: E501
                },
            ),
            "a table that is not there": (
                "GetItem",
                {"TableName": "no_such_table", "Key": {}},
                {
                    "__type": SERVICE_ERROR + "ResourceNotFoundException",
                    "message": "Requested resource not found",
                },
            ),
            "a described table that is not there": (
                "DescribeTable",
                {"TableName": "no_such_table"},
                {
                    "__type": SERVICE_ERROR + "ResourceNotFoundException",
                    "message": "Requested resource not found: Table: no_such_table not found",
                },
            ),
        }
    ),
)
def test_error_format_depends_on_the_refusing_layer(
    raw: Raw, operation: str, body: dict[str, Any], answer: dict[str, str]
) -> None:
    response = send_signed(raw, json.dumps(body).encode(), operation)
    assert response.status == 400
    assert response.json == answer
    assert response.headers["content-type"] == CONTENT_TYPE
    assert_envelope(response)


def test_checks_types_then_constraints_then_values(raw: Raw) -> None:
    body: dict[str, Any] = {"TableName": 1, "ReturnConsumedCapacity": "hi", "Key": {"pk": {}}}
    assert raw.refusal("GetItem", body)[0] == "SerializationException"
    text = str(raw.refusal("GetItem", body | {"TableName": "abc"})[1])
    assert text.startswith("1 validation error detected: Value 'hi' at 'returnConsumedCapacity'")


def test_boto3_sees_the_error_by_its_name(dynamodb: Any) -> None:
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException) as refused:
        dynamodb.get_item(TableName="no_such_table", Key={"pk": {"S": "a"}})
    assert refused.value.response["Error"] == {
        "Code": "ResourceNotFoundException",
        "Message": "Requested resource not found",
    }
    assert refused.value.response["ResponseMetadata"]["RequestId"]


def test_unimplemented_operation_says_so(raw: Raw) -> None:
    if os.environ.get("HOLDFAST_CONFORMANCE_ENDPOINT"):
        pytest.skip(
            "HOLDFAST_CONFORMANCE_ENDPOINT names another endpoint, which may implement this operation"
        )
    status, answer = raw.call("ExecuteStatement", {"Statement": "SELECT * FROM t"})
    assert (status, answer["__type"]) == (400, FRAMEWORK_ERROR + "UnknownOperationException")
    assert (
        answer["Message"]
        == "Holdfast does not serve ExecuteStatement yet; docs/reference/tables.md lists what it serves."
    )
