"""The word classes of policies: what prohibits, permits, requires, recommends, and what is not about flights.

Each class is one pattern over normalized text, shared by the readers of all subjects.
"""

from __future__ import annotations

import re
from typing import Final

_VERBS: Final = (
    r"book|buy|bought|purchas|permit|allow|accept|support|perform|approv|authori[sz]|undertak|sen[dt]"
    r"|go\b|goes|travel|fly|flies|flown"
    r"|us(?:e|ed)\b|reimburs|paid|pay|issu|refund|fund|cover|grant|consider|entertain|process|eligible"
    r"|available|take place"
    r"|tak(?:e|en)\b|happen|select|chosen|made|possible|visit|ticket|charg|procur|sanction|offer|endors"
    r"|done|a thing|take"
)
PROHIBITION: Final = re.compile(
    rf"\b(?:not|never|cannot|nobody|no (?:one|\w*body))\b(?:,? \w+){{0,4}}? (?:be )?(?:{_VERBS})\w*"
    rf"|\bno (?:\w+ ){{0,3}}(?:travel\w*|trips?|flights?|journeys?|tickets?|bookings|employee\w*"
    rf"|approv\w*)\b(?! (?:is|are) (?:needed|required|necessary))"
    r"|\b(?:prohibit\w*|forbidden|banned|barred|excluded|vetoed|refused|rejected|declined|disallow\w*"
    r"|unallowable"
    r"|non-reimbursable|non-refundable by|off[- ]limits|out of bounds|no-go|ruled out|embargo\w*"
    r"|suspended|blacklisted|blocked"
    r"|unavailable|impermissible|not permissible|closed to|never|must not|may not|shall not"
    r"|under no circumstances|in no case|steer clear|avoid(?:ed)?)\b"
    r"|\bneither\b[^.;]*\b(?:may|can|is|are|be)\b"
    r"|^\W*no\b(?! (?:approv|need|limit|cap|ceiling|maximum|minimum|restriction|consent|further"
    r"|separate|prefer))|: no\W*$|: no\b(?= @)",
    re.IGNORECASE,
)
# A negation that restricts nothing: "need not", "is not required", "does not apply", "no need".
HARMLESS: Final = re.compile(
    r"\b(?:need not|(?:is|are|do|does|will|shall|must|may|should)? ?not (?:be )?(?:\w+ )?(?:requir\w*"
    r"|need\w*|necessary|necessarily|mandatory|counted?|appl\w*|"
    r"affect\w*|regulat\w*|limit\w*|restrict\w*|a rule|subject to|included?|subject|exceed\w*|have to"
    r"|depend\w*|judged?|replace\w*|relax\w*)"
    r"|no need|not only|not later than|no later than|not more than|no more than|not less than|no less"
    r" than|not (?:just|merely)|no fewer than|not fewer than"
    r"|whether or not|not exceeding|not above|without (?:a |any )?(?:limit|restriction))\b",
    re.IGNORECASE,
)
RECOMMENDATION: Final = re.compile(
    r"\bencourag\w*|\brecommend\w*|\bwhere(?:ver)? (?:\w+ )?possible|\bwhen(?:ever)? possible"
    r"|\bideally\b|\btry to\b|\baim\b|\bsuggest\w*"
    r"|\bpreferabl\w*|\bare asked to\b|\bif possible\b|\bshould (?:normally|ideally|where)|\bconsider\b",
    re.IGNORECASE,
)
TRAVEL: Final = re.compile(
    r"\btravel\w*|\btrips?\b|\bflights?\b|\bjourneys?\b|\bdestinations?\b|\bcountr(?:y|ies)\b|\bsend\b"
    r"|\bfl(?:y|ies|ying|own)\b|\bgo(?:es)?\b"
    r"|\bvisits?\b|\btickets?\b|\bbook\w*|\bmissions?\b|\bbusiness\b|\bassignments?\b",
    re.IGNORECASE,
)
# Costs and acts that are not the price or the booking of a flight.
OTHER_COST: Final = re.compile(
    r"\bhotels?\b|\blodging\b|\b(?:per|a|each) night\b|\bnightly\b|\bmeals?\b|\bper diem\b"
    r"|\breceipts?\b|\brental|\bcars?\b|\btaxi|\bcabs?\b"
    r"|\b(?:change|cancell?ation|service|booking|agency|baggage|bag|seat|wi-?fi|lounge|visa|parking"
    r"|no-show|rebooking)s? (?:fees?|charges?|options?|costs?)"
    r"|\bbag(?:s|gage)?\b(?! out| in\b)|\bluggage\b|\bsuitcases?\b|\bseats? (?:selection|fees?|charges?"
    r"|upgrades?|reservations?|choices?|assignments?)"
    r"|\bseat choice|\bchoosing a seat|\bmileage\b|\binsurance\b|\btrains?\b|\brail\w*|\bunused\b"
    r"|\blost\b|\bstolen\b|\brefund(?!able)"
    r"|\bcompensat|\bvouchers?\b|\bgifts?\b|\bsav(?:e|es|ed|ing|ings)\b|\bcredits?\b|\bper (?:mile"
    r"|kilomet\w+|km)\b|\bper day\b|\ba day\b|\bdaily\b"
    r"|\bwi-?fi\b|\blounge\b|\bparking\b|\bentertain|\bdinner|\bextra-legroom\b|\bupgrade|\bapartment"
    r"|\baccommodation\b|\balcohol|\blaundry"
    r"|\bper week\b|\btips?\b|\bgratuit|\bcash\b|\bbudget of the project|\bper person per\b|\bamtrak"
    r"|\bvehicle|\bno-shows?\b|\bclimate\b|\bemissions?\b"
    r"|\bCO2\b|\bexpense (?:reports?|claims?)\b|\ballowance for\b|\bpenalt|\bpenalis|\bferr(?:y|ies)\b"
    r"|\bexcess baggage|\bpriority boarding",
    re.IGNORECASE,
)
# Words that widen a rule: "in any class", "irrespective of the fare".
REGARDLESS: Final = re.compile(
    r",? ?\b(?:in|for|of|by|at|with)? ?(?:any|every|whatever|all) (?:class(?:es)?|cabins?|fares?"
    r"|prices?)\b(?:(?: and|,| or) (?:for |in |of )?any \w+)*"
    r"|,? ?\b(?:regardless of|irrespective of|independent(?:ly)? of|no matter|whatever) [^,.;:]*",
    re.IGNORECASE,
)
# What no longer holds.
OBSOLETE: Final = re.compile(
    r"\b(?:former(?:ly)?|no longer|previously|used to|extinguished|abolished|withdrawn|repealed|was"
    r" (?:cancell?ed|dropped|lifted)|until 20\d\d)\b",
    re.IGNORECASE,
)
# What an amount includes: "before bag and seat fees", "taxes in, bags out".
INCLUDED: Final = re.compile(
    r",? ?\b(?:before|exclud\w+|includ\w+|incl\.?|excl\.?|without|with|plus|not counting|net of)\b(?:"
    r" \w+,?){0,6} "
    r"(?:bags?|baggage|luggage|suitcase|fees?|taxes|tax|charges|insurance)\b(?: included)?"
    r"|,? ?\b(?:taxes|tax|bags?|fees?|charges|\w+ bag|luggage)(?:(?:, | and )\w+(?: \w+){0,3} (?:bag"
    r"|fees?|bags))? (?:in|out|included|excluded|inclusive)\b",
    re.IGNORECASE,
)
# Approvals and prohibitions of something else than the trip itself.
OTHER_ACT: Final = re.compile(
    r"\bhotels?|\bcars?\b|\brental|\bexpenses?\b|\bexceptions?\b|\bmeals?|\bclaims?\b|\bupgrad"
    r"|\bpersonal\b|\bprivate\b|\bcancel|\bchang"
    r"|\bgroup (?:travel|trip|booking)|\bconference|\bguests?\b|\bfamily|\bspouse|\bmileage"
    r"|\bmiles?\b(?! (?:apart|from|or|and|away))|\bvehicle|\bretroactive|\bas (?:set out|described)"
    r"|\bwhen it does not|\bif it does not|\boutside (?:the|these|this) (?:limits?|polic|rule)|\bdeviat"
    r"|\bout-of-policy|\bout of policy"
    r"|\blaptops?\b|\bdevices?\b|\bsamples?\b|\bluggage|\bbaggage|\bbags?\b|\binsurance\b|\breceipts?\b"
    r"|\bsame (?:aircraft|flight|plane)\b|\btogether on\b"
    r"|\bpoints\b|\bloyalty\b|\bfrequent|\bhealth\b|\bvaccin|\bvisas?\b|\bpassport|\breport\w*\b"
    r"|\bdriv(?:e|es|ing|ers?)\b|\btrains?\b|\brail\w*|\bcards?\b"
    r"|\bcustomers?\b|\bclients?\b|\bcandidates?\b|\bapplicants?\b|\bspeakers?\b|\b(?:own|matters"
    r"|questions?|interpretation|disputes?|complaints?)\b|\balcohol|\bcourtesy\b"
    r"|\bmedical\b|\bweather\b|\bstrikes?\b|\bemergenc|\bpolicy\b|\bpolicies\b|\bcontract\b"
    r"|\bvouchers?\b|\bunused\b|\brefund|\bno-show|\bvideo\b|\bcharter|\bhelicopter",
    re.IGNORECASE,
)


def is_prohibition(text: str) -> bool:
    """Return True if the text prohibits something."""
    return bool(PROHIBITION.search(HARMLESS.sub(" ", text)))
