"""A minimal client of DynamoDB's JSON protocol that sends requests as given, and builders of expected texts.

boto3 checks a request before it leaves, so refusals of malformed requests can only be seen from here. Most
tests need `Raw.call`; `Raw.refusal` and `Raw.answer` also check the status; `Raw.send` leaves every header to
the caller. Requests are really signed, with the credentials every conformance run uses, so that an endpoint
which verifies signatures can be tested as well.

Regions of AWS differ in how they word a few refusals (a leading "1 validation error detected: ", the smallest
table name being 1 or 3). The tests expect the wording most recorded suites agree on, and allow both only
where two recordings contradict each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REGION = "us-east-1"
ACCESS_KEY = "conformance"
SECRET_KEY = "conformance-secret"

DYNAMODB = "DynamoDB_20120810"
STREAMS = "DynamoDBStreams_20120810"
CONTENT_TYPE = "application/x-amz-json-1.0"

SERVICE_ERROR = "com.amazonaws.dynamodb.v20120810#"
FRAMEWORK_ERROR = "com.amazon.coral.service#"
VALIDATION_ERROR = "com.amazon.coral.validate#"


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP response. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Raw:
    """A connection pool to one endpoint; safe to use from several threads."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._pool = urllib3.PoolManager(maxsize=32, retries=False, timeout=30)
        self._credentials = Credentials(ACCESS_KEY, SECRET_KEY)

    def call(self, target: str, body: dict[str, Any] | bytes) -> tuple[int, Any]:
        """Send one operation and return status and JSON. `target` is an operation's name, or the whole
        X-Amz-Target if it has a dot.
        """
        response = self.send(headers=self.signed_headers(target, encode(body)), body=encode(body))
        return response.status, response.json

    def answer(self, target: str, body: dict[str, Any] | bytes) -> Any:
        """Return the JSON of a call that must succeed."""
        status, answer = self.call(target, body)
        assert status == 200, answer
        return answer

    def refusal(self, target: str, body: dict[str, Any] | bytes) -> tuple[str, str | None]:
        """Return the error's name, without its namespace, and its text, of a call that must be refused."""
        status, answer = self.call(target, body)
        assert status == 400, (status, answer)
        return answer["__type"].rpartition("#")[2], answer.get("message", answer.get("Message"))

    def put(self, table: str, item: dict[str, Any]) -> None:
        """Put an item; the call must succeed."""
        self.answer("PutItem", {"TableName": table, "Item": item})

    def item(self, table: str, key: dict[str, Any]) -> Any:
        """Return the stored item, or None, by a consistent read."""
        return self.answer("GetItem", {"TableName": table, "Key": key, "ConsistentRead": True}).get("Item")

    def signed_headers(self, target: str, body: bytes) -> dict[str, str]:
        """Return the headers of a signed request for this target and body."""
        whole_target = target if "." in target else f"{DYNAMODB}.{target}"
        headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": whole_target}
        request = AWSRequest(method="POST", url=self.endpoint + "/", data=body, headers=headers)
        SigV4Auth(self._credentials, "dynamodb", REGION).add_auth(request)
        return dict(request.headers.items())

    def send(
        self,
        *,
        method: str = "POST",
        path: str = "/",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        unpack: bool = True,
    ) -> Response:
        """Send one request exactly as given; `unpack` decompresses the response."""
        answer = self._pool.request(
            method, self.endpoint + path, headers=dict(headers or {}), body=body, decode_content=unpack
        )
        return Response(
            answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.data
        )

    def close(self) -> None:
        self._pool.clear()


def encode(body: dict[str, Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def cases(named: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    """Turn `{"name of the case": (arguments, ...)}` into parameters for `pytest.mark.parametrize`."""
    return [pytest.param(*arguments, id=name.replace(" ", "-")) for name, arguments in named.items()]


def constraint(value: str, member: str, rule: str) -> str:
    """Return one entry of a "validation errors detected" text; `value` is written as AWS prints it."""
    return f"Value {value} at '{member}' failed to satisfy constraint: {rule}"


def split_constraints(message: str | None) -> set[str]:
    """Return the entries of a "validation errors detected" text, whose order AWS does not keep."""
    matched = re.fullmatch(r"(\d+) validation errors? detected: (.*)", message or "", re.DOTALL)
    assert matched, message
    entries = set(re.split(r"; (?=Value )", matched[2]))
    assert len(entries) == int(matched[1]), message
    return entries


NOT_NULL = "Member must not be null"
TABLE_NAME_PATTERN = "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+"
CAPACITY_ENUM = "Member must satisfy enum value set: [INDEXES, TOTAL, NONE]"
METRICS_ENUM = "Member must satisfy enum value set: [SIZE, NONE]"
RETURN_VALUES_ENUM = "Member must satisfy enum value set: [ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW]"
