"""What an agent reads when a call fails, and what goes to the operator's log.

An error that the agent can act on keeps its own message: a wrong argument, an unknown id, a condition that
did not hold. Any other message is for the operator, and may name files, addresses and settings: it goes to
the log, under the correlation id that the agent gets. Over standard input and output the agent's user is the
operator, so that such a message is shown there too, unless it may quote stored data. The message of an
unexpected error may quote anything: it is neither shown nor logged, only its class and place.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.core import errors
from holdfast.core.correlation import get_correlation_id
from holdfast.core.error_audience import is_for_caller
from holdfast.core.errors import HoldfastError, error_label, format_message

log = logging.getLogger(__name__)

# The default where an error does not say how long to wait.
RETRY_AFTER_S: Final = 1
# They name a key or a reason from the data.
_QUOTES_DATA: Final = (errors.ItemUnreadable, errors.MessageUnreadable, errors.ObjectDamaged)


class CallTimedOut(Exception):
    """A call took too long and was cancelled."""


class Failure(NamedTuple):
    """A failed call as the agent sees it: a text that says what to do, and the label of the error."""

    text: str
    label: str


def describe_failure(tool: str, error: Exception, *, is_local: bool) -> Failure:
    """Return what the agent reads of an error, and log what it does not.

    `is_local`: the agent's user is the operator.
    """
    if isinstance(error, CallTimedOut):
        log.warning("The tool %s was stopped: it took too long", tool)
        return Failure(f"{tool} took too long and was stopped. Ask for less, or retry later.", "CallTimedOut")
    found = _list_errors(error)
    ours = [each for each in found if isinstance(each, HoldfastError)]
    if len(ours) < len(found):
        places = "".join(traceback.format_tb(error.__traceback__)).rstrip()
        log.error("The tool %s failed: %s\n%s", tool, ", ".join(map(error_label, found)), places)
        return Failure(f"{tool} failed unexpectedly. {_refer_to_log()}", error_label(found[0]))
    for each in ours:
        _log_hidden(tool, each)
    texts = dict.fromkeys(_describe(tool, each, is_local=is_local) for each in ours)
    return Failure(" ".join(texts), error_label(ours[0]))


def _describe(tool: str, error: HoldfastError, *, is_local: bool) -> str:
    """Return one error as a sentence for the agent."""
    message = " ".join(format_message(error).split())
    if is_for_caller(error):
        return message
    reason = f" The reason: {message}" if is_local and not isinstance(error, _QUOTES_DATA) else ""
    if isinstance(error, errors.OutcomeUnknown):
        return (
            f"The outcome of {tool} is unknown: it may be done. Read the data before you repeat it.{reason}"
        )
    if isinstance(error, errors.StatementTimedOut):
        return f"{tool} took too long and was stopped. Ask for less, or retry later.{reason}"
    if isinstance(error, errors.RetryLater):
        return f"{tool} cannot reach what it needs now. Retry in {_get_pause(error)}.{reason}"
    if isinstance(error, errors.InternalError):
        return f"{tool} failed because of a bug. {_refer_to_log()}"
    return f"{tool} is not set up correctly. {_refer_to_log()}{reason}"


def _get_pause(error: errors.RetryLater) -> str:
    seconds = (
        RETRY_AFTER_S if error.retry_after_s is None else max(RETRY_AFTER_S, math.ceil(error.retry_after_s))
    )
    return "a second" if seconds == 1 else f"{seconds} seconds"


def _refer_to_log() -> str:
    """Return the sentence that says where the operator finds the reason."""
    return f"Report it to the operator: the log has the reason under {get_correlation_id()}."


def _log_hidden(tool: str, error: HoldfastError) -> None:
    """Log an error that is for the operator: a temporary one as a warning, a bug with its traceback."""
    if is_for_caller(error):
        return
    level = logging.WARNING if isinstance(error, errors.RetryLater) else logging.ERROR
    trace = error if isinstance(error, errors.InternalError) else None
    log.log(level, "The tool %s: %s: %s", tool, error_label(error), format_message(error), exc_info=trace)


def _list_errors(error: Exception) -> Sequence[Exception]:
    """Return the errors of concurrent operations, or the error itself."""
    return list(_iterate_leaves(error)) if isinstance(error, ExceptionGroup) else [error]


def _iterate_leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group and of the groups inside it."""
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _iterate_leaves(each)
        else:
            yield each
