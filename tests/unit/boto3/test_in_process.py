"""boto3 in process: which clients are intercepted, by which engine, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import unittest
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.auth import AUTH_TYPE_MAPS
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError
from botocore.httpsession import URLLib3Session
from moto import mock_aws

from holdfast.boto3 import BlockingTables, in_process
from holdfast.core.errors import Throttled
from holdfast.operations.tables import Operation
from holdfast.operations.tables.describe_table import DescribeTable
from holdfast.operations.tables.list_tables import ListTablesResult
from holdfast.operations.tables.schema import KeyAttribute, KeySchema, TableDefinition, TableDescription

ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=2)


class NamedTables:
    """A tables store with one table of the given name, or one that always raises `failure`."""

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self._name = name
        self._failure = failure

    def run_blocking(self, operation: Operation[Any], /) -> Any:
        if self._failure is not None:
            raise self._failure
        if isinstance(operation, DescribeTable):
            return make_description(self._name)
        return ListTablesResult(names=(self._name,))


def make_description(name: str) -> TableDescription:
    definition = TableDefinition(name=name, attributes=(KeyAttribute("pk", "S"),), keys=KeySchema("pk"))
    return TableDescription(definition=definition, id="id", status="ACTIVE", created_at=0.0)


def make_client(region: str = "us-east-1", **more: Any) -> Any:
    return boto3.client("dynamodb", region_name=region, config=ONCE, **more)


def list_names(dynamodb: Any = None) -> list[str]:
    listed: list[str] = (dynamodb or make_client()).list_tables()["TableNames"]
    return listed


@pytest.fixture
def unreachable() -> Iterator[None]:
    """Refuse every request that would leave the process."""

    def refuse(session: Any, request: Any) -> None:
        raise EndpointConnectionError(endpoint_url=request.url)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(URLLib3Session, "send", refuse)
        yield


# --- clients ------------------------------------------------------------------------------------------------


def test_a_client_is_answered_with_the_services_headers() -> None:
    with in_process(NamedTables("orders")):
        response = make_client().list_tables()
    assert response["TableNames"] == ["orders"]
    assert len(response["ResponseMetadata"]["RequestId"]) == 52
    assert "x-amz-crc32" in response["ResponseMetadata"]["HTTPHeaders"]


def test_a_resource_and_a_stream_client_are_answered(holdfast_dynamodb: BlockingTables) -> None:
    table = boto3.resource("dynamodb").create_table(
        TableName="orders",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    )
    table.wait_until_exists()
    table.put_item(Item={"pk": "1", "total": 12})
    assert table.get_item(Key={"pk": "1"})["Item"] == {"pk": "1", "total": 12}
    streams = boto3.client("dynamodbstreams").list_streams()["Streams"]
    assert [stream["TableName"] for stream in streams] == ["orders"]


def test_each_use_of_the_fixture_has_an_engine_of_its_own(holdfast_dynamodb: BlockingTables) -> None:
    assert list_names() == []


def test_a_client_made_before_is_answered_while_the_context_is_open(unreachable: None) -> None:
    before = make_client()
    with in_process(NamedTables("orders")):
        assert list_names(before) == ["orders"]
    with pytest.raises(EndpointConnectionError):
        list_names(before)


def test_a_client_older_than_our_import_is_answered() -> None:
    program = (
        "import boto3; old = boto3.client('dynamodb', region_name='us-east-1'); import holdfast.boto3 as h\n"
        "from holdfast.operations.tables.list_tables import ListTablesResult\n"
        "class T:\n    def run_blocking(self, operation): return ListTablesResult(names=('orders',))\n"
        "with h.in_process(T()): print(old.list_tables()['TableNames'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['orders']"


def test_a_client_of_another_endpoint_is_answered_unless_it_is_on_this_machine(unreachable: None) -> None:
    with in_process(NamedTables("orders")):
        assert list_names(make_client(endpoint_url="https://dynamodb.example.com")) == ["orders"]
        for local in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
            with pytest.raises(EndpointConnectionError):
                list_names(make_client(endpoint_url=local))


def test_clients_of_other_services_are_left_alone(unreachable: None) -> None:
    with in_process(NamedTables("orders")), pytest.raises(EndpointConnectionError):
        boto3.client("sqs", region_name="us-east-1", config=ONCE).list_queues()


def test_takes_precedence_over_moto_and_leaves_it_other_services() -> None:
    with mock_aws(), in_process(NamedTables("orders")):
        assert list_names() == ["orders"]
        assert boto3.client("sqs", region_name="us-east-1").list_queues().get("QueueUrls") is None


def test_other_threads_are_answered_too() -> None:
    seen: list[list[str]] = []
    with in_process(NamedTables("orders")):
        dynamodb = make_client()
        threads = [threading.Thread(target=lambda: seen.append(list_names(dynamodb))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert seen == [["orders"]] * 8


@pytest.mark.parametrize("region", ["eu-central-1", "us-east-1"])
def test_arns_are_in_the_clients_region(region: str) -> None:
    with in_process(NamedTables("orders")):
        table = make_client(region).describe_table(TableName="orders")["Table"]
    assert table["TableArn"] == f"arn:aws:dynamodb:{region}:000000000000:table/orders"


# --- failures -----------------------------------------------------------------------------------------------


def test_a_store_error_becomes_a_client_error() -> None:
    with in_process(NamedTables("orders", Throttled())), pytest.raises(ClientError) as refused:
        list_names()
    assert refused.value.response["Error"]["Code"] == "ProvisionedThroughputExceededException"


def test_internal_error_is_raised_unchanged() -> None:
    with in_process(NamedTables("orders", ZeroDivisionError())), pytest.raises(ZeroDivisionError):
        list_names()


# --- nesting and exit ---------------------------------------------------------------------------------------


def test_innermost_context_wins_until_it_ends(unreachable: None) -> None:
    dynamodb = make_client()
    with in_process(NamedTables("outer")):
        with in_process(NamedTables("inner")):
            assert list_names(dynamodb) == ["inner"]
        assert list_names(dynamodb) == ["outer"]
    with pytest.raises(EndpointConnectionError):
        list_names(dynamodb)


def test_contexts_may_end_in_any_order() -> None:
    first, second = in_process(NamedTables("first")), in_process(NamedTables("second"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert list_names() == ["second"]
    second.__exit__(None, None, None)


def test_one_context_may_be_entered_twice() -> None:
    context = in_process(NamedTables("orders"))
    with context, context:
        assert list_names() == ["orders"]


def test_start_and_stop_equal_entering_and_leaving(unreachable: None) -> None:
    orders, dynamodb = in_process(NamedTables("orders")), make_client()
    orders.start()
    assert list_names(dynamodb) == ["orders"]
    orders.stop()
    with pytest.raises(EndpointConnectionError):
        list_names(dynamodb)


def test_start_returns_the_engine() -> None:
    tables = NamedTables("orders")
    orders = in_process(tables)
    assert orders.start() is tables
    orders.stop()


def test_rejects_stop_without_start() -> None:
    with pytest.raises(RuntimeError, match="without start"):
        in_process().stop()


def test_nothing_is_left_behind_even_after_an_error() -> None:
    send, environment = URLLib3Session.send, dict(os.environ)
    add_auth = AUTH_TYPE_MAPS["v4"].add_auth

    @in_process(NamedTables("orders"))
    def failing() -> None:
        assert URLLib3Session.send is not send
        assert AUTH_TYPE_MAPS["v4"].add_auth is not add_auth
        raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert URLLib3Session.send is send
    assert AUTH_TYPE_MAPS["v4"].add_auth is add_auth
    assert dict(os.environ) == environment


# --- decorators ---------------------------------------------------------------------------------------------


def test_a_decorated_function_keeps_its_name_arguments_and_result() -> None:
    @in_process(NamedTables("orders"))
    def listed(extra: str) -> list[str]:
        return [*list_names(), extra]

    assert listed.__name__ == "listed"
    assert listed("more") == ["orders", "more"]


async def test_decorated_coroutine_is_intercepted_until_it_ends(unreachable: None) -> None:
    dynamodb = make_client()

    @in_process(NamedTables("orders"))
    async def listed() -> list[str]:
        await asyncio.sleep(0)
        return list_names(dynamodb)

    called = listed()
    with pytest.raises(EndpointConnectionError):
        list_names(dynamodb)
    assert await called == ["orders"]
    with pytest.raises(EndpointConnectionError):
        list_names(dynamodb)


def test_rejects_an_async_generator_as_decorated_function() -> None:
    async def listing() -> AsyncIterator[list[str]]:
        yield list_names()

    with pytest.raises(TypeError, match=r"use `with in_process\(\)` inside"):
        in_process()(listing)


def create_table() -> list[str]:
    """Create a table and return the names of all tables: only this one if the engine is fresh."""
    dynamodb = make_client()
    dynamodb.create_table(
        TableName="made",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return list_names(dynamodb)


def test_a_function_may_be_decorated_without_parentheses() -> None:
    @in_process
    def made(extra: str) -> list[str]:
        return [*create_table(), extra]

    assert made.__name__ == "made"
    assert [made("first"), made("second")] == [["made", "first"], ["made", "second"]]


def test_methods_of_every_kind_may_be_decorated_without_parentheses() -> None:
    class Shop:
        @in_process
        def method(self) -> list[str]:
            return create_table()

        @in_process
        @staticmethod
        def static_method() -> list[str]:
            return create_table()

        @in_process  # type: ignore[call-overload, untyped-decorator, unused-ignore]
        @classmethod
        def class_method(cls) -> list[str]:
            assert cls is Shop
            return create_table()

    assert Shop().method() == Shop.static_method() == Shop().class_method() == ["made"]


def test_decorated_generator_is_intercepted_until_it_ends(unreachable: None) -> None:
    @in_process(NamedTables("orders"))
    def listing() -> Iterator[list[str]]:
        yield list_names()
        yield list_names()

    dynamodb = make_client()
    listed = listing()
    assert next(listed) == ["orders"]
    assert list_names(dynamodb) == ["orders"]
    assert list(listed) == [["orders"]]
    with pytest.raises(EndpointConnectionError):
        list_names(dynamodb)


@pytest.fixture
@in_process
def with_a_table() -> Iterator[str]:
    [name] = create_table()
    yield name
    assert list_names() == [name]


def test_a_fixture_that_yields_may_be_decorated(with_a_table: str) -> None:
    assert list_names() == [with_a_table]


def test_decorating_a_fixture_object_states_the_right_order() -> None:
    @pytest.fixture
    def orders() -> None: ...

    with pytest.raises(TypeError, match="@pytest.fixture above @in_process"):
        in_process(orders)


@pytest.mark.parametrize("path", ["shop.db", Path("shop.db")])
def test_rejects_a_path_and_says_how_to_open_it(path: Any) -> None:
    with pytest.raises(TypeError, match=r"with open_tables\('shop.db'\) as tables, in_process\(tables\)"):
        in_process(path)


@pytest.mark.parametrize("wrong", [7, {}, NamedTables])
def test_rejects_anything_but_an_open_engine(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes an open engine"):
        in_process(wrong)


def test_rejects_a_decorated_object_that_is_not_callable() -> None:
    with pytest.raises(TypeError, match="decorates functions, methods and classes, not 'orders'"):
        in_process()("orders")  # type: ignore[call-overload]


@in_process(NamedTables("orders"))
class TestDecorated:
    def test_sees_the_tables(self) -> None:
        assert list_names() == ["orders"]

    @staticmethod
    def test_static_method_sees_the_tables_too() -> None:
        assert list_names() == ["orders"]


@in_process
class TestDecoratedWithoutParentheses:
    def test_makes_a_table(self) -> None:
        assert create_table() == ["made"]

    def test_makes_a_table_of_the_same_name(self) -> None:
        assert create_table() == ["made"]


@in_process
class TestDecoratedWithSetupMethod:
    def setup_method(self) -> None:
        self.made = create_table()

    def test_shares_the_engine_of_its_setup_method(self) -> None:
        assert self.made == list_names() == ["made"]

    def test_has_an_engine_of_its_own(self) -> None:
        assert self.made == list_names() == ["made"]


@in_process
class TestDecoratedWithTeardownMethod:
    names: list[str]

    def setup_method(self, method: Any) -> None:
        assert method.__name__ == "test_makes_a_table"

    def teardown_method(self, method: Any) -> None:
        assert list_names() == self.names

    def test_makes_a_table(self) -> None:
        self.names = create_table()


def test_setup_method_that_raises_leaves_the_context() -> None:
    @in_process
    class Failing:
        def setup_method(self) -> None:
            raise RuntimeError("no table")

    failing: Any = Failing()
    send = URLLib3Session.send
    with pytest.raises(RuntimeError, match="no table"):
        failing.setup_method(None)
    assert URLLib3Session.send is send


@in_process
class TestDecoratedWithAnInnerClass:
    class TestInside:
        def test_makes_a_table(self) -> None:
            assert create_table() == ["made"]


@in_process(NamedTables("orders"))
class DecoratedCase(unittest.TestCase):
    """A unittest case with the decorator: its tables exist before `setUp` runs."""

    def setUp(self) -> None:
        self.names = list_names()

    def test_decorators_tables_exist_in_set_up_and_in_the_test(self) -> None:
        assert self.names == list_names() == ["orders"]


# --- signing credentials ------------------------------------------------------------------------------------


@pytest.fixture
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Remove AWS credentials and region from the environment and point the config files to `tmp_path`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    return tmp_path


@pytest.mark.usefixtures("nothing_configured")
def test_fake_credentials_and_region_exist_only_while_needed() -> None:
    with in_process(NamedTables("orders")), in_process(NamedTables("inner")):
        assert os.environ["AWS_ACCESS_KEY_ID"] == "testing"
        assert list_names(boto3.client("dynamodb")) == ["inner"]
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"} & set(os.environ)
    assert boto3.DEFAULT_SESSION is None


@pytest.mark.usefixtures("nothing_configured")
def test_older_client_without_credentials_signs_only_while_the_context_is_open() -> None:
    before = make_client("eu-central-1")
    with in_process(NamedTables("orders")):
        arn = before.describe_table(TableName="orders")["Table"]["TableArn"]
    assert ":eu-central-1:" in arn
    with pytest.raises(NoCredentialsError):
        list_names(before)


@pytest.mark.usefixtures("nothing_configured")
def test_clients_of_other_services_get_no_fake_credentials() -> None:
    before = boto3.client("sqs", region_name="us-east-1", config=ONCE)
    with in_process(NamedTables("orders")), pytest.raises(NoCredentialsError):
        before.list_queues()


@pytest.mark.usefixtures("nothing_configured")
def test_default_session_does_not_keep_the_fake_credentials() -> None:
    boto3.setup_default_session()
    before = boto3.DEFAULT_SESSION
    with in_process(NamedTables("orders")):
        assert list_names(boto3.client("dynamodb")) == ["orders"]
    assert boto3.DEFAULT_SESSION is before
    assert before.get_credentials() is None


def test_configured_credentials_and_regions_are_left_alone(nothing_configured: Path) -> None:
    (nothing_configured / "credentials").write_text(
        "[default]\naws_access_key_id = AKID\naws_secret_access_key = s\n"
    )
    (nothing_configured / "config").write_text("[default]\nregion = eu-west-3\n")
    with in_process(NamedTables("orders")):
        assert "AWS_ACCESS_KEY_ID" not in os.environ
        arn = boto3.client("dynamodb").describe_table(TableName="orders")["Table"]["TableArn"]
    assert ":eu-west-3:" in arn


def test_missing_boto3_names_the_extra() -> None:
    program = "import sys; sys.modules['boto3'] = None; import holdfast.boto3"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: holdfast.boto3 needs boto3, which is not installed. "
        "Run pip install 'holdfast-state[aws]'"
    )
