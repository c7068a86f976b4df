"""The words that a permission may consist of. Any other word may be a condition that was not understood."""

from __future__ import annotations

import re
from typing import Final

from tripcortex.domain.policy_rules.extraction.level_scopes import find_level_spans
from tripcortex.domain.policy_rules.extraction.route_scopes import strip_examples
from tripcortex.domain.policy_rules.extraction.vocabulary import Vocabulary
from tripcortex.domain.policy_rules.extraction.wording import HOURS, find_range
from tripcortex.domain.policy_rules.regions import find_places

_PLAIN: Final = frozenset(
    """
    a an the this that these those it its they their them you your we our us i one ones each every all
    any both either and or but also as at by for from in into of on onto per than then to until up upon
    with within without via through is are be been being was were has have had do does did will shall
    may can could should would must might not no nor only just always ok okay fine yes if when where
    whenever wherever which who whose whom what while whether over under above below more less longer
    shorter least most exceed exceeds exceeding exceeded greater higher lower between maximum minimum
    max min beyond past flight flights flying fly flown flies sector sectors leg legs segment segments
    journey journeys trip trips travel travels travelling traveling itinerary itineraries route routes
    nonstop non-stop direct single longest scheduled actual duration durations time times block hour
    hours hrs long short haul long-haul short-haul medium-haul mid-haul ultra-long-haul medium length
    takes take taking lasts last lasting airborne air international domestic intercontinental
    transatlantic transpacific transcontinental regional overseas abroad continental outside inside
    intra country countries destination destinations region area place class classes cabin cabins seat
    seats ticket tickets fare fares service services standard default entitlement entitled entitle
    eligible available allowed allow allows permitted permit permits permissible authorized authorised
    approved acceptable book books booked booking bookings purchase purchased buy bought reserve
    reserved use used choose chosen sit option options optional considered consider upgraded normal
    normally general generally employee employees staff traveller travellers traveler travelers
    passenger passengers person people everyone everybody anyone colleague colleagues member members
    associate associates worker workers team company company's level levels grade grades band bands rank
    ranks title titles group groups position positions senior junior role roles asking ask approval
    approvals permission needed need needs required require requires further additional prior no-one
    still provided providing cap caps ceiling ceilings limit limits applicable budget same regardless
    irrespective free freely automatic automatically first way ways direction directions return round
    one-way round-trip onward outbound inbound total exactly including include includes included e.g i.e
    such example case cases instead here there so ordinary add adds added increase increased increases
    raise raised table meaning real pre-approved signed sign off approve end ends advance writing
    written before beforehand departure departures discretion sanction granted obtain obtained requests
    inclusive leave leaves possible separate proper consent sign-off group's hands crew themselves
    principle basically authorisation authorization agreement apart miles kilometres kilometers km
    straight-line airport airports category categories tier tiers zone rule issued travelled either's
    leaving journey's whatever distance distances elapsed nonetheless likewise already wish wishes like
    apply applies applied usual rather even too
    """.split()
)  # fmt: skip
# What stands in parentheses explains, unless it is a condition.
_ASIDE: Final = re.compile(
    r"\((?![^)]*\b(?:if|only|except|unless|when|where|provided|subject|with|not|for|other|excluding"
    r"|limited)\b)[^)]*\)",
    re.IGNORECASE,
)
_DATES: Final = re.compile(
    r"\b\d{1,2}(?:st|nd|rd|th)?(?= (?:to|and|-|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec))"
    r"|\b(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*\b"
    r"|\b(?:Saturday|Sunday|weekend)s?\b"
)
_TOKEN: Final = re.compile(r"[^\W\d_][\w'.-]*")


def find_odd_words(text: str, vocabulary: Vocabulary) -> str:
    """Return the first words of a permission that are not plain, or an empty text.

    Cabins, places, levels, amounts and the document's own terms are plain; examples in parentheses do not
    count.
    """
    text = _ASIDE.sub(" ", strip_examples(text))
    spans = [(place.start, place.end) for place in find_places(text)] + find_level_spans(text, vocabulary)
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    text = re.sub(r"@[EPBF]", " ", text)
    for term in sorted(vocabulary.terms, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(term)}s?\b", " ", text, flags=re.IGNORECASE)
    for unit in (HOURS, r" (?:statute |air )?miles?\b", r" (?:km|kilomet(?:er|re)s?)\b"):
        if found := find_range(text, unit):
            text = f"{text[: found[1]]} {text[found[2] :]}"
    text = _DATES.sub(" ", text)
    if number := re.search(r"\S*\d\S*", text):
        return number[0]
    odd = [word for word in _TOKEN.findall(text) if word.casefold().strip(".'-") not in _PLAIN]
    return " ".join(odd[:4])
