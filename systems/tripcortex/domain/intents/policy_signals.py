"""The words of a question about the company's rules, and of questions in general.

All patterns apply to one clause of a normalized text (`planner.text_normalization`): lower case, without
accents and apostrophes, commas as separate tokens. Each group is a tuple of patterns; one match is enough.
"""

from __future__ import annotations

import re
from typing import Final

from tripcortex.domain.intents.phrases import compile_all

# A condition on a request is not a question about the rule.
POLICY_ASIDE: Final = re.compile(
    r"\b(?:if|as long as|provided|whatever|assuming|within|in line with|as|whichever|per|according to|"
    r"subject to|unless|because|"
    r"what) (?:(?:the|our|its|it is|company|travel|thats|that is) )*polic(?:y|ies)(?: \w+)?(?: it| that| "
    r"this)?\b"
    r"|\bpolic(?:y|ies) (?:conference|summit|workshop|meeting|forum|event|team|briefing|committee|review|"
    r"institute)\b"
    r"|\b(?:if|as) (?:allowed|permitted)\b|\bin policy\b|\bmy (?:manager|boss) (?:has |already "
    r")*approved(?: it| this)?\b"
)
POLICY_WORDS: Final = compile_all(
    r"\b(?:business|economy|premium|first) (?:on|for|over|above|in)\b",
    r"\b(?:polic(?:y|ies)|rules?|allowed|allowances?|permitted|permissible|entitled|entitlement|eligible|"
    r"eligibility|per ?diems?|daily "
    r"rates?|reimburse(?:d|ment|able|ments)?|expens(?:e|es|ed|able|ing)|claim(?:s|able)?|covered|caps?|"
    r"ceiling|guidelines?|"
    r"limits?|thresholds?|approvals?|approvers?|sign[ -]?offs?|compliant|violation|out of policy|preferred "
    r"(?:airlines?|carriers?|"
    r"suppliers?|hotels?|vendors?)|authori[sz]ed|authori[sz]ation|prohibited|forbidden|banned|acceptable|"
    r"mandatory|required|"
    r"requirements?|exceptions?|corporate card|company card|company credit card|obliged|restrictions?|"
    r"restricted|nightly rate|"
    r"max(?:imum)?|business class|first class|premium economy|class|cabins?|permission|low cost carriers?|"
    r"refundable|lounges?|"
    r"miles|points|personal|upgrades?|tips|alcohol|laundry|mini ?bar|rental car|co2|carbon|spouse|partner|"
    r"advance)\b",
)
POLICY_ASK: Final = compile_all(
    r"\bwhat happens (?:if|when|to)\b|\bare there (?:any |some )*(?:\w+ )?(?:countries|airlines|hotels|"
    r"destinations|routes|"
    r"exceptions|limits|rules|restrictions)\b|\bwhats? (?:is )?(?:our|the company|the companys) (?:stance|"
    r"position|approach|line|"
    r"view|take|practice|standard)\b",
    r"^(?:if|whether) (?:i|we|it|one|employees) (?:can|may|am|could|should|is|need|have)\b|\b(?:within|in|"
    r"against|outside|out of) "
    r"(?:the |our |company |travel )*polic(?:y|ies)\b",
    r"\b(?:am i|are we|are you|is one|are \w+|is \w+|would i be|will i be|is a \w+) (?:\w+ "
    r"){0,3}?(?:allowed|permitted|entitled|"
    r"eligible|authori[sz]ed|required|obliged|supposed|expected)\b|\bare we allowed\b|\bam i allowed\b|"
    r"\bwe allowed\b",
    r"^(?:(?:hi|hello|hey|please|,|so|and|but|also|ok) )*(?:is|are|would|will) (?:it|that|this|there)? "
    r"?(?:be )?"
    r"(?:[\w-]+ ){0,7}?(?:ok|okay|fine|allowed|permitted|acceptable|"
    r"permissible|alright|all right|covered|reimbursed|reimbursable|forbidden|prohibited|banned|against "
    r"(?:the )?(?:rules?|policy)|"
    r"within policy|out of policy|mandatory|expensable|claimable|compulsory|possible to expense)\b",
    r"\b(?:what|whats|which|is there|are there|any|explain|tell me|remind me|clarify|know|question about|"
    r"where do i find)\b.{0,70}\b"
    r"(?:polic(?:y|ies)|rules?|limits?|caps?|allowances?|per ?diems?|maximum|max|thresholds?|guidelines?|"
    r"entitlement|procedure|"
    r"process for|requirements?|restrictions?|daily rate|nightly rate|notice period|approval process)\b",
    r"\bhow (?:much|many|far|long|early|late|often|soon|expensive|high|big)\b.*\b(?:may|can|am|should|must|"
    r"do|could) (?:i|we|you|one|"
    r"employees?|directors?|managers?|an|my|somebody|someone|people)\b",
    r"\bhow (?:much|many) .*\b(?:(?<!\d )may|allowed|permitted|reimbursed?|covered?)\b|\bhow far (?:in "
    r"advance|"
    r"ahead)\b",
    r"\b(?:from|after|above|over|beyond|at) (?:how many|what|which) (?:\w+ ){0,5}?(?:hours?|price|amount|"
    r"level|grade|fare|distance|"
    r"miles|cost|duration|length)\b",
    r"\b(?:do|does|would|will|did) (?:i|we|you|one|employees?|it|this|that|a|an|the|my|anyone|every\w*|\w+ "
    r"trips?) (?:[\w-]+ ){0,8}?"
    r"(?:need|require|have to|get) (?:[\w-]+ ){0,4}?(?:approval|approved|permission|sign[ -]?off|"
    r"authori[sz]ation|pre-?approval|"
    r"receipts?|ask|book|use|fly|pay)\b",
    r"\bwho (?:has to|must|needs to|can|should|may|will|would|do i|does|approves?|signs?|gets?|pays?|"
    r"decides?)\b",
    r"\b(?:is there|whats?|what is) (?:an? |the )?(?:\w+ )?(?:fee|charge|penalty)\b",
    r"^(?:must|should|shall) (?:i|we|one|employees?|contractors?|people) (?:\w+ )?(?:take|use|book|fly|"
    r"choose|accept|"
    r"pay|keep|submit|get|ask|go|travel|share|hand|stay)\b",
    r"\b(?:do|does|must|should|can|may|could) (?:contractors?|interns?|employees?|directors?|managers?|"
    r"freelancers?|"
    r"consultants?|staff|everyone|everybody|new hires)\b",
    r"\b(?:in principle|in theory|at (?:the )?(?:companys?|firms?) (?:cost|expense)|on the company(?: card)?|"
    r"on company money)\b",
    r"\b(?:paid|covered|reimbursed|refunded) by the (?:company|firm|employer)\b|\bdo i pay\b.*\bmyself\b|"
    r"\bmembers of the (?:board|team|leadership)\b",
    r"\bhow (?:do|can|should) (?:i|we) (?:claim|expense|get reimbursed|submit|get (?:it|this|that|the "
    r"money) back)\b",
    r"\bwhose (?:approval|permission|sign)\b",
    r"\b(?:which|what) (?:\w+ )?(?:airlines?|carriers?|hotels?|class(?:es)?|cabins?|suppliers?|fares?|"
    r"expenses?|meals?|level|grade|"
    r"class of travel|destinations?|countries|receipts?|costs?|category|type|kind|seats?|services?|"
    r"cards?)\b.{0,60}\b(?:allowed|"
    r"permitted|preferred|prohibited|banned|forbidden|can|may|do|does|should|must|need|requires?|approved|"
    r"company|directors?|"
    r"employees?|managers?|people|covered|refundable|are we|considered|count)\b",
    r"\b(?:does|do|will|would|can|is) (?:the |our )?(?:company|firm|employer|polic(?:y|ies)|business class|"
    r"premium economy|first class|"
    r"gold status)\b.{0,60}\b(?:pay|cover|reimburse|allow|permit|say|provide|refund|require|include|accept|"
    r"mandate|apply|prefer|let|ok|"
    r"okay|fine|get|give|mean|possible|count|need|exist|have)\b",
    r"\b(?:may|can|could|should|shall|do) (?:i|we|one|employees?|anyone|somebody|someone|directors?|"
    r"managers?|interns?|contractors?|"
    r"consultants?|people|my \w+|a \w+|an \w+) (?:[\w-]+ ){0,2}?(?:expense|claim|keep|use|combine|take|"
    r"bring|upgrade|stay|charge|"
    r"choose|pay|extend|rent|get reimbursed|spend|collect|earn|share|order|book (?:myself|my own|outside|"
    r"on my own|business|first|"
    r"premium|directly|direct|a hotel|hotels|refundable|flexible|airbnb|through|via|last)|fly (?:in "
    r")?(?:business|first|premium|low|"
    r"with|budget|private)|travel (?:in )?(?:business|first|premium|with)|sit in|go business|have (?:a |an "
    r"|the )?(?:lounge|drink|"
    r"alcohol)|work from|join|accept|drive|tip)\b",
    r"\bwhen (?:can|may|am|are|is|do|does|must|should) (?:i|we|one|employees?|business|first|premium|an?|"
    r"it|directors?|approval|trips?)"
    r"\b.*\b(?:business|first|premium|class|allowed|approval|permitted|ok|okay|upgrade|expense|claim|"
    r"reimburse|submit|advance|"
    r"required)\b",
    r"\b(?:according to|under|against|as per) (?:the |our |company |corporate |travel )+(?:polic(?:y|ies)|"
    r"rules?|guidelines?)\b",
    r"\b(?:travel|company|our|the|corporate|expense|booking|cancellation|baggage|luggage|hotel|airline) "
    r"(?:\w+ )?(?:polic(?:y|ies)|rules|"
    r"guidelines?)\b",
    r"^(?:the )?(?:max(?:imum)?|nightly|daily|per ?diem|hotel cap|meal allowance|price limit|cap|limit|"
    r"allowance|polic(?:y|ies))\b.*\b"
    r"(?:in|for|on|rate|diem|cap|limit|allowance|per|a night|a day)\b",
)
# A sentence with these is about the rule, even if it names a booking.
RULE: Final = compile_all(
    r"\b(?:rules?|polic(?:y|ies)|guidelines?|allowed|permitted|entitled|eligible|per ?diems?|reimburs\w+|"
    r"expense[ds]?)\b|\b(?:does|will|would) the (?:company|firm|employer)\b|\b(?:contractors?|employees|"
    r"interns)\b|"
    r"\bis it (?:ok|okay|alright|all right|fine|acceptable) (?:if|to|for|that)\b|\bhow (?:do|can|should) "
    r"(?:i|we) claim\b"
)
# Introduces a question.
ASKING: Final = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|so|and|ok|,) )*(?:(?:i|we|id) (?:just |really )?(?:want|need|would "
    r"like|like|have)(?: to)? (?:know|find out|check)|"
    r"(?:can|could|would) you (?:please |kindly )?(?:tell me|check|let me know|confirm|find out|look up|"
    r"see)|let me know|tell me|do you know|"
    r"id like to know|(?:im |i am |i was |just )*wondering|i wonder|any idea|not sure|please (?:tell me|"
    r"check|confirm)|check|"
    r"(?:im |i am )?(?:just )?checking|just confirming|confirm)(?: that| on| about)?,? "
)
QUESTION_START: Final = compile_all(
    r"^(?:(?:hi|hello|hey|please|pls|quick question|question|so|and|also|ok|okay|um|sorry|excuse me|good "
    r"(?:morning|afternoon|evening)|"
    r"dear \w+|just wondering|just asking|but|then|[,-]) )*(?:what|whats|which|who|whos|whom|whose|when|"
    r"where|wheres|how|hows|why|is|"
    r"are|am|can|could|may|do(?! the needful)|does|did|will|would|should|shall|must|has|have|was|were|"
    r"whether|if i|tell me "
    r"(?:if|whether|what|"
    r"when|how)|explain|remind me|wondering|i wonder|any idea|do you know|isnt|arent|doesnt|hasnt)\b"
)

# A clause that asks for information, and never for an action: "can you …" does.
INFORMATION: Final = re.compile(
    r"^(?:(?:hi|hello|hey|please|pls|question|so|and|also|ok|okay|sorry|but|,) )*(?:what|whats|which|who|"
    r"whos|when|where(?! (?:do|can|could) i (?:change|cancel))|wheres|how(?! (?:do|can|could) i)|hows|"
    r"why|is|are|am|do|does|did|has|have|hasnt|was(?! to )|were|will (?!you)|would (?!you|like|be (?:great|"
    r"good|nice|lovely|ideal|best|perfect|helpful))|should|"
    r"isnt|arent|doesnt)\b"
)
