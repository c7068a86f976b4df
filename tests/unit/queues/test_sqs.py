"""The SQS engine where a server that works never goes: failures, doubts, batches that are taken in part.

The SDK's client is played by one that answers what a test tells it to; everything above it is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from botocore import exceptions as sdk

from holdfast.core import errors
from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    InvalidRequest,
    OutcomeUnknown,
    ReceiptLost,
    SendIncomplete,
    SettingsError,
    StoreClosed,
    StoreFailed,
    StoreUnreachable,
    Throttled,
)
from holdfast.operations.queues import (
    ChangeVisibility,
    DeleteMessages,
    Operation,
    Outgoing,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.sqs import SQSQueues, open_sqs
from holdfast.stores.queues.sqs.failures import CODES, error_of, failure_of
from holdfast.stores.queues.sqs.service import Service
from holdfast.stores.retrying import Backoff, Waiting

R = TypeVar("R")
URL = "http://127.0.0.1/1/q"
TIMED_OUT = sdk.ReadTimeoutError(endpoint_url=URL)
REFUSED = sdk.EndpointConnectionError(endpoint_url=URL)


def told(code: str, status: int = 400, text: str = "told so") -> Exception:
    response = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = sdk.ClientError(response, "Any")
    return error


THROTTLED, FAILED = told("RequestThrottled"), told("InternalFailure", 500)


class Client:
    """Answers each call with the next of `answers`, raising those that are errors; notes what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, dict[str, Any]]]()

    def __getattr__(self, action: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if action == "get_queue_url":
                return {"QueueUrl": f"http://127.0.0.1/1/{request['QueueName']}"}
            self.asked.append((action, request))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def close(self) -> None:
        return


def engine(client: Client) -> SQSQueues:
    async def no_sleep(_: float) -> None:
        return

    waiting = Waiting(chance=lambda: 0.5, sleep=no_sleep)
    return SQSQueues(Service(client, "there", 2, Backoff(attempts_max=4), waiting))


def run(client: Client, operation: Operation[R]) -> R:
    queues = engine(client)
    try:
        return asyncio.run(queues.run(operation))
    finally:
        queues.close()


PLAIN = SendMessages("q", (Outgoing(body="x"), Outgoing(body="y")))
FIFO = SendMessages(
    "q.fifo", tuple(Outgoing(body=body, group="g", deduplication=body) for body in ("x", "y"))
)


def taken(*numbers: int) -> dict[str, Any]:
    return {"Successful": [{"Id": str(number), "MessageId": f"id{number}"} for number in numbers]}


def test_a_throttled_request_comes_again() -> None:
    client = Client(THROTTLED, THROTTLED, taken(0, 1))

    assert [each.id for each in run(client, PLAIN)] == ["id0", "id1"]
    assert len(client.asked) == 3


def test_one_that_is_throttled_for_ever_is_told_so() -> None:
    with pytest.raises(Throttled):
        run(Client(*[THROTTLED] * 4), PLAIN)


def test_a_send_without_a_connection_comes_again() -> None:
    assert run(Client(REFUSED, taken(0, 1)), PLAIN)


@pytest.mark.parametrize("doubt", [TIMED_OUT, FAILED], ids=["no answer", "5xx"])
def test_a_send_in_doubt_to_a_standard_queue_is_not_repeated(doubt: Exception) -> None:
    client = Client(doubt)

    with pytest.raises(OutcomeUnknown) as raised:
        run(client, PLAIN)
    assert raised.value.safe_to_repeat is False
    assert len(client.asked) == 1


@pytest.mark.parametrize("doubt", [TIMED_OUT, FAILED], ids=["no answer", "5xx"])
def test_a_send_in_doubt_to_a_fifo_queue_comes_again_under_the_same_ids(doubt: Exception) -> None:
    client = Client(doubt, taken(0, 1))
    run(client, FIFO)

    first, second = client.asked
    assert first == second


@pytest.mark.parametrize(
    "operation",
    [DeleteMessages("q", ("r",)), ChangeVisibility("q", ("r",), 5), ReceiveMessages("q")],
    ids=lambda operation: type(operation).__name__,
)
def test_what_has_no_second_effect_comes_again_after_a_doubt(operation: Operation[object]) -> None:
    client = Client(TIMED_OUT, FAILED, {})
    run(client, operation)

    assert len(client.asked) == 3


def test_a_repeated_receive_from_a_fifo_queue_asks_for_the_same_messages() -> None:
    client = Client(TIMED_OUT, {})
    run(client, ReceiveMessages("q.fifo"))

    (_, first), (_, second) = client.asked
    assert first["ReceiveRequestAttemptId"] == second["ReceiveRequestAttemptId"]


def test_a_batch_that_is_taken_in_part_says_which_are_not() -> None:
    failed = [{"Id": "1", "Code": "InternalError", "SenderFault": False}]

    with pytest.raises(SendIncomplete) as raised:
        run(Client({**taken(0), "Failed": failed}), PLAIN)
    assert raised.value.unsent == (1,)


def test_a_batch_of_which_nothing_is_taken_says_why() -> None:
    failed = [{"Id": str(number), "Code": "InvalidMessageContents", "SenderFault": True} for number in (0, 1)]

    with pytest.raises(InvalidRequest):
        run(Client({"Failed": failed}), PLAIN)


def test_a_failure_of_the_service_with_one_entry_is_no_lost_receipt() -> None:
    failed = [{"Id": "0", "Code": "Hiccup", "SenderFault": False}]

    with pytest.raises(StoreFailed):
        run(Client({"Failed": failed}), DeleteMessages("q", ("r",)))


def test_an_expired_receipt_of_a_fifo_queue_is_lost() -> None:
    text = "Value r for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
    failed = [{"Id": "0", "Code": "InvalidParameterValue", "Message": text, "SenderFault": True}]

    with pytest.raises(ReceiptLost):
        run(Client({"Failed": failed}), DeleteMessages("q.fifo", ("r",)))


def test_parts_of_seconds_are_rounded_up() -> None:
    client = Client({}, {})
    run(client, ChangeVisibility("q", ("r",), 0.2))
    run(client, ReceiveMessages("q", wait_s=0.5, visibility_s=1.1))

    (_, change), (_, receive) = client.asked
    assert change["Entries"][0]["VisibilityTimeout"] == 1
    assert (receive["WaitTimeSeconds"], receive["VisibilityTimeout"]) == (1, 2)


def _dead(id: str) -> dict[str, Any]:
    system = {
        "SentTimestamp": "1800000000000",
        "ApproximateReceiveCount": "1",
        "MessageGroupId": "g",
        "MessageDeduplicationId": f"evt:{id}",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:1:live.fifo",
    }
    return {"MessageId": id, "ReceiptHandle": f"r-{id}", "Body": id, "Attributes": system}


def test_a_redrive_that_was_broken_off_sends_again_under_the_same_id() -> None:
    sent = []
    for _ in range(2):
        # The second answer to a delete never comes: the process could as well have been killed there.
        client = Client({"Messages": [_dead("m1")]}, taken(0), *[told("AccessDenied", 403)])
        with pytest.raises(AccessRefused):
            run(client, Redrive("dead.fifo", "live.fifo"))
        sent.append(client.asked[1])

    assert sent[0] == sent[1]
    (entry,) = sent[0][1]["Entries"]
    assert entry["MessageDeduplicationId"] == "redrive-m1"
    assert entry["MessageAttributes"]["holdfast.deduplication"]["StringValue"] == "evt:m1"


def test_a_redrive_deletes_what_was_sent_and_gives_back_what_was_not() -> None:
    failed = [{"Id": "0", "Code": "InternalError", "SenderFault": False}]
    client = Client(
        {"Messages": [_dead("m1"), _dead("m2")]}, {**taken(1), "Failed": failed}, {"Successful": []}, {}
    )

    with pytest.raises(SendIncomplete):
        run(client, Redrive("dead.fifo", "live.fifo"))
    _, _, (deleting, deleted), (giving, given) = client.asked
    assert (deleting, giving) == ("delete_message_batch", "change_message_visibility_batch")
    assert [each["ReceiptHandle"] for each in deleted["Entries"]] == ["r-m2"]
    assert [(each["ReceiptHandle"], each["VisibilityTimeout"]) for each in given["Entries"]] == [("r-m1", 0)]


def test_a_dead_letter_tells_where_it_died() -> None:
    (received,) = run(Client({"Messages": [_dead("m1")]}), ReceiveMessages("dead.fifo"))

    assert received.died_in == "live.fifo"


@pytest.mark.parametrize("code", [*CODES, "AWS.SimpleQueueService.NonExistentQueue"])
def test_every_code_of_the_service_is_one_of_our_errors(code: str) -> None:
    error = error_of(code, "text")

    assert type(error) not in (HoldfastError, errors.RequestRefused)


@pytest.mark.parametrize(
    ("cause", "kind", "certainty"),
    [
        (TIMED_OUT, StoreUnreachable, "doubtful"),
        (REFUSED, StoreUnreachable, "undone"),
        (sdk.ConnectTimeoutError(endpoint_url=URL), StoreUnreachable, "undone"),
        (sdk.HTTPClientError(error="x"), StoreFailed, "doubtful"),
        (sdk.NoCredentialsError(), SettingsError, "final"),
        (sdk.ParamValidationError(report="x"), InvalidRequest, "final"),
        (told("InvalidClientTokenId", 403), AccessRefused, "final"),
        (told("Strange", 418), errors.RequestRefused, "final"),
        (told("Strange", 503), StoreFailed, "doubtful"),
        (told("QueueDeletedRecently"), errors.RetryLater, "final"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_every_failure_is_one_of_ours(cause: Exception, kind: type[HoldfastError], certainty: str) -> None:
    failure = failure_of(cause, "SendMessageBatch", "there")

    assert isinstance(failure.error, kind)
    assert failure.kind == certainty


def test_closed_queues_refuse() -> None:
    queues = engine(Client())
    queues.close()

    with pytest.raises(StoreClosed):
        asyncio.run(queues.run(ReceiveMessages("q")))


def test_an_address_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(SettingsError):
        open_sqs("sqs+http://")


def test_an_endpoint_where_nobody_is_is_told() -> None:
    queues = open_sqs("sqs+http://127.0.0.1:9", backoff=Backoff(attempts_max=1))

    with pytest.raises(StoreUnreachable):
        asyncio.run(queues.run(ReceiveMessages("q")))
    queues.close()
