"""The answer to a sentence as clients get it, over HTTP and the WebSocket."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tripcortex.api.sentence_answers import SentenceAnswer
from tripcortex.domain.intents import Intent
from tripcortex.model.entities import Citation


class AnswerPassage(BaseModel):
    """A passage of a policy, with its citation."""

    text: str
    similarity: float
    citation: Citation


class AnswerView(BaseModel):
    """The answer to a sentence that does not ask for a new flight. Nothing was booked."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    intent: Intent
    text: str
    question: str | None = Field(
        default=None, description="A question: send the sentence again with `answer`, such as yes or no."
    )
    booking_ids: list[str] = Field(default=[], description="The bookings that the answer is about.")
    passages: list[AnswerPassage] = Field(default=[], description="The quoted passages of the policies.")


def build_answer_view(answer: SentenceAnswer) -> AnswerView:
    """Return the view of an answer."""
    return AnswerView(
        intent=answer.intent,
        text=answer.text,
        question=answer.question,
        booking_ids=[each.booking_id for each in answer.bookings],
        passages=[
            AnswerPassage(text=each.content_text, similarity=each.similarity, citation=each.citation())
            for each in answer.passages
        ],
    )
