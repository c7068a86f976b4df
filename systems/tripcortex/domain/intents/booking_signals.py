"""The words of a request for a new flight, and of sentences that ask for something else or nothing.

All patterns apply to one clause of a normalized text (`planner.text_normalization`): lower case, without
accents and apostrophes, commas as separate tokens. Each group is a tuple of patterns; one match is enough.
"""

from __future__ import annotations

import re
from typing import Final

from tripcortex.domain.intents.phrases import LEAD, compile_all

# --- a booking --------------------------------------------------------------------------------------------

_BOOKABLE: Final = (
    r"(?:flights?|tickets?|trips?|seats?|plane|one ?-? ?way|round ?-? ?trips?|return|single|airfare|travel|"
    r"fares?|"
    r"reservation|itinerary|day ?trip|something|journey)"
)
# A verb whose object is a new flight, or a journey that the employee has to make.
BOOK: Final = compile_all(
    rf"{LEAD}(?:book|reserve)\b",
    rf"{LEAD}(?:fly|flying|send|get|getting|bring|take) (?:me|myself|us|out|over|down|up|back|home|to|from|"
    rf"into|there)\b",
    rf"{LEAD}put me (?:on|onto|down)\b",
    r"\b(?:buy|get|find|arrange|organi[sz]e|order|plan|schedule|search|look|looking|need|want|like|require|"
    r"request|purchase|issue|give|"
    rf"requesting|prefer|sort|quote)(?: for| up| out| me| us| please| pls)* (?:(?:a|an|the|some|any|one|"
    rf"another|my|only|just|\d+) )*"
    rf"(?:(?!invoice|receipt|confirmation|visa|hotel|car\b|copy|refund|status|details|help|quote|"
    rf"approval)[\w-]+ )"
    rf"{{0,4}}?{_BOOKABLE}\b",
    r"\b(?:i|we|id|ill|im|ive) (?:\w+ ){0,3}?(?:need|needs|want|like|have|must|should|gotta|got|going|"
    r"planning|hoping|wish|wanna|will|shall|"
    r"ought|supposed|due|expected)(?: to| ?ta)? (?:\w+ ){0,2}?(?:fly|travel|be in|be at|be there|be back|"
    r"get to|get from|go to|go from|get "
    r"over|get out|get down|get up|get back|get home|visit|head|arrive|depart|leave|return|attend|reach|"
    r"land|make it to|come|present|"
    r"meet|speak|see)\b",
    r"\b(?:id|ill|i would|i will|i shall) (?:fly|leave|depart|travel)\b(?! (?:if|when|unless|only if))",
    r"\b(?:would|itd|it would) be (?:great|good|nice|lovely|ideal|best|perfect|helpful) (?:to|if i (?:can|"
    r"could|were able to)) "
    r"(?:be|get|fly|go|leave|travel|arrive|have)\b",
    r"\b(?:need|want|got|have|must|gotta|like|looking|hoping|wish|wanna)(?: to| ?ta) (?:\w+ )?(?:fly|"
    r"travel|be in|be at|be there|get to|get "
    r"from|go to|head to|get out|leave|depart|visit|land|arrive|reach|go home|get home)\b",
)
# A new flight without a verb: "a flight to Rome tomorrow".
BOOK_PHRASE: Final = compile_all(
    r"(?:^|(?<= - )|(?<= : ))(?:(?:please|pls|hi|hello|hey|,|and|then|now|also|ok) )*(?:one|1)?(?:a |an |"
    r"the |some )?(?:(?!my|"
    r"your|our|that|this)[\w-]+ ){0,4}?"
    r"(?:flights?|tickets?|one ?-? ?way|round ?-? ?trip|day ?trip|trip|single|return)\b",
)
# The start of a negated booking; `signals.NEGATED_ASIDE` are objects that only restrict it.
_NOT: Final = (
    r"(?:do not|dont|don t|never|not to|no need to|not|stop|did not|didnt|wouldnt|shouldnt|should not|cant|"
    r"cannot|rather not|refrain "
    r"from|hold off(?: on)?|hold on|not yet|avoid|wait|nobody (?:has )?(?:asked|asks|told) you to|without)"
)
NEGATED: Final = re.compile(
    rf"\b{_NOT} (?:yet |actually |want you to |want to |you |have to |need to |go ahead and |ask you to |"
    rf"asking you to |even |make you "
    r"|with |before |me to |just |please |for me to )*(?:book|booking|reserve|reserving|buy|buying|"
    r"purchase|purchasing|ordering|make a "
    r"booking|make any bookings?|make a reservation|planning anything|arranging|plan anything|arrange "
    r"anything|fly me|proceed)\b"
    r"(?P<object>[^|,]*)"
)
NEGATED_ASIDE: Final = re.compile(
    r"^ ?(?:me |us |it |anything |any |a |an |flights? |one |something |the )*(?:on|onto|with|via|through|"
    r"business|first|economy|premium|red|"
    r"overnight|connecting|hotels?|cars?|before|after|above|over|refundable|non|more than|late|early|"
    r"middle|basic|tight|that (?:leaves|"
    r"departs|arrives|has))\b"
)
NOT_A_REQUEST: Final = compile_all(
    r"\b(?:just|only) (?:asking|wondering|curious|checking|testing|browsing|a question|kidding|thinking|"
    r"dreaming|joking)\b",
    r"\bno booking\b|\bnothing to book\b|\bnot (?:a booking|booking)\b|\bfor information only\b|\bno need "
    r"to book\b",
    r"\b(?:nobody|no one|noone) (?:has )?(?:asked|told)\b|\bremind me\b",
    r"\b(?:dont|do not|wont|will not) (?:want to |need to |wish to |have to |plan to )?(?:fly|go|travel) "
    r"(?:to|home|there|anywhere)\b"
    r"(?!.*\b(?:but|instead|rather)\b)",
    r"\b(?:colleague|wife|husband|boss|manager|assistant|friend|he|she|they|brother|sister|son|"
    r"daughter)(?: [a-z]+)? (?:flies|is flying|"
    r"travels|is travelling|is traveling|goes|is going|flew|will fly|has booked)\b",
    r"\bremember that\b|\bnext time\b|\bfyi\b|\bfor your information\b|\b(?:just|only) a test\b|\bdraft "
    r"only\b|\bonly a draft\b|"
    r"\b(?:book|reserve|buy) nothing\b|\bno flights? (?:please|needed|required|necessary|for me)\b",
    # Somebody or something else flies.
    r"^(?:(?:hi|hello|hey|so|and|but|,) )*(?!(?:i|we|what|which|who|that|it|there|here|one|everything|"
    r"everyone)\b)"
    r"(?:(?:my|our|the|a) )?[a-z]+(?: [a-z]+)? (?:flies|is flying|travels|is travelling|is traveling|goes|"
    r"is going|will fly|"
    r"flew|has flown) (?:to|from|back|home|on|over|out|with)\b",
    r"^(?:(?:hi|hello|hey|so|and|but|,) )*(?!(?:i|we|id|it|that|this|what|who|which|there|one|he or "
    r"she)\b)[a-z]+(?: [a-z]+)? "
    r"(?:wants|needs|has|would like|plans|intends|is planning|is supposed|is due|is hoping|will have) to "
    r"(?:fly|go|travel|be|get|visit|leave)\b",
    r"\b(?:tell|ask|remind|let|get|have) (?!me\b|us\b|you\b|a\b|the\b|my (?:flight|ticket|trip))[a-z]+(?: "
    r"[a-z]+)? (?:to )?(?:book|reserve|buy)\b",
    r"\b(?:parcel|package|shipment|samples?|spare parts?|suitcase|luggage|documents?|equipment|machine|"
    r"prototype|goods|"
    r"freight|cargo|letter|crate)s? (?:has|have|needs?|must|should|is|are|will) (?:to )?(?:be )?(?:flown|"
    r"sent|shipped|"
    r"delivered|fly|go|get|transported|moved)\b",
    r"\b(?:will|ill|shall|i can) let you know\b|\bmaybe i(?:ll)?\b.*\bmaybe\b|\bi (?:may|might) or (?:may|"
    r"might) not\b|"
    r"\b(?:havent|not) (?:yet )?decided (?:yet )?(?:if|whether)\b|\bare you \w+ing\b",
    r"\bno flights? (?:to|from)\b.*\b(?:after all|any ?more|then|sorry|please)\b|\brather not (?:fly|go|"
    r"travel)\b|\b(?:im|i am) not (?:flying|"
    r"going|travel?ling)\b|\bi (?:wont|will not) (?:fly|go|travel|be flying)\b(?! (?:on|with|via|economy|"
    r"business))",
    r"\bhold off\b|\bnot yet sure (?:if|whether) i\b|\bdont do anything\b|\bdo nothing\b|\bjust (?:a "
    r")?price check\b",
)

# An instruction to the software at the start is not the employee's wish.
INJECTION: Final = re.compile(
    r"^(?:please )?(?:ignore|disregard|forget|override|bypass) (?:all |any |your |the |previous |prior |"
    r"above |these |those )*"
    r"(?:instructions?|prompts?|guidelines|rules)\b|^(?:system|assistant|admin)\b ?[|:]|^you are now\b"
)

# --- something else ---------------------------------------------------------------------------------------

TEXT_TASK: Final = compile_all(
    r"\b(?:summari[sz]e|translate|proof ?read|rewrite|rephrase|spell ?check|paraphrase|analy[sz]e this|"
    r"reply to this|answer this (?:mail|"
    r"email)|what does (?:this|the following)|explain this (?:mail|email|message|text)|forward this|read "
    r"this (?:mail|email|message|"
    r"text)|repeat after me|write (?:me )?(?:a|an) (?!off)|draft (?:a|an)|send the above)\b",
    r"\b(?:the|this|an?|my) (?:\w+ )?(?:mail|email|message|pdf|document|attachment|text|letter|note|web "
    r"?page|site|invoice|file)s? (?:\w+ )?"
    r"(?:says|said|reads|ends|contains|tells|asks|asked|claims|states|mentions|includes|started|starts|"
    r"goes)\b",
)
CHITCHAT: Final = re.compile(
    r"^(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|night|day)|thanks|thank you|thx|cheers|bye|"
    r"goodbye|great|ok|okay|cool|perfect|"
    r"nice|awesome|sorry|never ?mind|forget it|got it|no|yes|ciao|see you|there|so much|a lot|very much|"
    r"all|team|everyone|how are you|"
    r"how is it going|hows it going|how are things|whats up|today|doing|thats all|that is all|that will be "
    r"all|for now|for your help|"
    r"you|much|again|lol|haha|wow|test|testing|job|work|well done|good|fine|later|soon|have a (?:nice|good|"
    r"great) (?:day|weekend|one|"
    r"evening)|[,|-]) ?)+$"
)
OTHER_TOPIC: Final = compile_all(
    r"\b(?:weather|forecast|visas?|vaccinations?|vaccines?|jokes?|poem|song|recipe|restaurants?|exchange "
    r"rate|currency|time zone|"
    r"timezone|time is it|passport (?:renew\w*|expir\w*)|sightseeing|museums?|password|printer|laptop|vpn|"
    r"payroll|salary|vacation days|"
    r"expense report|stock|movie|football|who (?:are|made|built) you|what can you do|your name|are you "
    r"(?:a|an|human|real|ai)|"
    r"capital of|jet ?lag|adapter|tipping|things to do|time difference|population|how are you|real person|"
    r"human|agent|operator|"
    r"temperature|raining|snow|pack|safe to|charger|plug|sim card|speak to|talk to)\b",
    r"\bhow (?:long|far) (?:is|does|are) (?:the|a|it)\b(?!.*\bmy\b)|\bhow many miles\b|\bis it (?:safe|"
    r"cold|warm|hot|raining)\b",
)
NO_FLIGHT: Final = compile_all(
    r"\b(?:no|without|not|dont need (?:a|any|the)) flights?\b|\b(?:have|got|booked) (?:the|my) flights?\b|"
    r"\bflights? (?:is|are) (?:already )?"
    r"(?:booked|sorted|done|arranged)\b"
)
_SERVICE: Final = (
    r"(?:hotels?|hostels?|accommodation|airbnb|rooms?|apartments?|rental cars?|rent (?:me )?an?|car rental|"
    r"hire car|car hire|cars?|trains?|"
    r"eurostar|amtrak|rail|bus|taxi|cab|uber|lyft|limo(?:usine)?|cruise|ferry|parking|shuttle|airport "
    r"transfer|table for|meeting room|"
    r"conference room)"
)
OTHER_SERVICE: Final = compile_all(rf"\b{_SERVICE}\b")
# A service that the employee does not need.
NO_SERVICE: Final = re.compile(
    rf"\b(?:no|without|not|dont (?:book|need)(?: a| any| the)?|do not (?:book|need)(?: a| any| the)?|"
    rf"already have a) {_SERVICE}"
    rf"(?: (?:needed|required|necessary|please))?\b|\b(?:the |my )?{_SERVICE} (?:is|are) (?:already "
    rf")?(?:sorted|booked|arranged|done|not)\b|\bcar park\b"
)
FLIGHT_WORD: Final = compile_all(
    r"\b(?:fly|flying|flights?|flown|planes?|airfare|airlines?|air ?ticket|non ?-?stop|airline tickets?)\b"
)
PAST: Final = compile_all(
    r"\b(?:went|flew|travelled|traveled)\b|\b(?:flight|trip|ticket|it|that|which|fare)\b.* (?:was|were|"
    r"had been)\b",
    r"\b(?:i|we) (?:flew|was|were|went|travelled|traveled|had|took|have (?:been|flown)|ve (?:been|flown)|"
    r"returned|came|landed|visited|"
    r"missed|just (?:landed|arrived|got))\b",
    r"\b(?:last|past) (?:week|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"night)\b(?! (?:of|in) )|"
    r"\byesterday\b|\b\w+ ago\b",
)
HYPOTHETICAL: Final = compile_all(
    r"\bif i (?:had|were|was|wanted|needed|ever)\b|\b(?:(?<!i )suppose|imagine|hypothetically|"
    r"theoretically)\b|"
    r"\bwhat would it\b.*\bcost\b"
)
# A statement of where somebody or something is, and the words of a flight, which make it a request.
STATEMENT: Final = re.compile(
    r"\b(?:is|are|was|were|am|im|hes|shes|theyre|will be|be) (?:\w+ )?(?:in|at|"
    r"on|from|between)\b"
)
FLIGHT_OR_RETURN: Final = re.compile(
    r"\b(?:fly|flying|flights?|plane|tickets?|back|home|return\w*|one ?-? ?way|single|out|outbound|leav\w+|"
    r"depart\w*|book|trip|"
    r"travel\w*|nights?|needed|due|get|go|going|day ?trip)\b"
)
# Words of other people, and wishes that are none yet: they never book, whatever request they name.
NEVER_A_REQUEST: Final = compile_all(
    r"^(?:many )?(?:thanks|thank you|thx|cheers) for (?:the )?(?:booking|arranging|organi[sz]ing|sorting|"
    r"getting|planning)\b",
    r"\b(?:said|says|wrote|writes|asked|reads|read) ?\| ?(?:please |pls )?(?:book|fly|get|reserve|i |we |"
    r"can|could)",
    r"^(?:(?:so|and|but|hi|hello|,) )*(?!(?:i|we|you|they|get|just|only|please|not|have|flight|flights|"
    r"seat|room|hotel|is|are|was|"
    r"already|fully)\b)[a-z]+ (?:has |have |already |just )*booked (?!me\b|for me\b|on\b|solid|out|up)",
    r"\b(?:my|our|his|her|the) (?:wife|husband|boss|colleague|partner|manager|assistant|friend|daughter|"
    r"son|sister|brother|"
    r"mother|father|team|intern|ceo|cfo|cto|director|client|customer|team ?mate) (?:needs|wants|requires|"
    r"would like|is flying|is travelling)"
    r"(?! (?:me|us|to (?:meet|see|talk|speak|discuss|know)))\b",
    r"\b(?:might|may) (?:\w+ )?need\b.*\bnot (?:yet )?(?:sure|certain|clear|decided)\b|\bnot (?:yet "
    r")?(?:sure|certain) (?:yet|if i|whether i)\b",
    r"^not (?!.*\bbut\b)(?!(?:via|with|on|before|after|later|earlier|too|more|only|sure)\b)|\bnot a "
    r"flight\b|\bno flight[ ,|]|\bwithout (?:a )?flight\b",
    r"\bi was (?:thinking|dreaming|wondering)\b.*\b(?:but|wont|not)\b",
)
# The trip depends on something that has not happened: the employee may want it planned already.
CONDITIONAL: Final = compile_all(
    r"\b(?:if|once|as soon as|in case|when|unless|should) (?:the|my|our|a|their) (?:\w+ "
    r"){1,3}?(?:confirms?|agrees?|"
    r"says? yes|approves?|signs?|accepts?|decides?|goes ahead|allows?|go through|goes through)\b|"
    r"\b(?:depending on|subject to) (?:the|my|our) \w+",
)
# A question that asks for a flight: "is there any chance to fly to Rome?"
REQUEST_QUESTION: Final = compile_all(
    r"\b(?:is|are) there (?:any |a |some )?(?:chance|way|possibility) (?:to|of|that|for|you|i|we)\b|\bdo "
    r"you think (?:you|i|we) (?:could|can|might)\b|\b(?:is|would) "
    r"it (?:be )?possible to "
    r"(?:book|fly|get|go|travel|arrange|have)\b|\b(?:will|would|could|can) you\b|\b(?:can|could|may) (?:i|"
    r"we) (?:please )?(?:get|have|book|"
    r"fly|go|travel|request|order|take)\b|\bwhy not\b|\bdo you have\b.*\bfor me\b"
)
# Asks what there is to book: the employee may want it booked.
OFFER_QUESTION: Final = compile_all(
    r"^(?:(?:please|pls|can you|could you|hi|hello|hey|,) )*(?:show me|list|compare|look up)\b",
    r"\b(?:how much (?:is|are|does|do|would|will|for|to)|how expensive|whats the (?:price|cost|fare)|what "
    r"is the (?:price|cost|fare)|price "
    r"(?:of|for)|how cheap|check (?:the )?prices?|prices? for|fares? for|what (?:does|do|would) .{1,60} "
    r"cost)\b",
    r"\b(?:is|are) there (?:any |a |an |still |maybe )*(?:[\w-]+ ){0,4}?(?:flights?|seats?|connections?|"
    r"way|availability)\b",
    r"^(?:(?:hi|hello|hey|please|,|so|and|ok) )*(?:(?:what|which) (?:[\w-]+ ){0,2}?flights?|do(?:es)? "
    r"(?:[\w-]+ ){1,3}(?:fly|go|have)|who flies|"
    r"which airlines? (?:flies|fly|go|operate)|how (?:do|can|could|would) i (?:get|go|travel)|when (?:is|"
    r"does|are) the (?:next|first|last|"
    r"earliest|latest))\b",
)
