"""Finds mentions of places in a sentence: known names, codes, and unknown words that must be places.

At each position the longest known name wins. The parser never takes a place for certain that the employee did
not name: a possible typo, a state or an unknown name becomes a mention that says so, and `decision` asks
about it. `trip_places` gives mentions their roles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tripcortex.domain.planner import gazetteer
from tripcortex.domain.planner.gazetteer import CODE_LETTERS, MAX_NAME_WORDS, GazetteerPlace, Region
from tripcortex.domain.planner.unused_words import KNOWN_WORDS

HOME: Final = GazetteerPlace("home", "", "", ())


@dataclass(frozen=True)
class Mention:
    """A place as the employee wrote it, at tokens `start` to `end`.

    Several `places`, or none, lead to a question.
    """

    words: str
    places: tuple[GazetteerPlace, ...]
    start: int = 0
    end: int = 0
    role: str | None = None
    # The name was matched despite a typo.
    has_typo: bool = False
    # The states or countries that were named instead of a city.
    regions: tuple[Region, ...] = ()

    @property
    def is_code(self) -> bool:
        """Return True if the mention is the code of an airport."""
        return len(self.words) == CODE_LETTERS and self.words.upper() in self.airports

    @property
    def airports(self) -> frozenset[str]:
        """Return the codes of all airports of all possible places."""
        return frozenset(code for each in self.places for code in each.airports)


# Names of cities and codes of airports that are also words: places only directly after a word that leads to a
# place.
_AMBIGUOUS_NAMES: Final = frozenset(
    "nice mobile split male cork bari victoria georgetown regina leon midland la kl dc kennedy hobby logan "
    "bush reagan "
    "clark kerry knock reunion liberia tyler monroe helena natal windsor hamilton jersey surat pau nis "
    "brest lens kos "
    "redmond eureka freeport medford concepcion vitoria bloomington "
    "pearson midway faro bergamo augusta salvador darwin "
    # Smaller cities.
    "page eagle david nelson newman emerald trinidad lancaster jamestown erie naga coron gan coca bethel "
    "hobbs provo quincy prescott sheridan pierre meridian kearney cody butte gillette dickinson hayden "
    "huntington brunswick beaumont waterloo salisbury trenton lebanon pori barra sal samos chios levi "
    "castro agra van vail sitka nome redding stockton roswell leon formosa armenia esperance blenheim "
    "napier exmouth gladstone palmas manta osh salina longview lawton lynchburg george hancock williston "
    "islay donegal orange aral arar taba hail dali samoa tonga grenada oral levi tampico alta aksu".split()
)
_AMBIGUOUS_CODES: Final = frozenset(
    "the and for see get fly buy can may any all one two our out set put let has had his her its you are "
    "was ask bed big bus but day did due end far few fit fun gym had how job key law lot low man map mad "
    "met new not now off old own pay per pin pop red run sat sun mon tue wed thu fri say sea she sit six "
    "sky son tax ten top try use via war way who why win yes yet jan feb mar apr jun jul aug sep oct nov "
    "dec ham bud dub pit fat lit pie rap cow ant bar bag car cut dad mum mom den del min max per los las "
    "san rio add age ago aid air bad bet bit box boy eat ear egg eye fan fee gap gas god guy hat hit hot "
    "ice ill kid leg lie lip log mix mud net nor nut odd oil pan pet pot raw rid row sad saw sex ski tea "
    "tie tip toe too toy ace act lan mar bel nat cur coo rob bil ama ida lop dud asp mah pad bes deb lil "
    "mst cay aga kan kos lei ros bis tao rao cag nan jer bia rho tlc sez lot pac cun ten hot got cos beg "
    "bod bio cia cha dal ein gig han inn lap led lex mel mem oak pen pos rec sal str sub tun bon cor van "
    "vet via wet win won work pal cat dog ceo usd eur biz hub hey him ist cab mid pre".split()
)
# After these a word above is a code if airlines serve the airport: "to SEA".
_CODE_LEADS: Final = frozenset("to from into via destination origin - /".split())
# Words after "to" and "from" that are neither a place nor a code.
_NOT_PLACES: Final = frozenset(
    "fly go get book travel be visit attend see meet have leave return returning come arrive depart "
    "reserve find make take plan arrange stay work the a an my our his her their this that your do give "
    "give present speak talk help know ask buy and then me you it them there here everyone arrange "
    "schedule catch reach join discuss check show tell land between connect lecture teach host lead "
    "support pitch sell sign close open move run set deliver pick drop stop transfer return fit match "
    "cover handle prepare install repair inspect audit review kick off celebrate bring carry put call "
    "email write read think sleep eat drink rest wait follow lunch dinner breakfast work make us "
    "interview negotiate pass spend fill get back be sure confirm allow enable ensure include add change "
    "say keep save use spend pay try look start begin end finish celebrate relax watch learn train set "
    "print approve skip ignore finance hr legal sales marketing engineering procurement operations "
    "accounting compliance payroll support scratch there where experience memory me us them him her now "
    "then tomorrow today next this that what last can may any all for one economy business first which "
    "where when by no more than avoid prefer".split()
)
_MAX_UNKNOWN_WORDS: Final = 3
# Bounds the search for a name with a typo in a text without places.
_MAX_STRAY_WORDS: Final = 40
_CERTAIN_STRAY_LETTERS: Final = 6
_TRAVEL_VERBS: Final = frozenset("fly go get travel flight me head flying heading".split())
LEADS_TO: Final = frozenset("to into visit visiting towards toward destination reach arrive arriving".split())
LEADS_FROM: Final = frozenset("from leaving departing origin".split())
LEADS_WEAKLY: Final = frozenset("in at near around".split())
FILLERS: Final = frozenset("either the downtown city airport sunny beautiful greater".split())
_BREAKS: Final = frozenset(", | / - on at for in to from with and or by via".split())


def find_mentions(tokens: list[str], *, is_answer: bool) -> list[Mention]:
    """Return the mentions of places in their order.

    With `is_answer`, the text answers a question about a place: a single word may be one without a leading
    word.
    """
    found: list[Mention] = []
    at = 0
    while at < len(tokens):
        mention = _match_exact(tokens, at, is_answer=is_answer) or _match_slot(tokens, at)
        if mention is None:
            at += 1
        else:
            found.append(mention)
            at = mention.end
    if not found:
        found = _find_stray(tokens)
    return found


def _match_exact(tokens: list[str], at: int, *, is_answer: bool) -> Mention | None:
    """Return the longest known name that begins at the position, else a code, else None."""
    is_led = _has_lead(tokens, at) or is_answer
    if tokens[at] == "home" and at and tokens[at - 1] in _TRAVEL_VERBS:
        return Mention("home", (HOME,), at, at + 1, role="to")
    for name, end in _list_phrases(tokens, at):
        if name.endswith(" state") and (named := gazetteer.find_regions(name.removesuffix(" state"))):
            return Mention(name, (), at, end, regions=named)
        places = gazetteer.find_cities(name) or gazetteer.find_regional_cities(name)
        one = gazetteer.find_airport_by_name(name)
        is_word = name in _AMBIGUOUS_CODES and not (
            _is_code_spot(tokens, at, end) or (is_answer and len(tokens) == 1)
        )
        if (places or one) and not is_word and (name not in _AMBIGUOUS_NAMES or is_led):
            return _apply_qualifier(tokens, Mention(name, places or ((one,) if one else ()), at, end))
    return _match_code(tokens, at, is_led=is_led)


def _list_phrases(tokens: list[str], at: int) -> list[tuple[str, int]]:
    """Return the runs of up to four words that begin at the position, each with its end, the longest first.

    A hyphen may join words.
    """
    found: list[tuple[str, int]] = []
    words: list[str] = []
    end = at
    while end < len(tokens) and len(words) < MAX_NAME_WORDS:
        if tokens[end].isalnum():
            words.append(tokens[end])
            found.append((" ".join(words), end + 1))
        elif tokens[end] != "-" or not words:
            break
        end += 1
    return found[::-1]


def _apply_qualifier(tokens: list[str], mention: Mention) -> Mention:
    """Narrow a city by the state, country or airport name that follows it ("Portland, Maine").

    If none of our cities is there, use airfields of that name.
    """
    at = mention.end + (tokens[mention.end : mention.end + 1] in ([","], ["-"]))
    for name, end in _list_phrases(tokens, at):
        if gazetteer.find_cities(name) and " " in name and not gazetteer.find_regions(name):
            # "Boston - Mexico City" is no Boston in Mexico.
            break
        one = gazetteer.find_airport_by_name(name)
        if one and one.airports[0] in mention.airports:
            return replace(mention, words=f"{mention.words} {name}", places=(one,), end=end)
        named = gazetteer.find_regions(name)
        if not named or (len(name) == 2 and not _is_phrase_end(tokens, end)):
            continue
        fitting = gazetteer.narrow_places(mention.places, named) or gazetteer.narrow_places(
            gazetteer.find_regional_cities(mention.words), named
        )
        if fitting:
            return replace(mention, words=f"{mention.words}, {name}", places=fitting, end=end)
        if len(name) > 2 and not gazetteer.find_cities(name):
            fields = gazetteer.narrow_places(gazetteer.find_airfields(mention.words), named)
            return Mention(f"{mention.words}, {name}", mark_ambiguous(fields), mention.start, end)
    return replace(mention, places=gazetteer.narrow_places(mention.places))


def _is_phrase_end(tokens: list[str], end: int) -> bool:
    """Return True if the phrase ends here: "Portland OR |", but not "Portland or Seattle"."""
    return end >= len(tokens) or tokens[end] in _BREAKS or tokens[end].startswith("@")


def mark_ambiguous(places: tuple[GazetteerPlace, ...]) -> tuple[GazetteerPlace, ...]:
    """Return the places with the first one twice, so that the planner asks even about a single match."""
    return (*places, *places[:1]) if places else ()


def _match_code(tokens: list[str], at: int, *, is_led: bool) -> Mention | None:
    """Return the mention of an airport code at the position, or None if the word is not one here.

    `is_led`: a word that leads to a place is before it.
    """
    code = tokens[at]
    if len(code) != CODE_LETTERS or not code.isalpha() or code in _NOT_PLACES:
        return None
    before = tokens[at - 1] if at else ""
    is_word = code in _AMBIGUOUS_CODES
    if gazetteer.is_served(code):
        takes = not is_word or _is_code_spot(tokens, at, at + 1) or (is_led and len(tokens) == 1)
    else:
        # "A flight for Bob" is not one to Bora Bora.
        takes = is_led and before != "for" and not is_word and not gazetteer.find_cities(code)
    one = gazetteer.get_airport(code) if takes else None
    return Mention(code.upper(), (one,), at, at + 1) if one else None


def _is_code_spot(tokens: list[str], at: int, end: int) -> bool:
    """Return whether a word such as "sea" is a code here: "to SEA", or "WAS to Denver" at the start."""
    if at:
        is_pair = at > 1 and tokens[at - 1] in ("-", "/", "to") and gazetteer.is_served(tokens[at - 2])
        return is_pair or (tokens[at - 1] in _CODE_LEADS and _is_phrase_end(tokens, end))
    joint, following = tokens[end : end + 1], tokens[end + 1 : end + 2]
    is_place = any(gazetteer.find_cities(each) or gazetteer.is_served(each) for each in following)
    return joint in (["to"], ["-"], ["/"]) and is_place


def _has_lead(tokens: list[str], at: int) -> bool:
    """Return whether a word that leads to a place ("to", "from", "in", "via" …) is before the position."""
    while at and tokens[at - 1] in FILLERS:
        at -= 1
    before = tokens[at - 1] if at else ""
    return before in LEADS_TO | LEADS_FROM | LEADS_WEAKLY | {"-", "/", "for", "via"}


def _match_slot(tokens: list[str], at: int) -> Mention | None:
    """Return a mention of an unknown name that must be a place because of the word before it, else None."""
    before = tokens[at - 1] if at else ""
    if before not in LEADS_TO | LEADS_FROM | LEADS_WEAKLY or not tokens[at].isalpha():
        return None
    if tokens[at] in _NOT_PLACES | FILLERS | _BREAKS or tokens[at] in KNOWN_WORDS - {"home"}:
        return None
    if _is_verb(tokens, at):
        return None
    phrases = [each for each in _list_phrases(tokens, at) if not _BREAKS & set(each[0].split())]
    for name, end in phrases:
        if named := gazetteer.find_regions(name):
            return Mention(name, (), at, end, regions=named)
        near, is_plain = gazetteer.find_similar_cities(name)
        if near and is_plain and len(near) == 1:
            # Rather a typo in the name of a city than an airfield.
            return Mention(name, near, at, end, has_typo=True)
    for name, end in phrases:
        if fields := gazetteer.find_airfields(name):
            return None if before in LEADS_WEAKLY else Mention(name, mark_ambiguous(fields), at, end)
        near, is_plain = gazetteer.find_similar_cities(name)
        if near:
            return Mention(name, near if is_plain else mark_ambiguous(near), at, end, has_typo=True)
    if before in LEADS_WEAKLY:
        return None
    if tokens[at] == "home":
        return Mention("home", (HOME,), at, at + 1)
    return _take_unknown(tokens, at)


# "Like to request a flight": after these words, "to" leads to a verb, and before these, a verb leads to them.
_BEFORE_A_VERB: Final = frozenset(
    "like want need have going able hope hoping plan planning wish love prefer try trying ask ready due "
    "order how possible have has had willing happy supposed expected required asked wants needs us me it "
    "you him her not".split()
)
_AFTER_A_VERB: Final = frozenset(
    "a an the my our your some it you that if this these those us them him her".split()
)


def _is_verb(tokens: list[str], at: int) -> bool:
    """Return whether the unknown word after "to" is a verb."""
    if tokens[at - 1] != "to" or gazetteer.find_regions(tokens[at]):
        return False
    following = tokens[at + 1] if at + 1 < len(tokens) else ""
    return following in _AFTER_A_VERB or (at > 1 and tokens[at - 2] in _BEFORE_A_VERB - {"me", "us", "need"})


def _take_unknown(tokens: list[str], at: int) -> Mention:
    """Return a mention without places of up to three unknown words from the position."""
    end = at + 1
    while (
        end < min(len(tokens), at + _MAX_UNKNOWN_WORDS)
        and tokens[end].isalpha()
        and tokens[end] not in _BREAKS | _NOT_PLACES
    ):
        end += 1
    return Mention(" ".join(tokens[at:end]), (), at, end)


# Abbreviations of cities that are also words: places if nothing else is.
_SHORT_CITIES: Final = frozenset("dc la kl".split())


def _find_stray(tokens: list[str]) -> list[Mention]:
    """Return a mention of the first words that resemble a city's name, for a text without any place."""
    for at, token in enumerate(tokens[:_MAX_STRAY_WORDS]):
        if token in _SHORT_CITIES and _is_phrase_end(tokens, at + 1):
            return [Mention(token, gazetteer.narrow_places(gazetteer.find_cities(token)), at, at + 1)]
        for name, end in _list_phrases(tokens, at):
            near, is_plain = gazetteer.find_similar_cities(name)
            if not near or token in _NOT_PLACES | KNOWN_WORDS:
                continue
            is_certain = is_plain and len(near) == 1 and len(name) >= _CERTAIN_STRAY_LETTERS
            places = near if is_certain else mark_ambiguous(near)
            return [Mention(name, places, at, end, has_typo=is_certain)]
    return []


# Words between two names of one place.
_REPEATING: Final = frozenset(
    "| , in - i e aka ie namely mean meant sorry haha lol oops that is actually well".split()
)


def merge_mentions(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """Merge neighbouring mentions of one place into its airport.

    Examples: "London Heathrow", "Chicago (ORD)", "JFK in New York".
    """
    done: list[Mention] = []
    for mention in mentions:
        last = done[-1] if done else None
        between = set(tokens[last.end : mention.start]) if last else set()
        if last and between <= _REPEATING and last.airports & mention.airports:
            inner = min((last, mention), key=lambda each: len(each.airports))
            is_repeated = last.places == mention.places and last.role in (None, mention.role)
            is_airport = inner.airports <= last.airports | mention.airports and len(inner.airports) == 1
            if is_airport or is_repeated:
                done[-1] = replace(inner, start=last.start, end=mention.end)
                continue
        done.append(mention)
    return done
