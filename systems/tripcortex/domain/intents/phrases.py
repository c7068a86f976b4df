"""Parts that the patterns of several intents share.

All patterns apply to one clause of a normalized text (`planner.text_normalization`): lower case, without
accents and apostrophes, commas as separate tokens. Each group is a tuple of patterns; one match is enough.
"""

from __future__ import annotations

import re
from typing import Final

Patterns = tuple[re.Pattern[str], ...]


def compile_all(*patterns: str) -> Patterns:
    """Compile the patterns of one group."""
    return tuple(re.compile(each) for each in patterns)


NOUN: Final = (
    r"(?:flights?|tickets?|tix|trips?|bookings?|reservations?|itinerar(?:y|ies)|journeys?|connections?|"
    r"pnrs?|"
    r"e-?tickets?|leg|outbound|inbound|return|seats?|travel(?: plans)?|fare|upgrade|cancellation|request|"
    r"layovers?|stopovers?)"
)
DAY: Final = (
    r"(?:tomorrow|today|tonight|monday|tuesday|wednesday|thursday|friday|saturday|sunday|next week|this "
    r"week)"
)
NOT_TRAVEL: Final = (
    r"(?:own\b|teams?\b|boss|manager|rules?\b|polic|company|preferred|limits?\b|meeting|guideline|allowance|"
    r"rate\b|wife|husband|"
    r"partner|spouse|colleague|name\b|an?\b|business trips?)"
)
# Before a verb that asks the assistant to do something.
LEAD: Final = (
    r"(?:^|[,|:-] ?|\b(?:please|pls|plz|kindly|can you|could you|would you|can u|will you|so|and|but|then|"
    r"just|lets|"
    r"go ahead and|(?:need|want|like|wish|have|had|must|ought|love|going|wanna|gotta|hoping|trying|"
    r"require) to|i must|"
    r"i should|i wanna|i gotta|(?:want|need|like|ask|asking) you to|help me|mind|hi|hello|hey|actually|"
    r"anyway|"
    r"possible to|able to|best|better|instead|ok|okay|yes|no|sorry|well|also|now|again|me|us|thanks|guys|"
    r"team|there) )"
    r"(?:please |pls |kindly |just |also |quickly |you |to |help (?:me )?|go ahead and |now |simply |"
    r"instead |me |already )*"
)
# Also "can I …": the employee asks for a change of what exists.
LEAD_OR_ASK: Final = (
    rf"(?:{LEAD}|\b(?:(?:can|could|may) (?:i|we)|(?:how|where) (?:do|can|could) (?:i|we)) (?:please |"
    rf"still |just )*)"
)
NEW: Final = (
    r"cheap(?:est)?|best|earliest|latest|next|direct|new|first|last|nonstop|quickest|fastest|good|suitable|"
    r"possible|"
    r"available|lowest|early|late|hotel|another|a|an|any|some"
)
