"""The words of a change, a cancellation or a status: they are about a booking that exists.

All patterns apply to one clause of a normalized text (`planner.text_normalization`): lower case, without
accents and apostrophes, commas as separate tokens. Each group is a tuple of patterns; one match is enough.
"""

from __future__ import annotations

from typing import Final

from tripcortex.domain.intents.phrases import DAY, LEAD_OR_ASK, NEW, NOT_TRAVEL, NOUN, compile_all

# --- a booking that exists --------------------------------------------------------------------------------

EXISTING: Final = compile_all(
    rf"\b{NOUN}\b.{{0,40}}\b(?:was|were|has been|have been) (?:already )?booked (?:for|by|to)\b",
    rf"(?<!\bbook )(?<!\breserve )(?<!\bplan )(?<!\barrange )(?<!\bbuy )\b(?:my|our|that|those|this|these|"
    rf"existing|"
    rf"current|his|her|their) (?:(?!{NOT_TRAVEL})[\w:][\w:-]* ){{0,4}}?(?!{NOT_TRAVEL}){NOUN}\b(?! "
    rf"(?:budget|costs?|class|preferences?|limit|allowance|needs?))",
    rf"\bthe (?:(?!{NOT_TRAVEL})[\w:-]+ ){{0,3}}?(?:booking|reservation|pnr|e-?ticket|itinerary)s?\b(?! "
    rf"(?:at|within|less|class|fee))",
    r"\b(?:than|as) (?:booked|planned|scheduled)\b",
    rf"\b{NOUN} (?:that |which )?(?:you|i|we|they) (?:(?:have|had|just|already|ve) )*(?:\w+ )?(?:booked|"
    rf"got|made|bought|"
    r"have|had|reserved|sent|hold)\b",
    r"\b(?:you|i|we|which was|thats|that was) (?:have |had |already |just |ve |got )*(?:booked|reserved|"
    r"bought)\b",
    r"\b(?:im|i am|we are|we re|am i|are we|is he|is she) (?:already |now |still |currently )*(?:booked|"
    r"confirmed|"
    r"scheduled|ticketed|checked in|waitlisted)\b",
    r"\b(?:i|we) (?:already |only |currently |just |now |still )*(?:have|ve got|got|hold|bought) "
    r"(?:already )?(?:a|an|the|my|"
    rf"two|one|this) (?!meeting|conference|workshop)(?:[\w:-]+ ){{0,4}}?(?:{NOUN}|one ?-? ?way|layover|"
    rf"stopover)\b",
    r"\bthe (?:one|flight|trip) (?:that )?i (?:already )?(?:have|booked)\b|\balready (?:have|got) (?:a|"
    r"the|my|flights|"
    r"tickets|bookings?)\b|\b(?:flights|tickets) (?:are )?already (?:booked|bought)\b",
    rf"\b{DAY}s (?:[\w:-]+ ){{0,3}}?{NOUN}\b",
    r"\b(?:pnr|record locator|(?:confirmation|reservation|booking) (?:code|ref(?:erence)?|number|no|id))\b",
    r"\b(?:trip|booking|reservation|order|pnr|ticket|request) (?:no |number |id |# "
    r"?)?(?=[a-z]*\d)[a-z0-9]{4,}\b",
)
# Also a flight to be booked: "the Delhi flight", "the flight to Lisbon".
MAYBE_EXISTING: Final = compile_all(
    rf"\b{NOUN}\b.{{0,40}}\b(?:was|were|has been|have been) (?:already )?booked (?:for|by|to)\b",
    rf"\b(?:the|both|all|one of (?:my|the)) (?!(?:{NEW})\b|\d)(?:(?!(?:{NEW})\b)[\w:-]+ "
    rf"){{0,3}}?(?:flights?|trips?|tickets?|"
    r"connection|return|outbound|inbound)\b",
    r"\bthe \d{1,2}[:.]\d\d\b",
)
FLIGHT_NUMBER: Final = compile_all(
    r"\b(?!(?:at|on|in|to|by|or|of|is|my|am|pm|no|an|as|be|us|t\d)\b)(?:[a-z]{2}|[a-z]\d|\d[a-z]) "
    r"?\d{2,4}\b(?! ?(?:am|pm|"
    r"usd|eur|euros?|dollars?|rupees|pounds))"
)

# Whatever else the words name, they are about a booking that exists.
CANCEL_STRONG: Final = compile_all(
    r"(?:^|(?<!able )(?<!possible )(?<!option )(?<!right )(?<!free )\b(?:we|i|please|pls|so|just|only|and|"
    r"then|to|lets|must|should|now|"
    r"have to|need to|want to|, ) ?)cancel\b(?! (?:any ?time|for free|free|without|later|if|policy|fees?|"
    r"rules?))",
    r"\bno longer (?:need|want|require) (?:the|my|that|this|those|these|our|any of) \b",
    r"\b(?:get|take) me off (?:of )?(?:the|my|that|this) (?:\d|[\w:-]+ (?:flight|plane))",
    r"(?:^|please |pls |just |and |, )(?:stop|halt|pull|scrap|withdraw) (?:the|my|that|this) (?:[\w-]+ "
    r")?(?:trip|flight|travel|visit)\b",
    r"\bno longer (?:going|flying|travelling|traveling)\b",
    r"\bno longer (?:need|want|require)\b(?! (?:an? |the |any |my )?(?:hotel|car|visa|return|bags?|room|"
    r"upgrade|seat|train|taxi))",
    r"\b(?:dont|do not|wont|doesnt|didnt) (?:need|want) .*\b(?:any ?more|any longer|after all)\b",
    r"\b(?:cant|cannot|can not|wont) make (?!it (?:before|after|until|by|to)|the|a (?!flight|trip)|any|up|"
    r"do|this work|sense)\b",
    r"^(?:(?:please|pls|just|ok|sorry|,) )*(?:forget(?: about)?|scrap|drop|withdraw|delete|void|bin) "
    r"(?!(?:the |about |my )*(?:hotels?|cars?|room|me|you|instructions|previous|all|everything|that i)\b)",
    r"\b(?:is|are) (?:now )?off\b(?=.{0,12}\bcancel| ?(?:[,|]|$))",
    r"\b(?:dont|do not|wont|doesnt) (?:need|want) (?:the|my|that|this|those) (?:[\w:-]+ ){0,5}?"
    r"(?:flights?|trips?|bookings?|tickets?|reservations?|seats?)\b(?!.{0,30}\bbefore\b)",
)
CONFIRM: Final = compile_all(
    r"^(?:(?:please|pls|kindly|can you|could you|hi|hello|,) )*(?:re-?)?confirm\b(?! (?:if|whether|that i "
    r"can|i can|and book))",
    r"\bany (?:news|updates?) (?:on|about|regarding|for)\b",
)
# A statement that something is booked; a hotel or a room may well be.
IS_BOOKED: Final = compile_all(
    r"(?<!train )(?<!visa )(?<!hotel )(?<!call )(?<!bus )\b(?:is|was|were|has been|got) (?:already |now "
    r")?(?:cancelled|canceled|confirmed|"
    r"delayed|rescheduled)\b(?! (?:so|,|\|))",
    r"(?<!hotel )(?<!room )(?<!hotels )(?<!car )(?<!table )(?<!train )(?<!accommodation )(?<!office "
    r")\b(?:is|are|was|were|has been|"
    r"got|gets) (?:already |now |also )?booked\b(?! (?:for (?:a|the) (?:meeting|room)|solid|up|out))",
    r"\b(?:i|we) (?:have|ve|had|got) (?!(?:a|the|my|our)? ?(?:hotel|room|car|table|meeting|train|"
    r"desk))(?:(?!hotel|room|car|table|"
    r"meeting|train|desk|\|).){0,60}\bbooked\b",
)
_BOOKED: Final = (
    r"(?:flights?|trips?|bookings?|tickets?|legs?|reservations?|return|outbound|inbound|"
    r"itinerary|departure|seats?)"
)
CHANGE_STRONG: Final = compile_all(
    r"\b(?:turn|convert|change|make|switch|extend|shorten|upgrade|downgrade) (?:my|the|that|this) "
    r"(?:existing |current |booked )?"
    r"(?:[\w:-]+ ){0,5}?(?:in)?to (?:a |an |be )?(?:round|return|one|single|later|earlier|business|"
    r"first|premium|economy)",
    rf"\b(?:the|my|our|that|this|both|all) (?:[\w:-]+ ){{0,3}}?{_BOOKED} (?:(?:on|to|from|for) (?:the "
    rf")?[\w:]+ )?"
    r"(?:has|have|needs?|must|should|ought|will have) (?:to |also |be |now |then |too |all )*(?:move|moved|"
    r"change|changed|shift|"
    r"shifted|rebooked|postponed|later|earlier|pushed|rescheduled|extended|(?:on )?(?:mon|tues|wednes|"
    r"thurs|fri|satur|sun)day)\b",
    r"\b(?:different|another|better|other|aisle|window) seat\b.{0,60}\b(?:im in|i am in|i have|instead|"
    r"assigned|booked|got|than|"
    r"my flight|the flight|on my)\b",
    r"\b(?:bring|move|put|push) (?:the|my|our|that) (?:[\w:-]+ ){0,2}?(?:flight|trip|return|"
    r"departure)s?\b.{0,40}\b(?:to|forward|back)\b",
    r"\bbring forward (?:the|my|our|that)\b",
    r"\b(?:can|could|may|must|should) (?:i|we) (?:still )?(?:change|move|switch|postpone|rebook|reschedule|"
    r"shift|amend)\b(?! planes?\b)",
    r"\b(?:possible|able|want|like|need|how) to (?:switch|swap|rebook|reschedule)\b(?! "
    r"airlines?\b.{0,20}\bpolicy)",
    r"^(?:(?:hi|hello|hey|,) )*(?:(?:i am|im|i was|we are|were|i have been|ive been) )?(?:already )?booked "
    r"(?:to|on|for|into|from|with|via|in)\b.*\b(?:instead|change|switch|move|want|rather|earlier|later|"
    r"different|another)\b",
)

# --- a cancellation ---------------------------------------------------------------------------------------

_CANCEL: Final = (
    r"(?:cancel|call off|scrap|void|scratch|ditch|nuke|axe|withdraw|revoke|abort|annul|undo|refund|kill|"
    r"delete|bin|drop|"
    r"get rid of|forget(?: about)?|give up|release|trash|remove)"
)
CANCEL_IMPERATIVE: Final = compile_all(
    rf"{LEAD_OR_ASK}(?:cancel|call off|scrap|void|nuke|annul)\b(?! (?:polic|rule|fee|culture))",
    rf"{LEAD_OR_ASK}{_CANCEL} (?:(?:my|our|the|that|this|both|all|whole|entire|every|all of|{DAY}s) "
    rf")+(?:[\w:-]+ "
    rf"){{0,4}}?{NOUN}\b"
    r"(?!.*\b(?:and|then) (?:book|rebook)\b)",
    r"\b(?:cancel|call) (?:it|that|this|them|everything|both|all)\b(?: off)?",
    rf"\b(?:get|take) me off (?:of )?(?:the|my|that|this) (?:[\w:-]+ ){{0,3}}?{NOUN}",
    r"\bcancellation (?:of|for) (?:my|the|our|that|this)\b|\b(?:request|need|want|like) (?:a |the |to "
    r"request )*cancellation\b",
)
CANCEL_WISH: Final = compile_all(
    r"\bcall (?:\w+ ){1,4}off\b|\brefund me\b|\b(?:back|pull|drop) out of\b|\bnever ?mind (?:about "
    r")?(?:my|the|that)\b",
    r"\b(?:conference|meeting|event|workshop|project|visit|training|trip)\b.{0,30}\b(?:cancelled|canceled|"
    r"called off)\b",
    r"\b(?:dont|do not|wont|no longer) (?:need|have) to (?:travel|fly|go)\b(?! (?:to|in|on|via|with|"
    r"business|first))",
    r"\b(?:can|could|may) (?:my|the|our|this|that) [\w ]{2,40} be (?:cancelled|canceled|refunded)\b",
    r"\b(?:stop|halt) (?:my|the|that|this) (?:booking|purchase|reservation|order|request|process)\b",
    r"\bcan i (?:still )?cancel\b|\bis it possible to cancel (?:my|the|that|this)\b",
    r"\b(?:want|get|have|need|like|claim|give me|request) (?:\w+ )?(?:my |our |the |a )?(?:money back|"
    r"refund)\b",
    r"\bno longer (?:need|want|require|flying|going|travel|travelling|traveling|able|fly|go|have to|"
    r"necessary|needed|"
    r"required|interested|planning)\b",
    r"\b(?:dont|do not|wont|will not|not|doesnt) (?:need|want|require|be needing|be using|be taking|use|"
    r"needing) (?:\w+ ){0,6}?"
    r"(?:any ?more|any longer|after all|now)\b",
    r"\b(?:dont|do not|wont) (?:need|want|require) (?:my|the|that|this) (?:[\w:-]+ ){0,4}?(?:flight|"
    r"trip|booking|ticket|"
    r"reservation)s?\b",
    r"\b(?:cant|cannot|can not|wont|will not|unable to|not able to|wont be able to|couldnt) (?:be |be able "
    r"to )?(?:make it|"
    r"make (?:the|my|that|this)|fly|flying|go|travel|take (?:the|my|that)|come|attend)\b(?! (?:before|"
    r"after|until|earlier|"
    r"later|in economy|economy|via|that|on))",
    r"\b(?:not|never|am not|im not|wont be) (?:\w+ )?(?:going|flying|travelling|traveling|coming|able to "
    r"travel|able to go|"
    r"able to fly)\b.{0,50}\b(?:any ?more|any longer|after all|now)\b",
    rf"\b(?:{NOUN}) (?:is|are|has been|have been|got|was) (?:off|called off|not happening|not needed|no "
    rf"longer|scrapped)\b",
    r"\b(?:trip|travel|visit|journey)s? (?:\w+ ){0,4}?(?:is|are) (?:off|called off|not happening|not "
    r"needed|no longer)\b",
    r"\b(?:dont|do not|wont) (?:need to|have to) (?:fly|go|travel)\b.{0,40}\b(?:any ?more|any longer|after "
    r"all|now)\b",
    r"\b(?:wont|will not|dont|do not) need (?!(?:an?|any|the|to)\b ?|hotel|car|return|business|first|"
    r"premium|seat|visa|meal|"
    r"bag|luggage|approval)",
    r"\b(?:decided|choose|chose|prefer) (?:\w+ )?not to (?:go|fly|travel)\b|\bim out\b|\bcall it off\b",
)

# --- a change ---------------------------------------------------------------------------------------------

_CHANGE: Final = (
    r"(?:changed?|changing|move|moving|moved|switch|switching|swap|swapping|push|pushed|shift|postpone|"
    r"delay|extend|extending|"
    r"shorten|reschedule|re-?schedule|re-?book(?:ed)?|modify|amend|alter|adjust|update|correct|fix|edit|"
    r"replace|redirect|"
    r"re-?route|upgrade|downgrade|transfer|prepone|bump|revise|exchange|substitute|rearrange|bring|"
    r"cut|add|include|"
    r"attach|remove|drop|convert|split|combine|put|make|rename|reissue|adapt|relocate|trade|keep|select|"
    r"choose|pick|"
    r"assign|seat|check|order|request|prolong|advance|defer|reset|turn|reassign|leave|link|enter|note|save|"
    r"store|use)"
)
# These change what exists even without naming it.
CHANGE_ANY: Final = compile_all(
    r"\brather (?:fly|leave|go|travel|return|depart|take|come|be|sit|stay)\b.*\bthan\b",
    r"\b(?:can|could|may) (?:my|the|our|this|that) [\w ]{2,40} be (?:changed|moved|rebooked|postponed|"
    r"rescheduled|extended|"
    r"upgraded|shifted|brought|switched)\b",
    rf"{LEAD_OR_ASK}(?:push|move|shift|change|switch|postpone|delay|bring|correct|fix|update|amend|put|"
    rf"pull|alter|adjust) "
    r"(?:back |forward )?(?:the|my|our|this|that) (?:[\w:-]+ ){0,2}?(?:departure|return|outbound|inbound|"
    r"dates?|flights?|trip|day|time|"
    r"seat|booking|name|spelling|passport|meal)\b",
    rf"\binstead of (?:on )?(?:the \d|{DAY}\b|as (?:booked|planned))|\bchanges? (?:of|in) (?:my "
    rf")?plans?\b.*\b(?:fly|leave|need|instead)\b",
    rf"{LEAD_OR_ASK}(?:re-?schedule|re-?book|re-?route|postpone|amend|prepone)\b(?! (?:polic|rule|fee))",
    r"\bmake (?:it|that|this|them) (?:a |an |the |one |to |for |on |in |at "
    r")*[\w:]+\b(?<!possible)(?<!happen)(?<!quick)(?<!work)",
    r"\b(?:extend|shorten|prolong) (?:my|the|our|that|this)\b",
    r"\bcheck me in\b|\bcheck in (?:for|to|on) (?:my|the)\b|^(?:please )?(?:do )?(?:the )?(?:online "
    r")?check-? ?in (?:please|me)\b",
    r"\b(?:name|surname|first name|last name|passport|date of birth|spelling)\b.{0,50}\b(?:wrong|"
    r"misspelled|misspelt|incorrect|"
    r"incorrectly|typo|mistake|changed|should be|instead of|is spelled|is spelt)\b",
    r"\btypo in\b|\b(?:wrong|misspelled|misspelt|incorrect) (?:name|date|day|airport|passport|spelling|"
    r"flight|city|time)\b",
    r"\bnew passport\b|\bpassport number\b|\bknown travell?er\b|\bfrequent flyer (?:number|"
    r"card)\b.*\b(?:is|to)\b",
    r"^(?:an? |the |some |any |get me |put me on |i (?:need|want|prefer) |id (?:like|prefer) |need |want "
    r")*(?:an? |the )?(?:later|"
    r"earlier|different|other) (?:flight|one|departure|connection|time)s?\b",
    rf"{LEAD_OR_ASK}add (?:a |an |another |one |two |some |my |extra |more |the |\d )*(?:[\w-]+ "
    rf"){{0,3}}?(?:bags?|baggage|luggage|"
    r"suitcases?|meals?|seats?|lounge|wi-?fi|insurance|infant|legroom|wheelchair|assistance|priority|fast "
    r"track|stop|stopover|"
    r"return|leg|skis?|golf|bike|equipment|night|nights|day|days|miles|number|name|passenger|pet|dog|hold|"
    r"carry[ -]?on)\b",
    r"\b(?:i|we)(?:d| would)? (?:want|need|like|have|decided) to stay (?:\w+ )?(?:an? |one |two |\d "
    r")?(?:\w+ )?(?:more|extra|"
    r"additional|another|longer)\b",
    r"\bstay(?:ing)? (?:for )?(?:an? |one |two |three |\d )?(?:extra|additional|another|more|"
    r"longer)\b.{0,60}\b(?:change|move|extend|"
    r"push|return|flight)\b",
    r"\b(?:put|book|get|move|switch|seat) me (?:on|onto|to|into|next to) .{1,40}\b(?:instead of|rather "
    r"than|than (?:the one|my))\b",
    r"\bput me next to\b|\bseat me\b|\bsit (?:next to|with)\b.*\bflight\b",
    r"\b(?:get|put|book|move|switch|try) (?:me )?(?:on|onto|to|for)? ?(?:an? |the )?(?:earlier|later|"
    r"different|other|next) (?:flight|one|plane|"
    r"connection)\b",
    r"\b(?:missed|going to miss|gonna miss|will miss|about to miss|miss) (?:my|the|our) (?:[\w-]+ "
    r")?(?:flight|connection|plane)\b",
)
# At the start of a clause, whatever follows.
_POLITE: Final = (
    r"^(?:(?:please|pls|plz|kindly|can you|could you|would you|will you|just|hi|hello|hey|so|ok|now|also|"
    r"and|"
    r",) )*"
)
CHANGE_START: Final = compile_all(
    rf"{_POLITE}(?:change|move|switch|swap|postpone|re-?schedule|re-?book|push|shift|modify|amend|update|"
    rf"upgrade|extend|replace|"
    r"redirect|correct|fix|delay|bring forward)\b(?! (?:planes?|of plans?)\b)"
)
CANCEL_START: Final = compile_all(rf"{_POLITE}(?:cancel|call off|scrap|void|annul)\b(?! (?:polic|rule|fee))")
CHANGE_IMPERATIVE: Final = compile_all(
    rf"{LEAD_OR_ASK}{_CHANGE}\b(?! sure\b)",
    rf"\b{NOUN} (?:\w+ )?(?:needs?|has|have|must|should|ought) (?:to )?(?:\w+ )?(?:move|change|be "
    rf"(?:changed|moved|pushed|shifted|"
    r"postponed|extended|updated|corrected|rescheduled|rebooked|later|earlier|on))\b",
    r"\b(?:needs?|has|have|must) to (?:be )?(?:changed?|moved?)\b|\bshould (?:be|say|read|have been)\b",
    r"\b(?:instead(?: of)?|rather than|rather|earlier than|later than|than the one)\b",
    r"\b(?:an?|the|my) (?:[\w-]+ )?(?:upgrade|change|extension|swap|seat (?:change|assignment)|date change|"
    r"name change)\b",
    r"\b(?:bags?|luggage|seat|meal|aisle|window|wheelchair|legroom|lounge)\b.*\b(?:please|pls|on|for|to)\b",
)
# Only where no trip is named: "I want an aisle seat" changes a booking.
SEAT: Final = compile_all(
    r"\b(?:an?|one|two|three|\d) (?:days?|hours?|weeks?|nights?) (?:earlier|later)\b|\bon the way (?:back|"
    r"home)\b",
    r"\bput me in (?:business|first|premium|economy)\b|\b(?:want|need|like|get) (?:to |an? |be "
    r")*upgraded?\b",
    r"\b(?:window|aisle|exit row|bulkhead|front row|extra legroom|middle) ?(?:seats?|place|row)?\b",
    r"\b(?:vegetarian|vegan|kosher|halal|gluten[ -]free|special) meal\b|\b(?:extra|another|checked|hold|"
    r"more) (?:bag|luggage|baggage|legroom)\b",
)

# --- a status ---------------------------------------------------------------------------------------------

# Also with a word of the policy: "any news on the approval?".
STATUS_FIRST: Final = compile_all(
    r"^(?:(?:please|pls|kindly|can you|could you|hi|hello|,) )*(?:re-?)?confirm\b(?! (?:if|whether|that i "
    r"can|i can|and book))",
    r"\bcan i (?:already |now )?check ?-?in\b",
    r"^(?:did|has|have) (?:the|my|our) (?:[\w-]+ ){1,4}?(?:come|go|gone|clear|cleared|went)(?: through)?\b",
    r"\bany (?:update|news|word|progress)s?\b|\b(?:did|has|have|hasnt) (?:my |the |our )?(?:\w+ )?(?:boss|"
    r"manager|approver|"
    r"lead|director|finance|vp|supervisor|cfo|hr)\b.*\b(?:approve|approved|sign|signed|decide|decided|"
    r"answer|answered|"
    r"respond|responded|reject|rejected|reply|replied|see|seen|look|looked|ok|confirm|confirmed)\b",
)
STATUS_ANY: Final = compile_all(
    r"\b(?:remind|tell) me (?:when|where|what time|which)\b|\b(?:list|show|see)(?: me)? (?:everything|all|"
    r"what)(?: that)? i\b",
    r"^(?:my |the )?(?:ticket|flight|seat) number\b",
    r"\b(?:when|what time|which (?:day|date)|what (?:day|date)|at what time) (?:do|does|is|are|will|am|did|"
    r"was) (?:i|we|it|my|our|that|this|boarding|check|the (?:[\w:-]+ ){0,3}?(?:flight|trip|plane|departure|"
    r"connection|return))\b",
    r"\b(?:what|which|whats) (?:\w+ )?(?:gate|terminal|seat|row|zone|carousel|belt|hotel am i|flight am i|"
    r"airline am i|airport do i|"
    r"airport am i|class am i|cabin am i)\b",
    r"\b(?:whats|what is|what was|what are) (?:my|our|the) (?:[\w-]+ ){0,3}?(?:confirmation|booking|"
    r"reservation|itinerary|seat|gate|"
    r"terminal|pnr|ticket number|record locator|flight number|schedule|departure|arrival|status|layover|"
    r"ticket)\b",
    r"\b(?:booking|flight|trip|request|refund|approval|upgrade|visa|reservation) status\b|\bstatus (?:of|"
    r"on|for|update|check|please|pls)"
    r"\b|^status$|\bany (?:update|news|word|progress)s?\b",
    r"\b(?:did|has|have|hasnt|is|was) (?:my|the|our|his|her) (?:\w+ )?(?:boss|manager|approver|lead|"
    r"director|finance|vp|supervisor|cfo|"
    r"head|approval|cost cent\w+ owner)\b.*",
    r"\b(?:did|have|has) (?:you|i|we|they|it|anyone|someone|somebody) (?:already |actually |ever |manage "
    r"to |been |got |get )*(?:book|"
    r"booked|buy|bought|get|got|cancel|cancelled|canceled|reserve|reserved|change|changed|send|sent|"
    r"receive|received|find|found|pay|"
    r"paid|charged|approved|approve|confirm|confirmed|go|gone|issue|issued|checked)\b",
    r"\b(?:did|was|were|has|have|is|are) (?:my|the|our|that|this) (?:[\w:-]+ ){0,6}?(?:on time|delayed|"
    r"late|cancelled|canceled|confirmed|"
    r"booked|issued|ticketed|approved|through|paid|clear|cleared|refunded|processed|landed|rejected|"
    r"declined|pending|added|"
    r"changed|open|sent|received|waitlisted|ready|done|still on|completed?|made|updated|leaving|departing|"
    r"charged|gone)\b",
    r"\bam i (?:\w+ )?(?:booked|confirmed|checked|flying|leaving|on|in|still|going|travelling|traveling|"
    r"sitting|due|scheduled|"
    r"registered|ticketed|all set|set|good to go|connecting|back|home|landing|arriving)\b",
    r"\bdo i (?:already |still |currently )*have (?:a|an|any|the|my|enough) (?:[\w-]+ ){0,3}?(?:flight|"
    r"booking|ticket|seat|"
    r"reservation|trip|layover|stop|stopover|connection|bag|bags|luggage|window|aisle|meal|upgrade|"
    r"time)s?\b",
    r"\bwhere(?:s| is| are| am| do) (?:my|i|the (?:receipt|invoice|confirmation|ticket|boarding))\b|"
    r"\bwhere are we (?:with|on)\b",
    r"\b(?:need|want|like|get|send|have|request|give)(?: me| us)? (?:an?|the|my) (?:[\w-]+ )?(?:invoice|"
    r"receipt|boarding pass|"
    r"confirmation|itinerary|copy)\b",
    r"\bwhats happening with\b|\bwhat happened (?:to|with) (?:my|the|that)\b|\bhows my\b|\bhow is my\b|"
    r"\bwhat is happening with\b",
    r"\b(?:upcoming|next|future|past|previous|recent|planned) (?:trips|flights|bookings|travels|travel)\b|"
    r"\bmy next (?:trip|flight)\b",
    r"\b(?:show|list|display|pull up|see|look up|view|find|check|send|resend|forward|email|print|get|give|"
    r"need|want|like|have|tell|"
    r"download) (?:me )?(?:all )?(?:of )?(?:my|our|the) (?:[\w-]+ ){0,3}?(?:trips|bookings|reservations|"
    r"itinerary|itineraries|receipts?|"
    r"invoices?|boarding pass(?:es)?|confirmations?|travel plans|schedule|e-?tickets?|booking details|"
    r"flight details|details|"
    r"confirmation number|history|(?:flights|tickets)(?! to| from))\b",
    r"^(?:hi |hello |, )*(?:the |my |a )?(?:gate|terminal|seat number|booking ref(?:erence)?|"
    r"confirmation(?: number| code| email)?|receipt|"
    r"invoice|boarding pass|departure time|arrival time|e-?ticket|pnr|itinerary|flight number|record "
    r"locator|layover|baggage"
    r" allowance|booking code|booking number|eta|etd)\b",
    r"\bwho (?:is|has|still|needs to)\b.*\b(?:approving|approve|holding|reviewing)\b.*\b(?:my|this|that)\b",
    r"\bdid (?:my|the) \w+(?: \w+){0,3} (?:go through|clear|work|arrive|land|leave|take off|get|come "
    r"through|happen)\b",
)
STATUS_OF_EXISTING: Final = compile_all(
    rf"\b{NOUN}\b.{{0,40}}\b(?:was|were|has been|have been) (?:already )?booked (?:for|by|to)\b",
    r"\b(?:on time|delayed|late|confirmed|ticketed|cancelled|canceled|gate|terminal|seat|boarding|landed|"
    r"layover|check-? ?in|refund|"
    r"receipt|invoice|ref|reference|number|code|status|included|allowance|approved|pending|cost|paid|"
    r"schedule|details|"
    r"overbooked|aircraft|duration|stops|meal|wifi|lounge|progress|options?)\b",
)
