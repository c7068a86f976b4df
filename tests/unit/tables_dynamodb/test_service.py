"""What happens between a request and its answer: throttling, failures, lost answers, silence."""

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
from holdfast.stores.tables.embedded import EmbeddedTables, Faults, open_tables
from holdfast.wire.server import running_server

from .endpoints import Pauses, Reply, lossy, ok, refused, scripted

R = TypeVar("R")

HTML = {"Content-Type": "text/html"}
TABLE = TableDefinition("Tab", (KeyAttribute("pk", "S"),), KeySchema("pk"))
KEY: Item = {"pk": "a"}
GET = GetItem(table="Tab", key=KEY)
PUT = PutItem(table="Tab", item=KEY)
ADD = UpdateItem(table="Tab", key=KEY, update=parse_update("ADD n :n", Placeholders(None, {":n": 1})))
ABSENT = parse_condition("attribute_not_exists(pk)", "ConditionExpression", Placeholders())
CREATE = PutItem(table="Tab", item={**KEY, "x": 1}, condition=ABSENT, returns_on_failure="ALL_OLD")


def run(url: str, operation: Operation[R], pauses: Pauses | None = None, **settings: Any) -> R:
    """One operation on an engine of its own, which never really waits."""
    pauses = Pauses() if pauses is None else pauses

    async def opened() -> R:
        async with open_dynamodb(
            endpoint=url, region="us-east-1", waiting=pauses.waiting, **settings
        ) as tables:
            return await tables.run(operation)

    return asyncio.run(opened())


def in_turn(*replies: Reply | None) -> Callable[[str, dict[str, Any]], Reply | None]:
    """One after the other; the last one again and again."""
    left = list(replies)
    return lambda *_: left.pop(0) if len(left) > 1 else left[0]


# --- what passes is waited out ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        refused("ProvisionedThroughputExceededException"),
        refused("ThrottlingException"),
        refused("RequestLimitExceeded"),
        refused("InternalServerError", status=500),
        Reply(503, b"<html>try later</html>", HTML),
        Reply(200, b"<html>sign in</html>", HTML),
        None,
    ],
    ids=lambda reply: "closed" if reply is None else reply.body.decode()[:60],
)
def test_a_read_is_asked_again_after_whatever_passes(failure: Reply | None) -> None:
    pauses = Pauses()
    with scripted(in_turn(failure, failure, ok(Item={"pk": {"S": "a"}}))) as (url, asked):
        assert run(url, GET, pauses) == GetItemResult(KEY)

    assert asked.actions == ["GetItem"] * 3
    assert pauses == pytest.approx([0.05, 0.1])


def test_throttling_by_a_real_engine_is_waited_out() -> None:
    with open_tables(faults=Faults(throttled=0.5, seed=1)) as behind, running_server(tables=behind) as url:
        behind.run_blocking(CreateTable(definition=TABLE))

        async def twenty() -> list[Any]:
            async with open_dynamodb(
                endpoint=url, waiting=Pauses().waiting, backoff=Backoff(attempts_max=50)
            ) as tables:
                return await asyncio.gather(*(tables.run(ADD) for _ in range(20)))

        asyncio.run(twenty())
        found = run(url, Scan(table="Tab"), backoff=Backoff(attempts_max=50))
    assert found.items == [{"pk": "a", "n": 20}]


def test_conflicts_of_a_real_engine_are_waited_out() -> None:
    with open_tables(faults=Faults(conflicts=0.5, seed=1)) as behind, running_server(tables=behind) as url:
        behind.run_blocking(CreateTable(definition=TABLE))

        async def twenty() -> None:
            async with open_dynamodb(
                endpoint=url, waiting=Pauses().waiting, backoff=Backoff(attempts_max=50)
            ) as tables:
                for _ in range(10):
                    await tables.run(TransactWriteItems(actions=(ADD,)))
                    await tables.run(ADD)

        asyncio.run(twenty())
        assert behind.run_blocking(GET).item == {"pk": "a", "n": 20}


def test_what_never_passes_is_told_when_the_attempts_are_over() -> None:
    throttled = in_turn(refused("ThrottlingException", "slow down"))
    with scripted(throttled) as (url, asked), pytest.raises(Throttled, match="slow down"):
        run(url, PUT, backoff=Backoff(attempts_max=4))

    assert len(asked) == 4


def test_what_never_passes_is_told_when_the_deadline_has_come() -> None:
    backoff = Backoff(attempts_max=1000, first_pause_s_max=1.0, pause_s_max=1.0, deadline_s=5.0)
    with scripted(in_turn(refused("ThrottlingException"))) as (url, asked), pytest.raises(Throttled):
        run(url, PUT, backoff=backoff)

    assert len(asked) == 6


def test_a_conflict_that_stays_is_told_as_such() -> None:
    conflict = [{"Code": "TransactionConflict", "Message": "busy"}]
    with scripted(in_turn(refused("TransactionConflictException"))) as (url, asked):
        with pytest.raises(TransactionConflict):
            run(url, PUT)
        assert len(asked) == Backoff().attempts_max
    with scripted(in_turn(refused("TransactionCanceledException", CancellationReasons=conflict))) as (
        url,
        asked,
    ):
        with pytest.raises(TransactionCancelled):
            run(url, TransactWriteItems(actions=(PUT,)))
        assert len(asked) == Backoff().attempts_max


def test_a_transaction_that_was_refused_for_good_is_not_tried_again() -> None:
    reasons = [{"Code": "TransactionConflict"}, {"Code": "ConditionalCheckFailed"}]
    cancelled = refused("TransactionCanceledException", CancellationReasons=reasons)
    with scripted(in_turn(cancelled)) as (url, asked), pytest.raises(TransactionCancelled):
        run(url, TransactWriteItems(actions=(PUT,)))

    assert len(asked) == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [("ValidationException", InvalidRequest), ("ResourceNotFoundException", NotFound)],
)
def test_a_refusal_is_final(code: str, error: type[Exception]) -> None:
    with scripted(in_turn(refused(code))) as (url, asked), pytest.raises(error):
        run(url, GET)

    assert len(asked) == 1


def test_a_transaction_in_progress_is_asked_for_again_with_its_token() -> None:
    with scripted(in_turn(refused("TransactionInProgressException"), ok())) as (url, asked):
        run(url, TransactWriteItems(actions=(PUT,)))

    tokens = {request["ClientRequestToken"] for _, request in asked}
    assert (len(asked), len(tokens)) == (2, 1)


def test_the_token_of_the_caller_is_the_one_that_is_sent() -> None:
    with scripted(in_turn(ok())) as (url, asked):
        run(url, TransactWriteItems(actions=(PUT,), token="mine"))

    assert asked[0][1]["ClientRequestToken"] == "mine"


def test_an_answer_with_a_wrong_checksum_is_not_believed() -> None:
    wrong = Reply(200, b'{"TableNames": ["Wrong"]}', {"x-amz-crc32": "1"})
    with scripted(in_turn(wrong, ok(TableNames=["Right"]))) as (url, _):
        assert run(url, ListTables()).names == ("Right",)


# --- answers that are lost ----------------------------------------------------------------------------------


@pytest.fixture
def behind() -> Iterator[EmbeddedTables]:
    with open_tables() as tables:
        tables.run_blocking(CreateTable(definition=TABLE))
        yield tables


def losing(first: int) -> Callable[[str], bool]:
    """Loses so many answers, then none."""
    left = [first]

    def loses(action: str) -> bool:
        left[0] -= 1
        return left[0] >= 0

    return loses


def after_lost_answers(behind: EmbeddedTables, operation: Operation[R], count: int = 1, **settings: Any) -> R:
    with running_server(tables=behind) as url, lossy(url, losing(count)) as lossy_url:
        return run(lossy_url, operation, **settings)


def test_a_write_that_can_be_repeated_is(behind: EmbeddedTables) -> None:
    after_lost_answers(behind, PUT)

    assert behind.run_blocking(GET).item == KEY


def test_a_transaction_has_no_second_effect(behind: EmbeddedTables) -> None:
    after_lost_answers(behind, TransactWriteItems(actions=(ADD,)), count=3)

    assert behind.run_blocking(GET).item == {"pk": "a", "n": 1}


def test_a_counter_is_not_counted_twice_but_told_as_unknown(behind: EmbeddedTables) -> None:
    with pytest.raises(OutcomeUnknown, match="Repeating it might do it twice") as unknown:
        after_lost_answers(behind, ADD)

    assert not unknown.value.safe_to_repeat
    assert behind.run_blocking(GET).item == {"pk": "a", "n": 1}


def test_a_condition_that_fails_on_the_repeat_is_not_told_as_failed(behind: EmbeddedTables) -> None:
    with pytest.raises(OutcomeUnknown, match="may be its own effect") as unknown:
        after_lost_answers(behind, CREATE)

    assert not unknown.value.safe_to_repeat
    assert unknown.value.item == {"pk": "a", "x": 1}


def test_a_condition_that_fails_at_once_is_told_as_failed(behind: EmbeddedTables) -> None:
    behind.run_blocking(PUT)

    with pytest.raises(ConditionFailed):
        after_lost_answers(behind, CREATE, count=0)


def test_a_write_whose_answers_are_all_lost_is_told_as_unknown_and_safe_to_repeat(
    behind: EmbeddedTables,
) -> None:
    with pytest.raises(OutcomeUnknown, match="no second effect") as unknown:
        after_lost_answers(behind, PUT, count=1000, backoff=Backoff(attempts_max=3))

    assert unknown.value.safe_to_repeat
    assert isinstance(unknown.value.__cause__, Exception)


def test_a_transaction_whose_answers_are_all_lost_can_be_repeated_with_its_token(
    behind: EmbeddedTables,
) -> None:
    operation = TransactWriteItems(actions=(ADD,))
    with pytest.raises(OutcomeUnknown) as unknown:
        after_lost_answers(behind, operation, count=1000, backoff=Backoff(attempts_max=2))
    assert unknown.value.safe_to_repeat
    assert unknown.value.token

    after_lost_answers(behind, TransactWriteItems(actions=(ADD,), token=unknown.value.token), count=0)
    assert behind.run_blocking(GET).item == {"pk": "a", "n": 1}


def test_a_read_whose_answers_are_all_lost_is_told_as_unreachable(behind: EmbeddedTables) -> None:
    with pytest.raises(StoreUnreachable, match="No answer"):
        after_lost_answers(behind, GET, count=1000, backoff=Backoff(attempts_max=2))


def test_a_table_is_not_made_twice_but_told_as_unknown() -> None:
    with open_tables() as behind:
        with pytest.raises(OutcomeUnknown):
            after_lost_answers(behind, CreateTable(definition=TABLE))
        assert behind.run_blocking(DescribeTable(table="Tab")).definition == TABLE


def test_a_failure_of_the_service_leaves_a_counter_in_doubt() -> None:
    failing = in_turn(refused("InternalServerError", status=500), ok())
    with scripted(failing) as (url, asked), pytest.raises(OutcomeUnknown):
        run(url, ADD)

    assert len(asked) == 1


def test_throttling_leaves_no_doubt() -> None:
    with scripted(in_turn(refused("ThrottlingException"), ok())) as (url, asked):
        run(url, ADD)

    assert len(asked) == 2


def test_throttling_after_a_lost_answer_leaves_the_doubt() -> None:
    with scripted(in_turn(None, refused("ThrottlingException"))) as (url, _), pytest.raises(OutcomeUnknown):
        run(url, PUT, backoff=Backoff(attempts_max=2))


def test_a_refusal_after_a_lost_answer_is_told_as_it_is() -> None:
    with scripted(in_turn(None, refused("ResourceNotFoundException"))) as (url, _), pytest.raises(NotFound):
        run(url, PUT)


# --- silence ------------------------------------------------------------------------------------------------


def test_an_endpoint_that_is_down_is_named_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        pauses = Pauses()
        with pytest.raises(StoreUnreachable) as down:
            run(url, ADD, pauses, backoff=Backoff(attempts_max=3))

    assert url in down.value.message
    assert "holdfast serve" in down.value.message
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("operation", "error"), [(GET, StoreUnreachable), (ADD, OutcomeUnknown)], ids=["read", "write"]
)
def test_an_endpoint_that_does_not_answer_in_time_is_given_up(
    operation: Operation[Any], error: type[Exception]
) -> None:
    released = threading.Event()

    def late(*_: Any) -> Reply:
        released.wait()
        return ok()

    with scripted(late) as (url, asked):
        try:
            with pytest.raises(error, match="[Tt]imeout"):
                run(
                    url,
                    operation,
                    timeouts=Timeouts(connect_s=1, read_s=0.05),
                    backoff=Backoff(attempts_max=2),
                )
        finally:
            released.set()

    assert len(asked) == (2 if operation is GET else 1)


def test_what_is_no_dynamodb_endpoint_is_said_so() -> None:
    page = in_turn(Reply(200, b"<html>hello</html>", HTML))
    with scripted(page) as (url, _), pytest.raises(StoreFailed, match="Is it a DynamoDB endpoint"):
        run(url, GET, backoff=Backoff(attempts_max=1))


def test_an_answer_without_what_every_answer_has_is_one_of_our_errors_too() -> None:
    with scripted(in_turn(ok())) as (url, _), pytest.raises(InternalError, match="Scan could not be done"):
        run(url, Scan(table="Tab"))


# --- many, and the end --------------------------------------------------------------------------------------


def test_no_more_requests_are_under_way_than_there_are_threads() -> None:
    lock, entered, both = threading.Lock(), [0, 0], threading.Event()

    def counted(*_: Any) -> Reply:
        with lock:
            entered[0] += 1
            entered[1] = max(entered)
            if entered[0] == 2:
                both.set()
        both.wait(5)
        with lock:
            entered[0] -= 1
        return ok()

    async def many(url: str) -> None:
        async with open_dynamodb(endpoint=url, region="us-east-1", threads=2) as tables:
            await asyncio.gather(*(tables.run(GET) for _ in range(8)))

    with scripted(counted) as (url, asked):
        asyncio.run(many(url))
    assert len(asked) == 8
    assert entered[1] == 2


def test_a_closed_engine_says_so() -> None:
    with scripted(in_turn(ok())) as (url, asked):
        tables: DynamoDBTables = open_dynamodb(endpoint=url, region="us-east-1")
        tables.close()
        with pytest.raises(StoreClosed):
            asyncio.run(tables.run(GET))

    assert asked == []
