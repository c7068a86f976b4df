"""Requests of the DynamoDB engine at failing endpoints: throttling, lost answers, timeouts and closing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from holdfast.core.errors import (
    ConditionFailed,
    InternalError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StoreClosed,
    StoreFailed,
    StoreUnreachable,
    Throttled,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.operations.expressions import Placeholders, parse_condition, parse_update
from holdfast.operations.tables import (
    CreateTable,
    DescribeTable,
    GetItem,
    GetItemResult,
    KeyAttribute,
    KeySchema,
    ListTables,
    Operation,
    PutItem,
    Scan,
    TableDefinition,
    TransactWriteItems,
    UpdateItem,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import Backoff, DynamoDBTables, Timeouts, open_dynamodb
from holdfast.stores.tables.embedded import EmbeddedTables, EngineFaults, open_tables
from holdfast.wire.http.server import start_server

from .endpoints import FakePauses, Reply, error_reply, ok, run_lossy_endpoint, run_scripted_endpoint

R = TypeVar("R")

HTML = {"Content-Type": "text/html"}
TABLE = TableDefinition("Tab", (KeyAttribute("pk", "S"),), KeySchema("pk"))
KEY: Item = {"pk": "a"}
GET = GetItem(table="Tab", key=KEY)
PUT = PutItem(table="Tab", item=KEY)
ADD = UpdateItem(table="Tab", key=KEY, update=parse_update("ADD n :n", Placeholders(None, {":n": 1})))
ABSENT = parse_condition("attribute_not_exists(pk)", "ConditionExpression", Placeholders())
CREATE = PutItem(table="Tab", item={**KEY, "x": 1}, condition=ABSENT, returns_on_failure="ALL_OLD")


async def run(url: str, operation: Operation[R], pauses: FakePauses | None = None, **settings: Any) -> R:
    """Run one operation on a new engine, which never really waits."""
    pauses = FakePauses() if pauses is None else pauses

    async with open_dynamodb(endpoint=url, region="us-east-1", timing=pauses.timing, **settings) as tables:
        return await tables.run(operation)


def reply_in_turn(*replies: Reply | None) -> Callable[[str, dict[str, Any]], Reply | None]:
    """Return the replies in order, repeating the last one."""
    left = list(replies)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


# --- temporary failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        error_reply("ProvisionedThroughputExceededException"),
        error_reply("ThrottlingException"),
        error_reply("RequestLimitExceeded"),
        error_reply("InternalServerError", status=500),
        Reply(503, b"<html>try later</html>", HTML),
        Reply(200, b"<html>sign in</html>", HTML),
        None,
    ],
    ids=lambda reply: "closed" if reply is None else reply.body.decode()[:60],
)
async def test_retries_a_read_after_a_temporary_failure(failure: Reply | None) -> None:
    pauses = FakePauses()
    with run_scripted_endpoint(reply_in_turn(failure, failure, ok(Item={"pk": {"S": "a"}}))) as (
        url,
        requests,
    ):
        assert await run(url, GET, pauses) == GetItemResult(KEY)

    assert requests.actions == ["GetItem"] * 3
    assert pauses == pytest.approx([0.05, 0.1])


async def test_waits_out_throttling_by_a_real_engine() -> None:
    with (
        open_tables(faults=EngineFaults(throttled=0.5, seed=1)) as backend,
        start_server(tables=backend) as url,
    ):
        backend.run_blocking(CreateTable(definition=TABLE))

        async def twenty() -> list[Any]:
            async with open_dynamodb(
                endpoint=url, timing=FakePauses().timing, backoff=Backoff(max_attempts=50)
            ) as tables:
                return await asyncio.gather(*(tables.run(ADD) for _ in range(20)))

        await twenty()
        found = await run(url, Scan(table="Tab"), backoff=Backoff(max_attempts=50))
    assert found.items == [{"pk": "a", "n": 20}]


async def test_waits_out_conflicts_of_a_real_engine() -> None:
    with (
        open_tables(faults=EngineFaults(conflicts=0.5, seed=1)) as backend,
        start_server(tables=backend) as url,
    ):
        backend.run_blocking(CreateTable(definition=TABLE))

        async def twenty() -> None:
            async with open_dynamodb(
                endpoint=url, timing=FakePauses().timing, backoff=Backoff(max_attempts=50)
            ) as tables:
                for _ in range(10):
                    await tables.run(TransactWriteItems(actions=(ADD,)))
                    await tables.run(ADD)

        await twenty()
        assert backend.run_blocking(GET).item == {"pk": "a", "n": 20}


async def test_reports_a_lasting_failure_after_the_last_attempt() -> None:
    throttled = reply_in_turn(error_reply("ThrottlingException", "slow down"))
    with run_scripted_endpoint(throttled) as (url, requests), pytest.raises(Throttled, match="slow down"):
        await run(url, PUT, backoff=Backoff(max_attempts=4))

    assert len(requests) == 4


async def test_reports_a_lasting_failure_at_the_deadline() -> None:
    backoff = Backoff(max_attempts=1000, first_pause_s_max=1.0, pause_s_max=1.0, deadline_s=5.0)
    with (
        run_scripted_endpoint(reply_in_turn(error_reply("ThrottlingException"))) as (url, requests),
        pytest.raises(Throttled),
    ):
        await run(url, PUT, backoff=backoff)

    assert len(requests) == 6


async def test_reports_a_lasting_conflict() -> None:
    conflict = [{"Code": "TransactionConflict", "Message": "busy"}]
    with run_scripted_endpoint(reply_in_turn(error_reply("TransactionConflictException"))) as (url, requests):
        with pytest.raises(TransactionConflict):
            await run(url, PUT)
        assert len(requests) == Backoff().max_attempts
    with run_scripted_endpoint(
        reply_in_turn(error_reply("TransactionCanceledException", CancellationReasons=conflict))
    ) as (
        url,
        requests,
    ):
        with pytest.raises(TransactionCancelled):
            await run(url, TransactWriteItems(actions=(PUT,)))
        assert len(requests) == Backoff().max_attempts


async def test_permanently_refused_transaction_is_not_retried() -> None:
    reasons = [{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}]
    cancelled = error_reply("TransactionCanceledException", CancellationReasons=reasons)
    with (
        run_scripted_endpoint(reply_in_turn(cancelled)) as (url, requests),
        pytest.raises(TransactionCancelled),
    ):
        await run(url, TransactWriteItems(actions=(PUT,)))

    assert len(requests) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [("ValidationException", InvalidRequest), ("ResourceNotFoundException", NotFound)],
)
async def test_refused_request_is_not_retried(code: str, error: type[Exception]) -> None:
    with run_scripted_endpoint(reply_in_turn(error_reply(code))) as (url, requests), pytest.raises(error):
        await run(url, GET)

    assert len(requests) == 1


async def test_retries_a_transaction_in_progress_with_its_token() -> None:
    with run_scripted_endpoint(reply_in_turn(error_reply("TransactionInProgressException"), ok())) as (
        url,
        requests,
    ):
        await run(url, TransactWriteItems(actions=(PUT,)))

    tokens = {request["ClientRequestToken"] for _, request in requests}
    assert (len(requests), len(tokens)) == (2, 1)


async def test_the_token_of_the_caller_is_the_one_that_is_sent() -> None:
    with run_scripted_endpoint(reply_in_turn(ok())) as (url, requests):
        await run(url, TransactWriteItems(actions=(PUT,), token="mine"))

    assert requests[0][1]["ClientRequestToken"] == "mine"


async def test_retries_after_an_answer_with_a_wrong_checksum() -> None:
    wrong = Reply(200, b'{"TableNames": ["Wrong"]}', {"x-amz-crc32": "1"})
    with run_scripted_endpoint(reply_in_turn(wrong, ok(TableNames=["Right"]))) as (url, _):
        assert (await run(url, ListTables())).names == ("Right",)


# --- lost answers -------------------------------------------------------------------------------------------


@pytest.fixture
def backend() -> Iterator[EmbeddedTables]:
    """Yield an embedded engine with the table `Tab`."""
    with open_tables() as tables:
        tables.run_blocking(CreateTable(definition=TABLE))
        yield tables


def lose_first(first: int) -> Callable[[str], bool]:
    """Return a function that says to lose the first answers, then none."""
    left = [first]

    def loses(action: str) -> bool:
        left[0] -= 1
        return left[0] >= 0

    return loses


async def run_with_lost_answers(
    backend: EmbeddedTables, operation: Operation[R], count: int = 1, **settings: Any
) -> R:
    """Run the operation through a proxy that loses the first `count` answers of the embedded engine."""
    with start_server(tables=backend) as url, run_lossy_endpoint(url, lose_first(count)) as lossy_url:
        return await run(lossy_url, operation, **settings)


async def test_retries_a_repeatable_write_after_a_lost_answer(backend: EmbeddedTables) -> None:
    await run_with_lost_answers(backend, PUT)

    assert backend.run_blocking(GET).item == KEY


async def test_transaction_retried_after_lost_answers_has_one_effect(backend: EmbeddedTables) -> None:
    await run_with_lost_answers(backend, TransactWriteItems(actions=(ADD,)), count=3)

    assert backend.run_blocking(GET).item == {"pk": "a", "n": 1}


async def test_counter_with_a_lost_answer_is_not_retried_and_is_unknown(backend: EmbeddedTables) -> None:
    with pytest.raises(OutcomeUnknown, match="Repeating it might do it twice") as unknown:
        await run_with_lost_answers(backend, ADD)

    assert not unknown.value.safe_to_repeat
    assert backend.run_blocking(GET).item == {"pk": "a", "n": 1}


async def test_condition_that_fails_on_the_retry_is_an_unknown_outcome(backend: EmbeddedTables) -> None:
    with pytest.raises(OutcomeUnknown, match="may be its own effect") as unknown:
        await run_with_lost_answers(backend, CREATE)

    assert not unknown.value.safe_to_repeat
    assert unknown.value.item == {"pk": "a", "x": 1}


async def test_condition_that_fails_at_once_is_reported_as_failed(backend: EmbeddedTables) -> None:
    backend.run_blocking(PUT)

    with pytest.raises(ConditionFailed):
        await run_with_lost_answers(backend, CREATE, count=0)


async def test_repeatable_write_without_answers_is_unknown_and_safe_to_repeat(
    backend: EmbeddedTables,
) -> None:
    with pytest.raises(OutcomeUnknown, match="no second effect") as unknown:
        await run_with_lost_answers(backend, PUT, count=1000, backoff=Backoff(max_attempts=3))

    assert unknown.value.safe_to_repeat
    assert isinstance(unknown.value.__cause__, Exception)


async def test_a_transaction_whose_answers_are_all_lost_can_be_repeated_with_its_token(
    backend: EmbeddedTables,
) -> None:
    operation = TransactWriteItems(actions=(ADD,))
    with pytest.raises(OutcomeUnknown) as unknown:
        await run_with_lost_answers(backend, operation, count=1000, backoff=Backoff(max_attempts=2))
    assert unknown.value.safe_to_repeat
    assert unknown.value.token

    await run_with_lost_answers(
        backend, TransactWriteItems(actions=(ADD,), token=unknown.value.token), count=0
    )
    assert backend.run_blocking(GET).item == {"pk": "a", "n": 1}


async def test_read_without_answers_is_unreachable(backend: EmbeddedTables) -> None:
    with pytest.raises(StoreUnreachable, match="No answer"):
        await run_with_lost_answers(backend, GET, count=1000, backoff=Backoff(max_attempts=2))


async def test_create_table_with_a_lost_answer_is_not_retried_and_is_unknown() -> None:
    with open_tables() as backend:
        with pytest.raises(OutcomeUnknown):
            await run_with_lost_answers(backend, CreateTable(definition=TABLE))
        assert backend.run_blocking(DescribeTable(table="Tab")).definition == TABLE


async def test_service_failure_leaves_the_outcome_of_a_counter_unknown() -> None:
    failing = reply_in_turn(error_reply("InternalServerError", status=500), ok())
    with run_scripted_endpoint(failing) as (url, requests), pytest.raises(OutcomeUnknown):
        await run(url, ADD)

    assert len(requests) == 1


async def test_throttled_counter_is_retried() -> None:
    with run_scripted_endpoint(reply_in_turn(error_reply("ThrottlingException"), ok())) as (url, requests):
        await run(url, ADD)

    assert len(requests) == 2


async def test_throttling_after_a_lost_answer_keeps_the_outcome_unknown() -> None:
    with (
        run_scripted_endpoint(reply_in_turn(None, error_reply("ThrottlingException"))) as (url, _),
        pytest.raises(OutcomeUnknown),
    ):
        await run(url, PUT, backoff=Backoff(max_attempts=2))


async def test_refusal_after_a_lost_answer_is_reported_unchanged() -> None:
    with (
        run_scripted_endpoint(reply_in_turn(None, error_reply("ResourceNotFoundException"))) as (url, _),
        pytest.raises(NotFound),
    ):
        await run(url, PUT)


# --- silence ------------------------------------------------------------------------------------------------


async def test_unreachable_endpoint_error_has_a_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        pauses = FakePauses()
        with pytest.raises(StoreUnreachable) as down:
            await run(url, ADD, pauses, backoff=Backoff(max_attempts=3))

    assert url in down.value.message
    assert "holdfast serve" in down.value.message
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("operation", "error"), [(GET, StoreUnreachable), (ADD, OutcomeUnknown)], ids=["read", "write"]
)
async def test_times_out_on_a_silent_endpoint(operation: Operation[Any], error: type[Exception]) -> None:
    released = threading.Event()

    def late(*_: Any) -> Reply:
        released.wait()
        return ok()

    with run_scripted_endpoint(late) as (url, requests):
        try:
            with pytest.raises(error, match="[Tt]imeout"):
                await run(
                    url,
                    operation,
                    timeouts=Timeouts(connect_s=1, read_s=0.05),
                    backoff=Backoff(max_attempts=2),
                )
        finally:
            released.set()

    assert len(requests) == (2 if operation is GET else 1)


async def test_reports_an_endpoint_that_is_not_dynamodb() -> None:
    page = reply_in_turn(Reply(200, b"<html>hello</html>", HTML))
    with (
        run_scripted_endpoint(page) as (url, _),
        pytest.raises(StoreFailed, match="Is it a DynamoDB endpoint"),
    ):
        await run(url, GET, backoff=Backoff(max_attempts=1))


async def test_incomplete_answer_is_an_internal_error() -> None:
    with (
        run_scripted_endpoint(reply_in_turn(ok())) as (url, _),
        pytest.raises(InternalError, match="Scan failed"),
    ):
        await run(url, Scan(table="Tab"))


# --- concurrency and closing --------------------------------------------------------------------------------


async def test_concurrent_requests_are_bounded_by_threads() -> None:
    lock, entered, both = threading.Lock(), [0, 0], threading.Event()

    def count_request(*_: Any) -> Reply:
        with lock:
            entered[0] += 1
            entered[1] = max(entered)
            if entered[0] == 2:
                both.set()
        both.wait(5)
        with lock:
            entered[0] -= 1
        return ok()

    with run_scripted_endpoint(count_request) as (url, requests):
        async with open_dynamodb(endpoint=url, region="us-east-1", threads=2) as tables:
            await asyncio.gather(*(tables.run(GET) for _ in range(8)))
    assert len(requests) == 8
    assert entered[1] == 2


async def test_closed_engine_refuses_operations() -> None:
    with run_scripted_endpoint(reply_in_turn(ok())) as (url, requests):
        tables: DynamoDBTables = open_dynamodb(endpoint=url, region="us-east-1")
        tables.close()
        with pytest.raises(StoreClosed):
            await tables.run(GET)

    assert requests == []
