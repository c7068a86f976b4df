"""The quality of automated replies as people and programs see it, and the operator's commands for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel

from holdfast import Stores
from richpanel.domain.reply_quality import find_stopped_intents
from richpanel.model.entities import ReplyQuality
from richpanel.settings import RichpanelSettings
from richpanel.workers.reply_quality import list_reply_quality, resume_replies


class IntentQuality(BaseModel):
    """The automated replies to an intent since they were last resumed. `stopped` is the reason, or None."""

    intent: str
    replies: int
    written_again: int
    corrected: int
    stopped: str | None
    resumed_by: str


async def list_intent_quality(stores: Stores) -> list[IntentQuality]:
    """Return the quality of each intent that had replies."""
    return [to_intent_quality(row) for row in await list_reply_quality(stores)]


def to_intent_quality(row: ReplyQuality) -> IntentQuality:
    """Return counts as they are shown."""
    return IntentQuality(
        intent=row.intent,
        replies=row.replies,
        written_again=row.written_again,
        corrected=row.corrected,
        stopped=find_stopped_intents([row], RichpanelSettings.load()).get(row.intent),
        resumed_by=row.resumed_by,
    )


async def quality_list(stores: Stores) -> Any:
    """List how often customers wrote again, or people corrected, after automated replies."""
    return await list_intent_quality(stores)


async def quality_resume(
    stores: Stores,
    intent: Annotated[str, "The intent whose replies have stopped"],
    by: Annotated[str, "Your name"],
) -> Any:
    """Resume the automated replies to an intent, and count from zero."""
    return to_intent_quality(await resume_replies(stores, intent, by))


COMMANDS: Final[Mapping[str, Callable[..., Awaitable[Any]]]] = {
    "quality list": quality_list,
    "quality resume": quality_resume,
}
