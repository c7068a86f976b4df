"""Mentions of places in a sentence: the longest name at each spot, a code, or a word that must be a place and is not known.

A place is never taken for certain that was not named: what may be a typo, a state or an unknown name stays a mention that
says so, and `deciding` asks. `places` gives mentions their roles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tripcortex.planning import gazetteer
from tripcortex.planning.gazetteer import CODE_LETTERS, NAME_WORDS_MAX, Place, Region

HOME: Final = Place("home", "", "", ())


@dataclass(frozen=True)
class Mention:
    """A place as it was said. Several `places` are a question; none is one as well."""

    words: str
    places: tuple[Place, ...]
    start: int = 0
    end: int = 0
    role: str | None = None
    # Read in spite of a typo.
    is_near: bool = False
    # A state or a country, where a city is needed.
    regions: tuple[Region, ...] = ()

    @property
    def airports(self) -> frozenset[str]:
        return frozenset(code for each in self.places for code in each.airports)


# Names of cities and codes of airports that are words as well: places only right after a word that leads to one.
_WORDS: Final = frozenset(
    "nice mobile split male cork bari victoria georgetown regina leon midland la kl dc kennedy hobby logan bush reagan "
    "pearson midway faro bergamo augusta salvador darwin".split()
)
_NO_CODES: Final = frozenset(
    "the and for see get fly buy can may any all one two our out set put let has had his her its you are was ask bed big bus "
    "but day did due end far few fit fun gym had how job key law lot low man map mad met new not now off old own pay per pin "
    "pop red run sat sun mon tue wed thu fri say sea she sit six sky son tax ten top try use via war way who why win yes yet "
    "jan feb mar apr jun jul aug sep oct nov dec ham bud dub pit fat lit pie rap cow ant bar bag car cut dad mum mom den del "
    "min max per los las san rio add age ago aid air bad bet bit box boy eat ear egg eye fan fee gap gas god guy hat hit hot "
    "ice ill kid leg lie lip log mix mud net nor nut odd oil pan pet pot raw rid row sad saw sex ski tea tie tip toe too toy "
    "van vet via wet win won work pal cat dog ceo usd eur biz hub hey him ist cab mid pre".split()
)
# After these a code may be one of the words above, if airlines serve it: "to SEA".
_LEADING: Final = frozenset("to from into via destination origin - /".split())
# What follows "to" and "from" without being a place, nor the code of one.
_VERBS: Final = frozenset(
    "fly go get book travel be visit attend see meet have leave return returning come arrive depart reserve find make take "
    "plan arrange stay work the a an my our his her their this that your do give give present speak talk help know ask buy "
    "and then me you it them there here everyone arrange schedule catch reach join discuss check show tell say keep save use "
    "spend pay try look start begin end finish celebrate relax watch learn train set print approve skip ignore "
    "can may any all for one economy business first which where when by no more than avoid prefer".split()
)
_UNKNOWN_WORDS_MAX: Final = 3
# Where so many words name no place, more of them will not either.
_STRAY_WORDS_MAX: Final = 40
_GO: Final = frozenset("fly go get travel flight me head flying heading".split())
LEADS_TO: Final = frozenset("to into visit visiting towards toward destination reach".split())
LEADS_FROM: Final = frozenset("from leaving departing origin".split())
LEADS_WEAKLY: Final = frozenset("in at near around".split())
FILL: Final = frozenset("the downtown city airport sunny beautiful greater".split())
_BREAKS: Final = frozenset(", | / - on at for in to from with and or by via".split())


def mentions_in(tokens: list[str], *, is_answer: bool) -> list[Mention]:
    found: list[Mention] = []
    at = 0
    while at < len(tokens):
        mention = _exact(tokens, at, is_answer=is_answer) or _slot(tokens, at)
        if mention is None:
            at += 1
        else:
            found.append(mention)
            at = mention.end
    if not found:
        found = _stray(tokens)
    return found


def _exact(tokens: list[str], at: int, *, is_answer: bool) -> Mention | None:
    """The longest name that begins here; then a code."""
    is_led = _is_led(tokens, at) or is_answer
    if tokens[at] == "home" and at and tokens[at - 1] in _GO:
        return Mention("home", (HOME,), at, at + 1, role="to")
    for name, end in _phrases(tokens, at):
        if name.endswith(" state") and (named := gazetteer.regions(name.removesuffix(" state"))):
            return Mention(name, (), at, end, regions=named)
        places = gazetteer.cities(name)
        one = gazetteer.airport_named(name)
        is_word = name in _NO_CODES and not (
            _is_code_spot(tokens, at, end) or (is_answer and len(tokens) == 1)
        )
        if (places or one) and not is_word and (name not in _WORDS or is_led):
            return _qualified(tokens, Mention(name, places or ((one,) if one else ()), at, end))
    return _code(tokens, at, is_led=is_led)


def _phrases(tokens: list[str], at: int) -> list[tuple[str, int]]:
    """Runs of words that begin here, the longest first; a hyphen may join them."""
    found: list[tuple[str, int]] = []
    words: list[str] = []
    end = at
    while end < len(tokens) and len(words) < NAME_WORDS_MAX:
        if tokens[end].isalnum():
            words.append(tokens[end])
            found.append((" ".join(words), end + 1))
        elif tokens[end] != "-" or not words:
            break
        end += 1
    return found[::-1]


def _qualified(tokens: list[str], mention: Mention) -> Mention:
    """With the state or country that stands behind a city, if it fits; if it fits none, no city of ours is meant."""
    at = mention.end + (tokens[mention.end : mention.end + 1] in ([","], ["-"]))
    for name, end in _phrases(tokens, at):
        one = gazetteer.airport_named(name)
        if one and one.airports[0] in mention.airports:
            return replace(mention, words=f"{mention.words} {name}", places=(one,), end=end)
        named = gazetteer.regions(name)
        if not named or (len(name) == 2 and not _ends_at(tokens, end)):
            continue
        fitting = gazetteer.meant(mention.places, named)
        if fitting:
            return replace(mention, words=f"{mention.words}, {name}", places=fitting, end=end)
        if len(name) > 2 and not gazetteer.cities(name):
            fields = gazetteer.meant(gazetteer.airfields(mention.words), named)
            return Mention(f"{mention.words}, {name}", in_doubt(fields), mention.start, end)
    return replace(mention, places=gazetteer.meant(mention.places))


def _ends_at(tokens: list[str], end: int) -> bool:
    """Nothing but a new thought follows: "Portland OR |", not "Portland or Seattle"."""
    return end >= len(tokens) or tokens[end] in _BREAKS or tokens[end].startswith("@")


def in_doubt(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """What only the large table knows is asked about, even where it is one."""
    return (*places, *places[:1]) if places else ()


def _code(tokens: list[str], at: int, *, is_led: bool) -> Mention | None:
    code = tokens[at]
    if len(code) != CODE_LETTERS or not code.isalpha() or code in _VERBS:
        return None
    before = tokens[at - 1] if at else ""
    is_word = code in _NO_CODES
    if gazetteer.is_served(code):
        takes = not is_word or _is_code_spot(tokens, at, at + 1) or (is_led and len(tokens) == 1)
    else:
        # "A flight for Bob" is not one to Bora Bora.
        takes = is_led and before != "for" and not is_word and not gazetteer.cities(code)
    one = gazetteer.airport(code) if takes else None
    return Mention(code.upper(), (one,), at, at + 1) if one else None


def _is_code_spot(tokens: list[str], at: int, end: int) -> bool:
    """Where a word such as "sea" or "was" is a code: "to SEA", and "WAS to Denver" as the first words."""
    if at:
        return tokens[at - 1] in _LEADING and _ends_at(tokens, end)
    joint, following = tokens[end : end + 1], tokens[end + 1 : end + 2]
    is_place = any(gazetteer.cities(each) or gazetteer.is_served(each) for each in following)
    return joint in (["to"], ["-"], ["/"]) and is_place


def _is_led(tokens: list[str], at: int) -> bool:
    while at and tokens[at - 1] in FILL:
        at -= 1
    before = tokens[at - 1] if at else ""
    return before in LEADS_TO | LEADS_FROM | LEADS_WEAKLY | {"-", "/", "for", "via"}


def _slot(tokens: list[str], at: int) -> Mention | None:
    """Something that must be a place by what leads to it, though none of this name is known."""
    before = tokens[at - 1] if at else ""
    if before not in LEADS_TO | LEADS_FROM | LEADS_WEAKLY or not tokens[at].isalpha():
        return None
    if tokens[at] in _VERBS | FILL | _BREAKS:
        return None
    phrases = _phrases(tokens, at)
    for name, end in phrases:
        if named := gazetteer.regions(name):
            return Mention(name, (), at, end, regions=named)
        if fields := gazetteer.airfields(name):
            return None if before in LEADS_WEAKLY else Mention(name, in_doubt(fields), at, end)
        near, is_plain = gazetteer.near(name)
        if near:
            return Mention(name, near if is_plain else in_doubt(near), at, end, is_near=True)
    if before in LEADS_WEAKLY:
        return None
    if tokens[at] == "home":
        return Mention("home", (HOME,), at, at + 1)
    return _unknown(tokens, at)


def _unknown(tokens: list[str], at: int) -> Mention:
    end = at + 1
    while (
        end < min(len(tokens), at + _UNKNOWN_WORDS_MAX)
        and tokens[end].isalpha()
        and tokens[end] not in _BREAKS | _VERBS
    ):
        end += 1
    return Mention(" ".join(tokens[at:end]), (), at, end)


def _stray(tokens: list[str]) -> list[Mention]:
    """No place at all: a word that is nearly a city's name is worth a question."""
    for at, token in enumerate(tokens[:_STRAY_WORDS_MAX]):
        for name, end in _phrases(tokens, at):
            near, _ = gazetteer.near(name)
            if near and token not in _VERBS:
                return [Mention(name, in_doubt(near), at, end)]
    return []


def merged(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """One place, the airport: "London Heathrow", "Chicago (ORD)", "JFK in New York"."""
    done: list[Mention] = []
    for mention in mentions:
        last = done[-1] if done else None
        between = set(tokens[last.end : mention.start]) if last else set()
        if last and between <= {"|", ",", "in", "-"} and last.airports & mention.airports:
            inner = min((last, mention), key=lambda each: len(each.airports))
            if inner.airports <= last.airports | mention.airports and len(inner.airports) == 1:
                done[-1] = replace(inner, start=last.start, end=mention.end)
                continue
        done.append(mention)
    return done
