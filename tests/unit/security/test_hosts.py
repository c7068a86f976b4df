"""`is_local_host`: Host headers that belong to this machine, and names that others could own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.security.hosts import is_local_host
from tests.cases import all_cases


@all_cases(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LocalHost.:8000",
        "tables.localhost:8000",
        "127.0.0.1",
        "127.0.0.1:8000",
        "127.8.9.10:1",
        "[::1]",
        "[::1]:8000",
        "dynamodb.us-east-1.amazonaws.com",
        "streams.dynamodb.eu-west-1.amazonaws.com:443",
        "dynamodb.cn-north-1.amazonaws.com.cn",
    ],
)
def test_accepts_a_name_that_others_cannot_own(host: str) -> None:
    assert is_local_host(host.encode())


@all_cases(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "localhost:80@evil.example",
        "localhost/evil.example",
        "evil.example#.localhost:",
        "[evil.example]",
        "[localhost]",
        "::1",
        "[::1",
        "0.0.0.0",
        "10.0.0.1:8000",
        "[::2]:8000",
        "dynamodb.evil.example.amazonaws.com",
        "dynamodb.us-east-1.amazonaws.com.evil.example",
        "bucket.s3.amazonaws.com",
        ":8000",
        ".",
    ],
)
def test_rejects_any_other_name(host: str) -> None:
    assert not is_local_host(host.encode())


@given(st.binary(max_size=40))
def test_accepts_any_bytes_as_input(host: bytes) -> None:
    """Return a boolean for arbitrary bytes, without an exception."""
    assert is_local_host(host) in {True, False}
