"""Removal of the parts of a letter that are no request: the greeting, the closing with its signature.

Names of people in them are often names of cities: "Hi Jordan, …", "Thanks, Paris Whitfield".
"""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"[^\W\d_][\w.'’-]*"
_NOT_A_NAME: Final = (
    r"(?:to|from|in|on|for|by|at|is|are|am|and|or|the|a|my|i|i'm|i'd|we|can|could|would|please|need|book|"
    r"fly|get|"
    r"flight|flights|back|return|returning|one|next|this|tomorrow|today|via|with|not|no|"
    r"mon|tue|wed|thu|fri|sat|sun|\w+day|morning|afternoon|evening)"
)
_NAMES: Final = rf"(?:(?!{_NOT_A_NAME}\b){_NAME}\s*(?:,(?=\s*{_NAME}\s*$))?\s*){{0,4}}"
_GREETING: Final = re.compile(
    r"^\W*(?:hi|hello|hey|hiya|howdy|dear|good\s+(?:morning|afternoon|evening|day)|morning|afternoon|evening|"
    r"greetings|hallo|ciao|hola|namaste|yo)\b"
    rf"(?:\s+(?:there|all|team|everyone|both|again|{_NAMES}))?\s*(?:[,!:.–—\n]+|\s-+\s|-{{2,}})\s*",
    re.IGNORECASE,
)
# Without a comma, a word that begins a request ends the greeting.
_SHORT_GREETING: Final = re.compile(
    rf"^\W*(?:hi|hello|hey|dear)\s+(?!{_NOT_A_NAME}\b){_NAME}\s+"
    r"(?=(?:can|could|would|will|please|pls|i|i'd|i'm|i’d|i’m|we|need|kindly|may|book|help|just|is)\b)",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"(?:^|[\s,.!?;)–—-])(?:(?:many |with |my )?(?:thanks|thank you|thx|tnx|cheers|ta|obrigad[oa]|gracias|"
    r"merci|"
    r"danke|grazie|asante|tack|arigato|dank[ue]?)(?: (?:so much|very much|a (?:lot|million|bunch|ton)|again|"
    r"in advance|indeed|kindly|muchly|for (?:your|the|any) help|for (?:your |the )?assistance|"
    r"and (?:best|kind)? ?regards|team|all|guys|both))*|"
    r"(?:(?:best|kind|kindest|warm|warmest|many|with|my) )*(?:regards|wishes|rgds)|rgds|sincerely(?: yours)?|"
    r"yours(?: (?:sincerely|faithfully|truly))?|best(?=\s*[,\n])|respectfully|br(?=\s*[,\n])|vg|mfg)"
    r"\s*(?P<end>[,.!\n–—-]+|\s|$)\s*(?P<tail>[^?]*)$",
    re.IGNORECASE,
)
# Words that a signature does not have: the rest is still a part of the request.
_REQUEST_WORDS: Final = re.compile(
    r"\b(?:to|from|back|return(?:ing)?|flights?|fly|flying|book|need|want|leav(?:e|ing)|depart\w*|"
    r"arriv\w*|one[ -]way|nights?|class|economy|please|i|i'll|i'd|it's|if|budget|max|prefer\w*|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|today|"
    r"jan(?:uary)?|feb(?:ruary)?|apr(?:il)?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|"
    r"dec(?:ember)?)\b|->|→|[$€£]",
    re.IGNORECASE,
)
_MAX_SIGNATURE_WORDS: Final = 16
_DEVICE: Final = re.compile(r"\s*\bsent from my [\w ]{2,30}\.?\s*$", re.IGNORECASE)
# "… on Friday. - Jordan": a name after a dash at the end.
_DASHED_NAME: Final = re.compile(rf"(?<=[.!?\n])\s*[-–—~/]+ ?{_NAME}(?: {_NAME})?\.?\s*$")


def remove_letter_parts(text: str) -> str:
    """Return the text without a greeting at its start and a closing with a signature at its end."""
    rest = _DASHED_NAME.sub("", _DEVICE.sub("", text))
    rest = _SHORT_GREETING.sub("", _GREETING.sub("", rest, count=1), count=1)
    for match in _CLOSING.finditer(rest):
        tail = match["tail"]
        if len(tail.split()) <= _MAX_SIGNATURE_WORDS and not _REQUEST_WORDS.search(tail):
            rest = rest[: match.start()]
            break
    # A text that is nothing but a greeting or a closing stays as it is.
    return rest if rest.strip() else text
