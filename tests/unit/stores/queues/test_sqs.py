"""The SQS engine with a fake SDK client: failures, unknown outcomes, partial batches and error mapping.

The fake client gives the answers of the test; everything above it is real.
"""

from __future__ import annotations

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
    OutgoingMessage,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.sqs import SQSQueues, open_sqs
from holdfast.stores.queues.sqs.errors import CODES, map_error, map_error_code
from holdfast.stores.queues.sqs.service import Service
from holdfast.stores.retries import Backoff, RetryTiming
from tests.cases import all_cases

R = TypeVar("R")
URL = "http://127.0.0.1/1/q"
TIMED_OUT = sdk.ReadTimeoutError(endpoint_url=URL)
REFUSED = sdk.EndpointConnectionError(endpoint_url=URL)


def client_error(code: str, status: int = 400, text: str = "told so") -> Exception:
    """Return the SDK's error for a response of the service with this code."""
    response = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = sdk.ClientError(response, "Any")
    return error


THROTTLED, FAILED = client_error("RequestThrottled"), client_error("InternalFailure", 500)


class FakeClient:
    """A fake SDK client that answers each call with the next of `answers`, raises those that are errors, and
    records the calls.
    """

    def __init__(self, *answers: Any) -> None:
        self.answers, self.requests = list(answers), list[tuple[str, dict[str, Any]]]()

    def __getattr__(self, action: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            if action == "get_queue_url":
                return {"QueueUrl": f"http://127.0.0.1/1/{request['QueueName']}"}
            self.requests.append((action, request))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def close(self) -> None:
        return


def engine(client: FakeClient) -> SQSQueues:
    """Return an engine on the client that retries without waiting."""

    async def no_sleep(_: float) -> None:
        return

    waiting = RetryTiming(draw_random=lambda: 0.5, sleep=no_sleep)
    return SQSQueues(Service(client, "there", 2, Backoff(max_attempts=4), waiting))


async def run(client: FakeClient, operation: Operation[R]) -> R:
    """Run one operation on a new engine and close it."""
    queues = engine(client)
    try:
        return await queues.run(operation)
    finally:
        queues.close()


PLAIN = SendMessages("q", (OutgoingMessage(body="x"), OutgoingMessage(body="y")))
FIFO = SendMessages(
    "q.fifo", tuple(OutgoingMessage(body=body, group="g", deduplication=body) for body in ("x", "y"))
)


def successful(*numbers: int) -> dict[str, Any]:
    """Return the response of a send that accepted the messages with these numbers."""
    return {"Successful": [{"Id": str(number), "MessageId": f"id{number}"} for number in numbers]}


async def test_retries_a_throttled_request() -> None:
    client = FakeClient(THROTTLED, THROTTLED, successful(0, 1))

    assert [each.id for each in await run(client, PLAIN)] == ["id0", "id1"]
    assert len(client.requests) == 3


async def test_reports_permanent_throttling() -> None:
    with pytest.raises(Throttled):
        await run(FakeClient(*[THROTTLED] * 4), PLAIN)


async def test_retries_a_send_without_a_connection() -> None:
    assert await run(FakeClient(REFUSED, successful(0, 1)), PLAIN)


@pytest.mark.parametrize("doubt", [TIMED_OUT, FAILED], ids=["no answer", "5xx"])
async def test_uncertain_send_to_a_standard_queue_is_not_retried(doubt: Exception) -> None:
    client = FakeClient(doubt)

    with pytest.raises(OutcomeUnknown) as raised:
        await run(client, PLAIN)
    assert raised.value.safe_to_repeat is False
    assert len(client.requests) == 1


@pytest.mark.parametrize("doubt", [TIMED_OUT, FAILED], ids=["no answer", "5xx"])
async def test_uncertain_send_to_a_fifo_queue_is_retried_with_the_same_ids(doubt: Exception) -> None:
    client = FakeClient(doubt, successful(0, 1))
    await run(client, FIFO)

    first, second = client.requests
    assert first == second


@pytest.mark.parametrize(
    "operation",
    [DeleteMessages("q", ("r",)), ChangeVisibility("q", ("r",), 5), ReceiveMessages("q")],
    ids=lambda operation: type(operation).__name__,
)
async def test_retries_idempotent_operations_after_an_uncertain_outcome(operation: Operation[object]) -> None:
    client = FakeClient(TIMED_OUT, FAILED, {})
    await run(client, operation)

    assert len(client.requests) == 3


async def test_a_repeated_receive_from_a_fifo_queue_asks_for_the_same_messages() -> None:
    client = FakeClient(TIMED_OUT, {})
    await run(client, ReceiveMessages("q.fifo"))

    (_, first), (_, second) = client.requests
    assert first["ReceiveRequestAttemptId"] == second["ReceiveRequestAttemptId"]


async def test_partly_accepted_batch_names_the_rejected_messages() -> None:
    failed = [{"Id": "1", "Code": "InternalError", "SenderFault": False}]

    with pytest.raises(SendIncomplete) as raised:
        await run(FakeClient({**successful(0), "Failed": failed}), PLAIN)
    assert raised.value.unsent == (1,)


async def test_rejected_batch_reports_the_reason() -> None:
    failed = [{"Id": str(number), "Code": "InvalidMessageContents", "SenderFault": True} for number in (0, 1)]

    with pytest.raises(InvalidRequest):
        await run(FakeClient({"Failed": failed}), PLAIN)


async def test_service_failure_of_one_entry_is_not_a_lost_receipt() -> None:
    failed = [{"Id": "0", "Code": "Hiccup", "SenderFault": False}]

    with pytest.raises(StoreFailed):
        await run(FakeClient({"Failed": failed}), DeleteMessages("q", ("r",)))


async def test_an_expired_receipt_of_a_fifo_queue_is_lost() -> None:
    text = "Value r for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
    failed = [{"Id": "0", "Code": "InvalidParameterValue", "Message": text, "SenderFault": True}]

    with pytest.raises(ReceiptLost):
        await run(FakeClient({"Failed": failed}), DeleteMessages("q.fifo", ("r",)))


async def test_parts_of_seconds_are_rounded_up() -> None:
    client = FakeClient({}, {})
    await run(client, ChangeVisibility("q", ("r",), 0.2))
    await run(client, ReceiveMessages("q", wait_s=0.5, visibility_s=1.1))

    (_, change), (_, receive) = client.requests
    assert change["Entries"][0]["VisibilityTimeout"] == 1
    assert (receive["WaitTimeSeconds"], receive["VisibilityTimeout"]) == (1, 2)


def _dead_letter(id: str) -> dict[str, Any]:
    """Return a received dead letter as SQS describes it."""
    system = {
        "SentTimestamp": "1800000000000",
        "ApproximateReceiveCount": "1",
        "MessageGroupId": "g",
        "MessageDeduplicationId": f"evt:{id}",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:1:live.fifo",
    }
    return {"MessageId": id, "ReceiptHandle": f"r-{id}", "Body": id, "Attributes": system}


async def test_interrupted_redrive_sends_again_with_the_same_id() -> None:
    sent = []
    for _ in range(2):
        # The second answer to a delete never arrives, as if the process had been killed there.
        client = FakeClient(
            {"Messages": [_dead_letter("m1")]}, successful(0), *[client_error("AccessDenied", 403)]
        )
        with pytest.raises(AccessRefused):
            await run(client, Redrive("dead.fifo", "live.fifo"))
        sent.append(client.requests[1])

    assert sent[0] == sent[1]
    (entry,) = sent[0][1]["Entries"]
    assert entry["MessageDeduplicationId"] == "redrive-m1"
    assert entry["MessageAttributes"]["holdfast.deduplication"]["StringValue"] == "evt:m1"


async def test_redrive_deletes_sent_messages_and_releases_the_rest() -> None:
    failed = [{"Id": "0", "Code": "InternalError", "SenderFault": False}]
    client = FakeClient(
        {"Messages": [_dead_letter("m1"), _dead_letter("m2")]},
        {**successful(1), "Failed": failed},
        {"Successful": []},
        {},
    )

    with pytest.raises(SendIncomplete):
        await run(client, Redrive("dead.fifo", "live.fifo"))
    _, _, (deleting, deleted), (giving, given) = client.requests
    assert (deleting, giving) == ("delete_message_batch", "change_message_visibility_batch")
    assert [each["ReceiptHandle"] for each in deleted["Entries"]] == ["r-m2"]
    assert [(each["ReceiptHandle"], each["VisibilityTimeout"]) for each in given["Entries"]] == [("r-m1", 0)]


async def test_dead_letter_names_its_source_queue() -> None:
    (received,) = await run(FakeClient({"Messages": [_dead_letter("m1")]}), ReceiveMessages("dead.fifo"))

    assert received.died_in == "live.fifo"


@all_cases("code", [*CODES, "AWS.SimpleQueueService.NonExistentQueue"])
def test_maps_every_service_code_and_keeps_it(code: str) -> None:
    error = map_error_code(code, "text")

    assert type(error) not in (HoldfastError, errors.RequestRefused)
    assert (error.code, error.message) == (code.removeprefix("AWS.SimpleQueueService."), "text")


@all_cases(
    ("code", "status", "kind"),
    [
        ("Surprise", 400, errors.RequestRefused),
        ("Surprise", 503, StoreFailed),
        ("KmsAccessDenied", 400, AccessRefused),
    ],
)
def test_keeps_the_code_and_sentence_of_any_other_refusal(
    code: str, status: int, kind: type[HoldfastError]
) -> None:
    error = map_error(client_error(code, status), "SendMessage", URL).error

    assert (type(error), error.code, "told so" in error.message) == (kind, code, True)


async def test_unknown_outcome_keeps_the_code_and_sentence_of_the_failure() -> None:
    with pytest.raises(OutcomeUnknown, match="told so") as raised:
        await run(FakeClient(FAILED), SendMessages("q", (OutgoingMessage(body="x"),)))

    assert raised.value.code == "InternalFailure"


@all_cases(
    ("cause", "kind", "certainty"),
    [
        (TIMED_OUT, StoreUnreachable, "doubtful"),
        (REFUSED, StoreUnreachable, "undone"),
        (sdk.ConnectTimeoutError(endpoint_url=URL), StoreUnreachable, "undone"),
        (sdk.HTTPClientError(error="x"), StoreFailed, "doubtful"),
        (sdk.NoCredentialsError(), SettingsError, "final"),
        (sdk.ParamValidationError(report="x"), InvalidRequest, "final"),
        (client_error("InvalidClientTokenId", 403), AccessRefused, "final"),
        (client_error("Strange", 418), errors.RequestRefused, "final"),
        (client_error("Strange", 503), StoreFailed, "doubtful"),
        (client_error("QueueDeletedRecently"), errors.RetryLater, "final"),
    ],
)
def test_maps_every_client_failure(cause: Exception, kind: type[HoldfastError], certainty: str) -> None:
    failure = map_error(cause, "SendMessageBatch", "there")

    assert isinstance(failure.error, kind)
    assert failure.kind == certainty


async def test_closed_queues_refuse_operations() -> None:
    queues = engine(FakeClient())
    queues.close()

    with pytest.raises(StoreClosed):
        await queues.run(ReceiveMessages("q"))


def test_rejects_an_invalid_address() -> None:
    with pytest.raises(SettingsError):
        open_sqs("sqs+http://")


async def test_reports_an_unreachable_endpoint() -> None:
    queues = open_sqs("sqs+http://127.0.0.1:9", backoff=Backoff(max_attempts=1))

    with pytest.raises(StoreUnreachable):
        await queues.run(ReceiveMessages("q"))
    queues.close()
