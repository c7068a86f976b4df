"""`mock_aws`: used like moto's, nested like moto's, and next to moto's for the other services."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import unittest
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from botocore.httpsession import URLLib3Session
from moto import mock_aws as moto_aws

from holdfast.boto3 import in_process, mock_aws

REGION = "us-east-1"


def create_table(name: str = "orders") -> list[str]:
    """Create a table and return the names of all tables."""
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return list_names()


def list_names() -> list[str]:
    listed: list[str] = boto3.client("dynamodb", region_name=REGION).list_tables()["TableNames"]
    return listed


@pytest.fixture(autouse=True)
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every request that would leave the process."""

    def refuse(session: Any, request: Any) -> None:
        raise EndpointConnectionError(endpoint_url=request.url)

    monkeypatch.setattr(URLLib3Session, "send", refuse)


# --- forms --------------------------------------------------------------------------------------------------


@mock_aws
def test_decorates_a_function() -> None:
    assert create_table() == ["orders"]


@mock_aws()
def test_decorates_a_function_with_parentheses() -> None:
    assert create_table() == ["orders"]


@mock_aws(config={"core": {"mock_credentials": False}})
def test_accepts_the_configuration_of_moto() -> None:
    assert create_table() == ["orders"]


def test_is_a_context_manager_with_a_fresh_engine_each_time() -> None:
    for _ in range(2):
        with mock_aws():
            assert create_table() == ["orders"]


def test_starts_and_stops() -> None:
    mock = mock_aws()
    mock.start()
    assert create_table() == ["orders"]
    mock.stop()
    with pytest.raises(EndpointConnectionError):
        list_names()


async def test_decorates_a_coroutine_function() -> None:
    @mock_aws
    async def made() -> list[str]:
        await asyncio.sleep(0)
        return create_table()

    assert await made() == ["orders"]


@pytest.fixture
@mock_aws
def orders() -> Iterator[list[str]]:
    yield create_table()
    assert list_names() == ["orders"], "the context ends with the fixture"


def test_decorates_a_fixture_that_yields(orders: list[str]) -> None:
    assert list_names() == orders == ["orders"]


@mock_aws
class TestDecorated:
    def test_makes_a_table(self) -> None:
        assert create_table() == ["orders"]

    def test_makes_the_same_table(self) -> None:
        assert create_table() == ["orders"]


@mock_aws
class Repository:
    """A class without tests: its public methods are answered, and nested calls share the tables."""

    def create(self) -> list[str]:
        return create_table()

    def create_twice(self) -> list[str]:
        self.create()
        return create_table("others")


def test_decorates_every_public_method_of_a_class() -> None:
    assert Repository().create() == ["orders"]
    assert Repository().create_twice() == ["orders", "others"]


def test_reset_deletes_all_tables() -> None:
    mock = mock_aws()
    with mock:
        create_table()
        mock.reset()
        assert list_names() == []
    mock.reset()


@mock_aws
class TestDecoratedWithSetupMethod:
    def setup_method(self) -> None:
        create_table()

    def test_sees_the_table(self) -> None:
        assert list_names() == ["orders"]

    def test_sees_only_its_own_table(self) -> None:
        assert list_names() == ["orders"]


@mock_aws
class DecoratedCase(unittest.TestCase):
    def setUp(self) -> None:
        create_table()

    def tearDown(self) -> None:
        boto3.resource("dynamodb", region_name=REGION).Table("orders").delete()

    def test_sees_the_table(self) -> None:
        assert list_names() == ["orders"]


def test_misuse_names_this_decorator() -> None:
    @pytest.fixture
    def orders() -> None: ...

    with pytest.raises(TypeError, match="@pytest.fixture above @mock_aws"):
        mock_aws(orders)


# --- nesting ------------------------------------------------------------------------------------------------


def test_nested_contexts_share_one_engine_until_the_outermost_ends() -> None:
    with mock_aws():
        with mock_aws():
            create_table("inner")
        assert create_table("outer") == ["inner", "outer"]
    with mock_aws():
        assert list_names() == []


@mock_aws
def test_decorated_function_sees_the_tables_of_a_decorated_function_it_calls() -> None:
    mock_aws(create_table)("inner")
    assert list_names() == ["inner"]


@mock_aws
def test_decorated_test_sees_the_tables_of_its_fixture(orders: list[str]) -> None:
    assert list_names() == orders


def test_contexts_that_end_in_another_order_keep_the_engine_open() -> None:
    first, second = mock_aws(), mock_aws()
    first.start()
    second.start()
    create_table()
    first.stop()
    assert list_names() == ["orders"]
    second.stop()


def test_in_process_inside_is_an_engine_of_its_own() -> None:
    with mock_aws():
        create_table()
        with in_process():
            assert list_names() == []
        assert list_names() == ["orders"]


def test_threads_that_start_at_once_share_one_engine() -> None:
    barrier = threading.Barrier(4)
    engines: list[object] = []

    def enter() -> None:
        barrier.wait()
        with mock_aws() as tables:
            engines.append(tables)
            barrier.wait()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, engines))) == 1


# --- other services -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["s3", "sqs", "secretsmanager", "sts"])
def test_refuses_another_service_by_its_name(service: str) -> None:
    calls = {"s3": "list_buckets", "sqs": "list_queues", "secretsmanager": "list_secrets"}
    with mock_aws(), pytest.raises(RuntimeError, match=f"DynamoDB only, not {service}. Nothing was sent"):
        getattr(boto3.client(service, region_name=REGION), calls.get(service, "get_caller_identity"))()


def test_refuses_an_unsigned_request_by_its_host() -> None:
    s3 = boto3.client("s3", region_name=REGION, config=Config(signature_version=UNSIGNED))
    with mock_aws(), pytest.raises(RuntimeError, match=r"not bucket\.s3\.amazonaws\.com"):
        s3.get_object(Bucket="bucket", Key="key")


def test_leaves_a_local_server_of_another_service_alone() -> None:
    with mock_aws(), pytest.raises(EndpointConnectionError):
        boto3.client("s3", region_name=REGION, endpoint_url="http://127.0.0.1:1").list_buckets()


def test_refuses_nothing_after_its_end() -> None:
    with mock_aws():
        pass
    with in_process(), pytest.raises(EndpointConnectionError):
        boto3.client("s3", region_name=REGION).list_buckets()


def use_both() -> None:
    """Create a table here and a bucket in moto."""
    assert create_table() == ["orders"]
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket="receipts")
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["receipts"]
    arn = boto3.client("dynamodb", region_name=REGION).describe_table(TableName="orders")["Table"]["TableArn"]
    assert arn == "arn:aws:dynamodb:us-east-1:000000000000:table/orders", "moto answered"


@pytest.mark.parametrize(("outer", "inner"), [(moto_aws, mock_aws), (mock_aws, moto_aws)])
def test_moto_answers_the_other_services_in_either_order(outer: Any, inner: Any) -> None:
    environment, send = dict(os.environ), URLLib3Session.send
    with outer(), inner():
        use_both()
    assert dict(os.environ) == environment
    assert URLLib3Session.send is send


@moto_aws
@mock_aws
def test_both_decorators_answer_each_its_services() -> None:
    use_both()


@mock_aws
@moto_aws
def test_both_decorators_work_in_the_other_order() -> None:
    use_both()


def test_moto_answers_a_client_from_between_the_two_imports() -> None:
    program = (
        "import os; os.environ |= dict(AWS_ACCESS_KEY_ID='any', AWS_SECRET_ACCESS_KEY='any')\n"
        "from moto import mock_aws as moto_aws; import boto3\n"
        "between = boto3.client('dynamodb', region_name='us-east-1')\n"
        "from holdfast.boto3 import mock_aws\n"
        "keys = [{'AttributeName': 'pk', 'KeyType': 'HASH'}]\n"
        "types = [{'AttributeName': 'pk', 'AttributeType': 'S'}]\n"
        "table = dict(TableName='orders', KeySchema=keys, AttributeDefinitions=types)\n"
        "for mocks in ([mock_aws()], [mock_aws(), moto_aws()]):\n"
        "    for mock in mocks: mock.start()\n"
        "    made = between.create_table(**table, BillingMode='PAY_PER_REQUEST')\n"
        "    print(made['TableDescription']['TableArn'].split(':')[4])\n"
        "    for mock in reversed(mocks): mock.stop()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["000000000000", "123456789012"]
