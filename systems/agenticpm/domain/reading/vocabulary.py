"""The words by which states of tickets, risks, assumptions and the like are recognised, by language.

Each pattern is a list of alternatives; `_any` compiles them without case. `_w` adds word boundaries.
"""

from __future__ import annotations

import re
from typing import Final


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{each})" for each in alternatives), re.IGNORECASE)


# --- blocked ------------------------------------------------------------------------------------------------

BLOCKED: Final = _any(
    r"^(?:still |currently |now |sadly |unfortunately )?(?:blocked|stuck)\b(?! (?:no|user|ip|account"
    r"|request))",
    r"\b(?:is|are|am|be|being|remains?|still|now|completely|fully|currently|'s|'re|'m|we|this|it|ticket)"
    r" (?:\w+ ){0,2}(?:blocked|stuck|at a standstill|dead in the water)\b",
    r"\b(?:blocked|stuck|stalled) (?:by|on|until|because|since|at|due|waiting|here)\b",
    r"\b(?:can(?:not|'t|’t)|could not|unable to|not able to|no way to) (?:\w+ ){0,2}"
    r"(?:continue|proceed|go on|go ahead|move on|move forward|go further|progress|carry on|start|begin)\b",
    r"\bnothing (?:more |else )?(?:we|i) can do\b|\b(?:is|are) blocking (?:us|this|me|the team)\b",
    r"\bno progress (?:possible|until)\b|\b(?:at|to) a standstill\b|\bwork (?:has )?stopped\b",
    r"^(?:noch |weiter |leider |derzeit |aktuell )?blockiert\b",
    r"\b(?:ist|sind|bin|bleibt|bleiben|noch|weiterhin|komplett|derzeit|aktuell|wir|uns|seit)"
    r" (?:\w+ ){0,3}blockiert\b|\bblockiert (?:durch|von|uns|seit|weil|bis)\b|\bsteck(?:t|en|e) fest\b",
    r"\b(?:kommen?|geht|gehts) (?:\w+ ){0,3}nicht (?:\w+ )?weiter\b|\bhäng(?:t|en|e) (?:fest|am|an|beim?)\b",
    r"\bkönnen (?:wir )?(?:\w+ ){0,3}(?:nicht|erst) (?:weiter|anfangen|beginnen|fortfahren|starten)",
    r"\b(?:steht|stehen) still\b",
    r"^(?:toujours |encore )?bloqu[ée]e?s?\b",
    r"\b(?:est|sont|suis|sommes|reste|restons|toujours|encore) (?:\w+ ){0,2}bloqu[ée]e?s?\b",
    r"\bbloqu[ée]e?s? (?:par|depuis|car|tant|jusqu|en attendant)\b|\bnous bloque\b|\bà l['’]arrêt\b",
    r"\b(?:peux|peut|pouvons|pouvoir|peuvent) (?:pas|plus|rien) (?:\w+ ){0,2}(?:avancer|continuer"
    r"|commencer|faire)\b",
    r"^(?:sigue |sigo )?bloquead[oa]s?\b",
    r"\b(?:está|están|estamos|estoy|sigue|siguen|seguimos|queda|quedó|aún|todavía) (?:\w+ ){0,2}"
    r"(?:bloquead|atascad|parad|detenid)[oa]s?\b|\bbloquead[oa]s? (?:por|hasta|desde|porque)\b"
    r"|\bnos bloquea\b",
    r"\bno (?:podemos|puedo|se puede) (?:\w+ ){0,2}(?:avanzar|seguir|continuar|empezar|hacer nada)\b",
    r"\b(?:è|siamo|sono|resta) (?:\w+ ){0,2}bloccat[oaie]\b|\bbloccat[oaie] (?:da|dal|dalla|fino|perché)\b",
    r"\b(?:está|estamos|continua) (?:\w+ ){0,2}bloquead[oa]s?\b|\bgeblokkeerd (?:door|tot|omdat|sinds)\b",
)
NOT_BLOCKED: Final = _any(
    r"\b(?:not|no longer|never|isn'?t|isn’t|aren'?t|nothing(?: is| here)?|nobody is|hardly)\s+(?:\w+ ){0,2}"
    r"(?:block\w*|stuck|stalled)\b",
    r"\b(?:blocked|stuck|blocking)\b.{0,25}\b(?:any ?more|no longer)\b|\bunblock\w*\b|\bno blockers?\b",
    r"\b(?:was|were|had been|used to be|got) (?:\w+ )?(?:blocked|stuck)\b",
    r"\bnicht (?:mehr |länger )?blockiert|\bkeine? blocker|\bwar(?:en)? (?:\w+ ){0,3}blockiert|\bentblockt",
    r"\b(?:plus|pas|n'est|n’est|aucun|rien) (?:\w+ ){0,4}bloqu|\bdébloqu|\bétai(?:t|ent) (?:\w+ )?bloqu",
    r"\b(?:ya )?no (?:\w+ ){0,2}(?:está\w*|estamos|hay|nos) (?:\w+ ){0,2}bloque|\bdesbloque|\bsin bloqueos?"
    r"|\bestaba(?:n|mos)? (?:\w+ ){0,2}bloquead|\bya no\b.{0,30}\bbloque|\bnada (?:nos )?bloque",
    r"\bnon (?:\w+ ){0,3}bloccat|\bsbloccat|\bniet (?:meer )?geblokkeerd",
)

# --- resolved -----------------------------------------------------------------------------------------------

# Words that end the matter in their own sentence.
RESOLVED: Final = _any(
    r"\b(?:is|are|was|were|been|got|now|all|has|have|that's|it's) (?:\w+ ){0,2}(?:resolved|solved|sorted"
    r"|settled|fixed"
    r"|mitigated|averted|dealt with|cleared up|cleared|lifted|sorted out|eliminated|retired)\b",
    r"\b(?:behind us|off the table|no longer|any ?more|a thing of the past|not an issue|not a problem"
    r"|gone (?:now|with|away)"
    r"|(?:is|are) gone|is over|back to normal|up again|working again|back (?:up|online))\b",
    r"\b(?:resolved|solved|sorted|settled|fixed|unblocked|done|erledigt|gelöst|résolu|resuelto|solucionado)"
    r"(?: now| today| already)?[.!]?$",
    r"\b(?:erledigt|gelöst|behoben|vom tisch|hat sich erledigt|nicht mehr|kein thema mehr|abgewendet"
    r"|ausgeräumt|geklärt)\b",
    r"\b(?:résolue?s?|réglée?s?|levée?s?|écartée?s?|derrière nous|n'est plus|n’est plus|n'y a plus"
    r"|n’y a plus|plus de risque"
    r"|plus rien|de retour)\b",
    r"\b(?:resuelt[oa]s?|solucionad[oa]s?|superad[oa]s?|descartad[oa]s?|ya no|quedó atrás|ya pasó"
    r"|arreglad[oa]s?)\b",
    r"\b(?:risolt[oaie]|non più|resolvid[oa]s?|já não|opgelost|niet meer|van de baan)\b",
)
# Words in a later comment that end what was said before it.
LATER_RESOLVED: Final = _any(
    RESOLVED.pattern,
    r"\b(?:unblocked|confirmed|arrived|received|approved|granted|delivered|answered|works|working|is here"
    r"|are here"
    r"|is back|are back|got (?:it|them|the|an?)|came (?:in|through|back)|went (?:well|through)"
    r"|we have (?:it|them|the)"
    r"|(?:has|have|was|were) (?:\w+ )?(?:restored|replaced|renewed|signed|released|replied|fixed))\b",
    r"\b(?:da ist|ist da|sind da|eingetroffen|bestätigt|freigegeben|geliefert|erhalten|geantwortet"
    r"|läuft wieder|wieder da"
    r"|funktioniert|genehmigt|weiter geht)\b",
    r"\b(?:reçue?s?|confirmée?s?|arrivée?s?|livrée?s?|validée?s?|répondu|débloqué\w*|approuvée?s?"
    r"|rétablie?s?|c'est bon)\b",
    r"\b(?:recibid[oa]s?|confirmad[oa]s?|llegó|llegaron|aprobad[oa]s?|entregad[oa]s?|respondió"
    r"|desbloquead\w*|ya está"
    r"|ya tenemos|ya funciona)\b",
)
_NOT_YET: Final = (
    r"\b(?:not|n['’]t|no|never|until|unless|once|before|when|if|waiting|await\w*|still|nicht|noch|kein\w*"
    r"|erst|bis|wenn|falls"
    r"|sobald|warte\w*|pas|aucun\w*|tant que|avant|quand|si|attend\w*|attente|hasta|cuando|antes|espera\w*"
    r"|sin|todavía|aún)\b"
)
NOT_YET: Final = _any(_NOT_YET)

# --- assumptions --------------------------------------------------------------------------------------------

ASSUMPTION: Final = _any(
    r"\b(?:we|i|we're|we’re|i'm|i’m|team|plan|estimate|estimates|budget|schedule|everyone|all of us|quote"
    r"|offer|figures?"
    r"|calculation|design|date)\b(?: \w+){0,4}? (?:assum(?:e|es|ed|ing)|presum(?:e|es|ing)|presuppos(?:e"
    r"|es|ing))\b",
    r"^(?:\w+ ){0,3}(?:assuming|presuming|supposing)(?: that)?\b|[,;:–-] (?:assuming|presuming)(?: that)?\b",
    r"\b(?:on|under|with|our|the|one|key|main|working|my) (?:\w+ )?assumptions?(?: here| is| are| that"
    r"| behind|:)",
    r"^assum(?:ption|ed|e)s?\b ?(?:\w+ )?[:–-]|\bassumption\s?[:–]|\bpresumably\b",
    r"\b(?:we|i)(?:'re|’re|'m|’m)?(?: \w+){0,2} (?:tak(?:e|ing) (?:it )?(?:for granted|as (?:given|read"
    r"|a given))|taking it)\b",
    r"\btak(?:e|en|ing) (?:it )?(?:for granted|as read|as (?:a )?given) that\b|\bworking on the basis that\b"
    r"|\b(?:on|from) the (?:basis|premise|understanding) that\b|\bcounting on the fact\b|\bpremise is\b",
    r"\b(?:i|we) (?:\w+ )?take it (?:that|you|we|the)\b|\b(?:i|we)(?:'re|’re)? (?:\w+ )?(?:reckon(?:ing)?"
    r"|count(?:ing)?|bank(?:ing)?) (?:on|with|that)\b",
    r"\b(?:we|i) (?:\w+ )?expect (?:that )?(?:\w+ ){1,5}?(?:to|will|still) (?:\w+ )?(?:keep|stay|remain"
    r"|continue|hold|be available|provide|accept|cover|suffice)\b",
    r"\brechne[n]? (?:\w+ ){0,3}damit\b|\bverlassen uns darauf\b|\b(?:nous comptons|on compte"
    r"|je compte) (?:\w+ )?sur\b|\bcontamos con (?:que|el|la)\b",
    r"\b(?:wir|ich|man|alle)? ?(?:geh(?:en|e|t)) (?:\w+ ){0,3}(?:davon|von) (?:\w+ ){0,4}aus\b|\bgeh(?:en"
    r"|e|t) davon aus\b",
    r"\bdavon ausgegangen\b|\bausgehend davon\b|\bdavon aus(?:gehend)?, dass\b",
    r"\b(?:unter|in) der (?:annahme|voraussetzung)\b|\bannahmen?\s?(?:ist|:|dabei|dass|, dass)"
    r"|\bdie annahme\b",
    r"\bwir nehmen (?:\w+ ){0,2}an\b|\bnehmen wir (?:\w+ ){0,2}an\b|\bsetz(?:en|t) (?:\w+ ){0,2}voraus\b"
    r"|\bunterstell(?:en|t)"
    r" (?:wir|dabei|,? dass)\b|\bwir unterstellen\b|\bvorausgesetzt,",
    r"\bpart(?:ons|ant|ir|ent|s|t)? (?:\w+ )?(?:du principe|de l['’]hypothèse|de l['’]idée)\b|\b(?:on|nous"
    r"|je) "
    r"(?:suppos(?:e|ons)|présum(?:e|ons)|consid[ée]r(?:e|ons) (?:comme )?acquis)\b|\bhypothèses?\s?:",
    r"\b(?:en )?(?:supposant|présumant) que\b|\bsous (?:l['’]hypothèse|réserve de supposer)\b|\b(?:pour"
    r"|comme) acquis\b"
    r"|\bhypothèse (?:est|que|de travail|retenue)\b",
    r"\b(?:suponemos|supongo|asumimos|asumo|presuponemos|se (?:asume|supone)|damos por (?:hecho|sentado"
    r"|supuesto|descontado)"
    r"|doy por (?:hecho|sentado))\b|\bpartimos (?:de la base|del supuesto|de la idea|de que)\b",
    r"\bsuponiendo que\b|\bsupuestos?\s?:|\b(?:el|nuestro|bajo el|un) supuesto (?:es|de|que)\b"
    r"|\basumiendo que\b",
    r"\b(?:supponiamo|presumiamo|assumiamo|diamo per scontato|partiamo dal presupposto)\b|\bipotesi\s?:",
    r"\b(?:supomos|assumimos|pressupomos|presumimos|damos como certo|partimos do princípio)\b"
    r"|\bpressuposto\s?:",
    r"\b(?:gaan|ga) (?:we |ik )?(?:er ?)?vanuit\b|\baannames?\s?:|\bwe nemen aan\b|\bwe veronderstellen\b",
)
NO_ASSUMPTION: Final = _any(
    r"\b(?:not|never|n['’]t|no longer|don['’]t) (?:\w+ ){0,2}(?:assum|presum|take (?:it )?for granted)",
    r"\bassumptions?\b.{0,40}\b(?:wrong|confirmed|checked|verified|holds|held|proved|proven|true"
    r"|dropped)\b|\bno assumptions?\b",
    r"\b(?:nicht|nie) (?:\w+ ){0,3}davon aus(?:gehen)?\b|\bkeine annahmen?\b"
    r"|\bannahme\b.{0,40}\b(?:bestätigt|falsch|geprüft)\b"
    r"|\bannahme (?:von|der|des|nur)\b|\bne (?:\w+ )?(?:partons|supposons) pas\b|\bno (?:asumimos"
    r"|suponemos|damos)\b",
    r"\bassum(?:e|es|ing) (?:the )?(?:role|responsibility|control|office)\b",
)

# --- risks --------------------------------------------------------------------------------------------------

# The word itself, in a sentence that asserts a risk.
RISK_WORD: Final = _any(
    r"^(?:\w+ )?risks?\s?(?:#?\d+\s?)?[:–-]\s?\S",
    r"\b(?:there(?:'s|’s| is| are| remains?)|i see|we see|we (?:have|run|carry|face)|i have|poses?|is"
    r"|remains?|carries|big|bigger"
    r"|biggest|main|real|serious|high|considerable|some|only|one|another|growing|significant|the"
    r"|a) (?:\w+ ){0,3}?risks?"
    r"(?: here| now| \w+)? (?:that|is|of|to|if|for|when)\b",
    r"\b(?:risk|risking|risks) (?:slipping|missing|losing|having|delays?|a delay|being|not|running|going"
    r"|failing|an? \w+)\b",
    r"\b(?:is|are|be|puts?|putting|now|seriously) (?:\w+ ){0,5}at (?:\w+ )?risk\b|\bin (?:danger"
    r"|jeopardy)\b|\bjeopardi[sz]\w*"
    r"|\bendanger\w*|\bthreaten(?:s|ed|ing)?\b",
    r"\b(?:i|we|i'm|i’m|am|are|we're|we’re|really|bit|quite|still|me|us|what|also|very"
    r"|somewhat) (?:\w+ ){0,3}?(?:worr(?:y|ies|ied)|"
    r"concern(?:s|ed)?|afraid|fear|fears|nervous|uneasy|bothers?|scares?)\b",
    r"\bmy (?:\w+ )?(?:worry|concern|fear)\b|\bworr(?:ied|ying)\b|\bkeeps me (?:awake|up)\b|\bdanger (?:is"
    r"|of|that)\b",
    r"\bone more \w+ and\b|\bor (?:else )?(?:we|the \w+)(?: will|['’]ll)? (?:lose|miss|slip)\b"
    r"|\bwill probably (?:slip|be late|miss|overrun)\b",
    r"\b(?:real|good|high|fair|big|decent|serious|strong|every|small|growing) (?:chance|possibility"
    r"|likelihood|probability)\b",
    r"\bthere(?: is|'s|’s) (?:still )?(?:an? |some )(?:\w+ )?(?:chance|possibility|danger) (?:that|of"
    r"|we)\b|\bit is (?:quite |very )?possible that\b",
    r"\bes kann (?:\w+ ){0,3}sein, dass\b|\b(?:gut|durchaus) möglich, dass\b|\bil (?:est (?:fort "
    r"|bien )?possible|se (?:peut|pourrait)) que\b",
    r"\b(?:es (?:muy |bastante )?(?:posible|probable)|hay (?:muchas |serias )?posibilidades de) que\b"
    r"|\bfortes chances\b|\bexpuest[oa]s a\b",
    r"^risik(?:o|en)\s?[:–-]|\b(?:das|ein|ein(?:ziges|em)?|großes|grosses|größte[rs]?|hohes|besteht|sehe"
    r"|sehen|bleibt|haben|mit dem|dem)"
    r" (?:\w+ ){0,3}risiko\b(?! (?:bewertung|klasse|modell))|\bgefahr(?:,| dass| besteht|:)|\b(?:sehe"
    r"|besteht) (?:\w+ ){0,3}gefahr\b",
    r"\b(?:droht|drohen)\b|\bgefährde[tn]\b|\b(?:be)?fürchte(?:n|t)?\b|\bsorge[n]?,? (?:dass|um|macht"
    r"|wegen)\b|\bmacht mir sorgen?\b"
    r"|\bmache[n]? (?:mir|uns) sorgen\b|\bauf der kippe\b",
    r"^risques?\s?[:–-]|\b(?:un|le|il y a|existe|gros|vrai|seul|principal|grand) (?:\w+ ){0,2}risque (?:de"
    r"|que|d['’]|est|qu['’])",
    r"\b(?:on|nous|qui|cela|ça|projet|ce|il|elle|livraison|date|équipe) (?:\w+ )?risqu(?:e|ons|ent"
    r"|erait) (?:fort )?(?:de|d['’])",
    r"\b(?:crain(?:s|t|ons)|redout(?:e|ons)|inqui(?:et|ète|ets|étude|étant)|m['’]inquiète|nous inquiète"
    r"|menace|peur (?:que|de))\b",
    r"^riesgos?\s?[:–-]|\b(?:hay|existe|un|el|con el|corremos|corre|gran|principal"
    r"|veo) (?:\w+ ){0,2}riesgo (?:de|que|es)\b",
    r"\b(?:me|nos) preocupa\b|\bpreocupad[oa]s? (?:por|de|porque)\b|\btem(?:o|emos) que\b|\bpeligra\b"
    r"|\ben (?:peligro|riesgo)\b"
    r"|\bnos arriesgamos\b|\bmiedo (?:a|de) que\b",
    r"\b(?:c['’]è|esiste|un|il) (?:\w+ ){0,2}rischio (?:di|che)\b|\btem(?:o|iamo) che\b|\b(?:mi"
    r"|ci) preoccupa\b|\brischiamo\b",
    r"\b(?:há|existe|um|o) (?:\w+ ){0,2}risco (?:de|que)\b|\breceio que\b|\bpreocupa-(?:me|nos)\b",
    r"\b(?:een|het) (?:\w+ ){0,2}risico (?:dat|op|is)\b|\bbang dat\b|\bdreigt\b|\bmaak me zorgen\b",
)
NO_RISK: Final = _any(
    r"\b(?:no|not an?|not the|without|zero|hardly any|low|little|minimal|never a"
    r"|any)\s+(?:\w+ ){0,2}(?:risks?|danger|threat)\b",
    r"\brisks?\s?[:–-]?\s?(?:none|nil|n/a|no\b|not? identified|keine?s?\b|aucun|ningun|niedrig|low\b|-$)"
    r"|\bnothing risky\b|\brisk-free\b",
    r"\b(?:not|n['’]t|no|nothing to|no longer|never|no need to be|without being|no reason to) (?:\w+ ){0,2}"
    r"(?:worr\w+|concern\w*|afraid|fear\w*|nervous|at risk|in danger|threaten\w*)\b|\bworr\w+ below\b",
    r"\b(?:there )?(?:was|were|had|used to be) (?:\w+ ){0,2}(?:an? |the )?risks?\b.{0,80}\b(?:but|now"
    r"|since|gone|has)\b",
    r"\bkein(?:e|en|er|s)?\s+(?:\w+ ){0,2}(?:risik\w*|gefahr\w*|sorge\w*)\b|\bohne (?:\w+ )?(?:risiko"
    r"|gefahr)\b|\brisikolos\b"
    r"|\bnicht (?:\w+ )?(?:gefährdet|in gefahr)\b",
    r"\b(?:aucun|pas (?:de|d['’]un)|sans|nul|plus de|plus aucun)\s*(?:\w+ ){0,2}(?:risque|danger"
    r"|inquiétude)s?\b|\bn['’]est pas inqui",
    r"\b(?:sin|ningún|no hay|no existe|no vemos|no veo|ya no hay|no supone)\s+(?:\w+ ){0,2}(?:riesgos?"
    r"|peligro)\b|\bno (?:me|nos) preocupa",
    r"\b(?:nessun|senza|sem|nenhum|geen|zonder)\s+(?:\w+ ){0,2}(?:rischio|risco|risico)\b",
    r"\brisk (?:scor|model|register|appetite|class|assess|rating|analys|level|categor|report|team|officer"
    r"|management|owner|engine|rule"
    r"|factor|profile|matrix|weight|band|grade|threshold|department|function|committee|review|log|type"
    r"|data|score)\w*",
)
# An outcome that nobody wants.
_BAD: Final = (
    r"\b(?:los(?:e|ing|es|t)|miss(?:ed|es|ing)?|slip\w*|late|later|delay\w*|fail\w*|without|postpone\w*"
    r"|push(?:ed)? (?:out|back)"
    r"|penalt\w+|overrun\w*|run out|shortage|short of|not (?:be )?(?:\w+ ){0,3}(?:ready|able|enough|make"
    r"|leave|finish|ship|deliver|reach|go|hold"
    r"|arrive|get|have|work|fit|start|launch|open|before|in time|possible)|no (?:\w+ ){0,2}(?:time|chance"
    r"|way|capacity|slot|budget|room)|too late"
    r"|cannot|can['’]t|won['’]t|unable|impossible|slow(?:s|er)?|stop(?:s|ped)?|cancel\w*|refus\w+"
    r"|reject\w*|break\w*|redo|start over|rework"
    r"|drop(?:s|ped)? out|weeks? (?:more|behind|longer)|behind|again|extra|double|worse|outage|overload\w*"
    r"|collapse\w*|fall over|fined?"
    r"|nicht|kein\w*|ohne|versp[äa]t\w*|verzöger\w*|verschieb\w*|verschoben|scheiter\w*|platz(?:t|en)"
    r"|ausf[aä]ll\w*|fehlen|knapp|zu sp[äa]t"
    r"|teurer|verlier\w*|verpass\w*|gefährde\w*"
    r"|retard\w*|manqu\w+|perd\w+|sans|arrêt\w+|interromp\w+|suspend\w+|report\w+|décal\w+|gliss\w+"
    r"|échou\w+|trop tard|impossible|pas (?:\w+ )?(?:prêt|tenir|livrer|possible)\w*"
    r"|repouss\w+|compromet\w*|refus\w+|pénalit\w+"
    r"|retras\w+|perder\w*|perdemos|fallar\w*|sin|aplaz\w+|tarde|no (?:\w+ ){0,3}(?:llegar\w*|podr\w+"
    r"|esta\w+|alcanz\w+|da tiempo)|imposible"
    r"|posponer|incumpl\w+|multa\w*|quedar\w* sin|parar\w*|detener\w*"
    r"|ritard\w+|perdere|senza|atras\w+|perder|sem|vertrag\w*|te laat|zonder)\b"
)
BAD_OUTCOME: Final = _any(_BAD)
_CONDITION: Final = (
    r"\b(?:if|should|unless|in case|otherwise|or else|falls|sollte[nt]?|wenn|sonst|andernfalls|sofern|si"
    r"|s['’]ils?|au cas où|sinon|faute de"
    r"|de lo contrario|en caso de|se|caso|senão|als|anders)\b"
)
CONDITION: Final = _any(_CONDITION)
# A future or possible event. A condition with one, and a bad outcome, is a risk.
POSSIBLE: Final = _any(
    r"\b(?:could|would|will|may|might|won['’]t|['’]ll|going to|is likely|are likely)\b",
    r"\b(?:könn(?:te|ten|en)|kann|würde[n]?|wird|werden|dürfte[n]?|müss(?:en|ten?)|reicht|schaffen)\b",
    r"\b(?:pourr\w+|risqu\w+|ser(?:a|ait|ont|aient)|aur(?:a|ait|ons)|devr\w+|\w+(?:erons|era|erait|eront"
    r"|irons|ira))\b",
    r"\b(?:podr\w+|puede[n]?|quedar\w+|será[n]?|tendr\w+|habr\w+|\w+(?:aremos|eremos|iremos|aría|ería|iría"
    r"|arán|erán))\b",
    r"\b(?:potrebbe\w*|potrà|sarà|poder\w+|pode[m]?|será|zou(?:den)?|zal|kan)\b",
)
MAYBE: Final = _any(
    r"\b(?:may|might|could|likely|probably|possibly|perhaps)\b",
    r"\b(?:könnte[n]?|vielleicht|möglicherweise|womöglich|wahrscheinlich|eventuell|dürfte[n]?)\b",
    r"\b(?:pourrai(?:t|ent)|peut-être|probablement|sans doute|risque)\b",
    r"\b(?:podría[n]?|puede que|quizás?|tal vez|probablemente|a lo mejor)\b",
    r"\b(?:potrebbe\w*|forse|poderia\w*|talvez|zou(?:den)? kunnen|misschien)\b",
)
# Outcomes that are bad for a schedule, which `MAYBE` makes a risk without a condition.
SERIOUS: Final = _any(
    r"\b(?:slip(?:s|ped|ping)?|be (?:\w+ )?late|stop (?:working|the)|fall behind|drop out|not make (?:it"
    r"|the)|leav\w+ (?:\w+ ){1,4}without|delay\w*|miss (?:the|our|its)|lose (?:the|our|a|two|three)"
    r"|leaves? (?:us|you|them|me) (?:without|with)"
    r"|no (?:\w+ )?time|without (?:time|a|any)|postpone\w*|push\w* (?:\w+ ){0,4}(?:back|out)"
    r"|not (?:be )?(?:ready|available|in time|hold|enough)"
    r"|strike|leave (?:us|the team)|run out|fall through|overrun|not survive|not arrive|too late|resign\w*"
    r"|cost us|cut (?:the|our)|withdraw\w*)\b",
    r"\b(?:verzöger\w*|verschieb\w*|nicht (?:rechtzeitig|fertig|reichen|halten)|zu spät|ausfallen"
    r"|scheitern|platzen|knapp werden|fehlen)\b",
    r"\b(?:retard\w*|décal\w*|repouss\w*|glisser|manquer|sans (?:le |la )?temps|pas (?:à temps|prête?s?"
    r"|suffi\w*)|reporter|trop tard|grève)\b",
    r"\b(?:retras\w*|aplaz\w*|no (?:llegar\w*|estar\w*|alcanzar\w*)|perder\w*|quedar\w* sin|huelga"
    r"|demasiado tarde|no da tiempo)\b",
)
# Words for the people of the project, and for their plan.
TEAM: Final = _any(
    r"\b(?:we|us|our|team|project|release|launch|go-live|deadline|milestone|sprint|wir|uns|unser\w*"
    r"|projekt|termin|nous|notre|nos"
    r"|projet|équipe|nosotros|nuestr\w+|proyecto|equipo|noi|nostr\w+|progetto)\b"
)
HYPOTHETICAL: Final = _any(
    r"\b(?:what if|suppose (?:we|that)|imagine|hypothetical\w*|in theory|theoretically|thought experiment"
    r"|for the sake of argument)\b",
    r"\b(?:was wäre,? wenn|angenommen,|hypothetisch|theoretisch|nur mal so)\b|\b(?:et si|imaginons"
    r"|en théorie|qué pasaría|y si|en teoría)\b",
)

# --- dependencies -------------------------------------------------------------------------------------------

DEPENDENCY: Final = _any(
    r"^dependenc(?:y|ies)\s?(?:on \w+)?\s?[:–-]|^(?:abhängigkeit(?:en)?|dépendances?|dependencias?"
    r"|dipendenz[ae])\s?[:–-]",
    r"\b(?:we|i|this|it|which|that|work|story|ticket|team|date|rollout|release|launch|start|everything"
    r"|step|\w+)(?: \w+){0,2} depend(?:s|ing)?"
    r" (?:\w+ )?(?:on|upon)\b(?! (?:the (?:screen|size|number|browser|locale|user|type)|how|whether))"
    r"|\bdependent on\b|\bhinges on\b",
    r"\b(?:we|i|i'm|i’m|we're|we’re|still|now|currently|is|are|am|been|just) (?:\w+ ){0,2}?(?:wait(?:ing)?"
    r"|await(?:ing)?) "
    r"(?:\w+ ){0,2}?(?:for|on|until|\w+)|^(?:this |it )?depends on\b|\bhas to come from\b",
    r"^(?:still |now )?(?:waiting|awaiting|pending)\b(?! (?:room|list|time|page|screen|state))",
    r"\b(?:can(?:not|'t|’t)|could not|won['’]t|will not|able to|not) (?:\w+ ){1,12}?(?:until|unless|before"
    r"|without)\b",
    r"\b(?:can|will|possible|starts?|start|able) (?:\w+ ){0,4}?only (?:\w+ ){0,8}?(?:when|once|after|if)\b"
    r"|\bonly (?:when|once|after)\b",
    r"\b(?:nothing|no) (?:\w+ ){0,2}(?:happens?|moves?|can|will|goes|starts?|works?|more|possible|go-live"
    r"|release|test|rollout)\b (?:\w+ ){0,8}?(?:until|before|unless)\b|\b(?:has"
    r"|have) not (?:yet )?(?:answered|replied|responded|sent|delivered|confirmed)\b",
    r"\bneeds? (?:to be )?(?:\w+ ){0,6}?(?:from|by) (?:the |our |their )?[A-Z]\w+|\b(?:must|has to|have to"
    r"|needs? to) (?:\w+ ){1,10}?(?:before|first"
    r"|so that we|until)\b|\brel(?:y|ies|ying) on (?:the |their |its )?[A-Z]?\w+ (?:to|for)\b"
    r"|\bno (?:reply|answer|response|word)"
    r" (?:\w+ )?(?:from|yet|since)\b",
    r"\b(?:wart(?:e|en|et)) (?:\w+ ){0,4}?(?:auf|noch)\b|\bin erwartung\b|\bsteht (?:noch )?aus\b"
    r"|\bstehen (?:noch )?aus\b|\bfehlt (?:uns )?noch\b",
    r"\b(?:erst|nur|nicht|frühestens|nichts) (?:\w+ ){0,8}?\w*,? (?:wenn|sobald|nachdem|bevor|bis"
    r"|solange)\b|\berst nach\b|\bangewiesen auf\b",
    r"\bhäng(?:t|en|e) (?:\w+ ){0,3}?(?:davon|von|vom|an|am) (?:\w+ ){0,4}?ab?\b|\babhängig (?:von|vom)\b"
    r"|\b(?:bevor|solange)\b.{0,80}\b(?:nicht|kein\w*)\b",
    r"\bohne\b.{3,60}\b(?:können|kann|geht|läuft)\b.{0,40}\b(?:nicht|nichts|kein\w*)\b|\bbrauch(?:en|t"
    r"|e) (?:\w+ )?(?:zuerst|vorher|erst|noch)\b",
    r"\bsans\b.{3,60}\bne p(?:eu|ou)\w+\b|\bsin\b.{3,60}\bno (?:podemos|puedo|se puede)\b|\bsigue (?:sin"
    r"|pendiente)\b",
    r"\b(?:muss|müssen) (?:\w+ ){0,8}?(?:bevor|vorher|zuerst|erst|damit)\b|\bbrauch(?:en|t"
    r"|e) (?:\w+ ){0,5}?(?:von|vom) \w+",
    r"\b(?:attend(?:s|ons|ent)?|attendant) (?:\w+ ){0,4}?\w+|\ben attente (?:de|du|d['’])|\bdépend(?:ons"
    r"|ent|ant|re)? (?:\w+ )?(?:de|du|des|d['’])",
    r"\b(?:tant que|avant que|qu['’]après|qu['’]une fois|qu['’]à partir|seulement (?:quand|après|si)"
    r"|uniquement après|dès que)\b|\bil (?:nous )?faut "
    r"(?:d['’]abord|que)\b|\bdoi(?:t|vent) (?:\w+ ){0,8}?(?:avant|d['’]abord|pour que)\b|\bbesoin (?:de|du"
    r"|d['’])\b.{0,50}\bavant\b",
    r"\b(?:esperamos|espero|esperando|a la espera|pendientes? de|en espera)\b|\bdepend(?:e|emos|en"
    r"|erá) (?:\w+ )?(?:de|del)\b",
    r"\bno (?:\w+ ){1,12}?(?:hasta|mientras|antes de|sin que)\b|\bhasta (?:que|tener|recibir)\b"
    r"|\bsolo (?:\w+ ){0,5}?(?:cuando|después|si)\b"
    r"|\b(?:tiene[n]?|debe[n]?) (?:que )?(?:\w+ ){1,10}?(?:antes|primero|para que)\b|\bnecesitamos (?:que"
    r"|de)\b",
    r"\b(?:aspettiamo|in attesa d|dipend(?:e|iamo) d|finché|aguardamos|aguardando|à espera d|até que"
    r"|wachten op|wacht op|afhankelijk van)\b",
)
# In a description, which says how a product shall behave, only these count.
DEPENDENCY_STATED: Final = _any(
    r"^(?:this |it )?depends on (?:the |our )?\w+",
    r"\b(?:this|it|we|i|work|story|ticket|task|team)(?: \w+){0,3} (?:can(?:not|'t|’t)|can only"
    r"|could only) (?:\w+ ){0,14}?(?:before|until|unless|without|once|after|when)\b",
    r"\b(?:blocked|waits|waiting|pending) (?:by|on|for|until) (?:the )?[A-Z]\w+|\b(?:needs"
    r"|requires) (?:\w+ ){1,8}?(?:from|by) (?:the |our |their )?\w+ "
    r"(?:team|department|vendor|supplier|provider|office|group|board|bank|customer|client|partner|agency"
    r"|authority)\b",
    r"^dependenc(?:y|ies)\s?(?:on \w+)?\s?[:–-]|^(?:abhängigkeit(?:en)?|dépendances?|dependencias?"
    r"|dipendenz[ae])\s?[:–-]",
    r"\b(?:we|this|it|work|story|ticket|start|rollout|launch|migration|cutover"
    r"|delivery)(?: \w+){0,2} depends? (?:\w+ )?(?:on|upon)\b|\bhinges on\b",
    r"\b(?:we|team|i) (?:\w+ )?(?:can(?:not|'t|’t)|will not|won['’]t|can only|are waiting"
    r"|need) (?:\w+ ){0,14}?(?:until|unless|before|once|for|from)\b",
    r"\b(?:must|has to|have to|needs? to) (?:\w+ ){1,10}?(?:before we|before this|first\b|so that we)",
    r"\b(?:können|kann) (?:\w+ ){0,3}(?:erst|nicht) (?:\w+ ){0,8}?\w*,? (?:wenn|sobald|nachdem|bevor"
    r"|bis)\b|\bwir (?:warten|brauchen) (?:\w+ ){0,5}(?:auf|von|vom)\b"
    r"|\b(?:hängt|hängen) (?:\w+ ){0,3}von\b.{0,60}\bab\b",
    r"\b(?:nous|on) (?:\w+ )?(?:attend\w*|dépend\w*|ne p\w+)\b.{0,80}\b(?:que|avant|de|du|des)\b"
    r"|\bdépend (?:de|du|des|d['’])\b",
    r"\b(?:dependemos|depende) (?:de|del)\b|\bno podemos (?:\w+ ){0,10}?(?:hasta|sin|antes)\b"
    r"|\besperamos (?:a|que|la|el)\b|\bhasta que\b",
)
NO_DEPENDENCY: Final = _any(
    r"\b(?:wait\w*|await\w*|pending|depend\w*) (?:for|on)? ?(?:the |a |my |your |code |green )*(?:ci|build"
    r"|pipeline|review\w*|merge|tests?|deploy\w*|pr|pull request"
    r"|qa|time|list|room|libs?|library|package)\b|\b(?:have|got) (?:it|them) now\b|\bwaiting (?:time|room"
    r"|list|state)s?\b|\bdependency (?:graph|update|injection|tree)",
    r"\bplease (?:send|let|give|reply|confirm|call)\b|\bbefore (?:monday|tuesday|wednesday|thursday|friday"
    r"|the weekend|lunch|noon)\b.{0,12}$",
    r"\b(?:not|n['’]t|no longer|nothing|never|nobody|no one|without) (?:\w+ ){0,2}(?:wait(?:ing)?|await\w*"
    r"|depend\w*|pending)\b|\bindependent",
    r"\bno (?:\w+ )?dependenc(?:y|ies)\b|\bno need to wait\b|\bwaited\b|\bwas waiting\b|\bwere waiting\b"
    r"|\bhad to wait\b|\bdepending on\b",
    r"\b(?:nicht|kein\w*|nichts) (?:\w+ ){0,3}(?:mehr |länger )?(?:warten|abhängig\w*)\b|\bunabhängig\b"
    r"|\bwarteten\b|\bkeine abhängigkeit",
    r"\b(?:pas|plus|rien|aucune) (?:\w+ ){0,2}(?:attend\w*|attente|dépend\w*|à attendre)\b"
    r"|\bno (?:hay )?(?:\w+ )?(?:dependencias?|que esperar)\b"
    r"|\b(?:ya )?no (?:depende|esperamos)\w*",
)

# --- issues -------------------------------------------------------------------------------------------------

# Things that went wrong and still matter.
ISSUE: Final = _any(
    r"^(?:issue|problem|incident|trouble|impediment|problème|problema|störung|probleem)\s?[:–-]\s?\S",
    r"\b(?:was|were|is|are|has|have|had|been|got|be) (?:\w+ ){0,2}(?:lost|cancelled|canceled|stolen"
    r"|withdrawn|revoked|damaged|destroyed|flooded|hacked"
    r"|recalled|rejected|suspended|deleted|broken|corrupted|locked out|called off|unreachable|unavailable"
    r"|wiped|bankrupt|insolvent|out of (?:order|stock)"
    r"|down since|offline|ill|sick|off sick|in hospital)\b",
    r"\b(?:has|have) (?:\w+ )?(?:left|quit|resigned|failed|broken|crashed|stopped|expired|gone (?:bust"
    r"|bankrupt|missing)|died|lost|collapsed|burnt?)\b",
    r"\b(?:keeps?|kept|has been|have been|been) (?:\w+ )?(?:failing|crashing|timing out|rejecting|refusing"
    r"|losing|stopping|dropping)\b",
    r"\b(?:expired|vanished|disappeared|resigned|walked out|was let go|passed away|went (?:bust|bankrupt"
    r"|missing|down)|broke down|burned out|burnt out|stopped working)\b",
    r"\b(?:storniert|kündigte|gekappt|weggefallen|verstorben|verunglückt|ausgebrannt|fehlgeschlagen"
    r"|zusammengebrochen|insolvenz|ausfall)\b|\bfällt (?:\w+ ){0,4}aus\b",
    r"\b(?:résili|effac|perd|arrach|incendi|brûl|déraill|bris|coup|interromp|abandonn)(?:é|u)e?s?\b"
    r"|\best (?:tombé|parti)e?\b|\bne (?:répond|fonctionne|marche)(?:nt)? plus\b",
    r"\b(?:robaron|perdimos|se fue|dejó de|dejaron de|no funciona|se (?:quemó|inundó|dañó|incendió)"
    r"|rescindió|cerró la cuenta|borr(?:ó|aron|ad[oa]s?)|suspendi(?:ó|eron|d[oa]))\b",
    r"\bwe (?:have|hit|ran into|are having|face) (?:\w+ ){0,3}(?:problem|issue|trouble)s?\b|\b(?:broke"
    r"|failed|crashed|burned|resigned|refused|leaked) (?:\w+ ){0,4}"
    r"(?:yesterday|today|last|on|this|so|and|again|since)\b|\b(?:is|are) (?:\w+ )?(?:down|out) (?:since"
    r"|until|for|with)\b",
    r"\b(?:verloren|gekündigt|ausgefallen|abgesagt|gesperrt|gestohlen|beschädigt|zerstört|abgelehnt"
    r"|erkrankt|krank|insolvent|verschwunden|gelöscht|abgelaufen"
    r"|zurückgezogen|abgestürzt|kaputt|defekt|eingestellt)\b|\blehnt (?:\w+ ){0,4}ab\b|\bstreikt\b",
    r"\b(?:perdu|annulé|démissionné|cassé|volé|endommagé|détruit|refusé|rejeté|malade|en panne|en faillite"
    r"|expiré|supprimé|tombée? en|hors service|inondé)e?s?\b",
    r"\b(?:perdid[oa]s?|perdió|perdieron|cancelad[oa]s?|canceló|renunció|robad[oa]s?|dañad[oa]s?"
    r"|destruid[oa]s?|rechazad[oa]s?|rechazó|enferm[oa]|averiad[oa]s?"
    r"|roto|rota|rotas|rotos|caíd[oa]s?|caducad[oa]|caducó|quebró|falló|fallaron|se (?:cayó|rompió|averió"
    r"|perdió|quemó))\b",
    r"\b(?:pers[oaie]|annullat[oaie]|guast[oaie]|rott[oaie]|malat[oa]|perdeu|cancelad[oa]|avariad[oa]"
    r"|doente|kapot|ziek|geannuleerd|kwijt)\b",
)
NO_ISSUE: Final = _any(
    r"\b(?:no|without|any|zero) (?:\w+ ){0,2}(?:issues?|problems?|trouble|incidents?|outages?)\b"
    r"|\bnot (?:\w+ )?(?:broken|lost|down|an issue|a problem)\b",
    r"\bkeine? (?:\w+ )?(?:probleme?|störung\w*|fehler)\b|\b(?:aucun|pas de|sans) (?:\w+ )?(?:problème"
    r"|incident|souci)s?\b"
    r"|\b(?:sin|ningún|no hay) (?:\w+ )?(?:problemas?|incidencias?|incidentes?)\b",
)

# --- decisions ----------------------------------------------------------------------------------------------

DECISION: Final = _any(
    r"^decision\s?[:–-]|^decided\b|\b(?:we|board|committee|team|council|management|sponsor|customer|client"
    r"|\w+) (?:have |has )?(?:decided|agreed) (?:to|that|on|against)\b",
    r"\bit was (?:decided|agreed)\b|\b(?:beschluss|entscheidung|entschieden|beschlossen)\b\s?(?::|wurde"
    r"|des|,|,? dass|,? zu)?|\bwir haben (?:\w+ ){0,5}(?:entschieden|beschlossen)\b",
    r"\b(?:décision\s?:|(?:nous avons|on a|a été) (?:\w+ )?décidé)|\b(?:decisión\s?:|(?:hemos|se ha"
    r"|se) decidi(?:do|ó))|\bbesloten\b|\b(?:abbiamo deciso|decidimos)\b",
)

# --- production ---------------------------------------------------------------------------------------------

PRODUCTION: Final = _any(
    r"\bproduction\b|\bprod\b|\blive (?:site|system|orders?|customers?|users?|boards?|traffic|environment"
    r"|data|service)\b|\bin the wild\b|\bcustomers? (?:are|is|cannot|can['’]t)\b",
    r"\bproduktion\b|\bproduktiv\w*|\blivesystem\b|\blive-system\b|\bproducción\b|\bproductivo\b"
    r"|\ben prod\b|\bproduzione\b|\bprodução\b|\bproductie\b",
)
NOT_PRODUCTION: Final = _any(
    r"\b(?:not|never|n['’]t|before|nicht|vor|pas|avant|no|antes)\b.{0,30}\b(?:production|prod|produktion"
    r"|producción|live)\b",
    r"\b(?:staging|uat|test system|test environment|testsystem|testumgebung|training system|dev build"
    r"|dev environment|preprod\w*|pre-prod\w*|préprod\w*"
    r"|pre-production|non-production|sandbox|local(?:ly)?|recette|preproducción|integration environment"
    r"|qa environment|demo system)\b",
    r"\bproduction[- ](?:like|ready|data copy|line|order|plan|planning|schedule|cost|hall|manager|team"
    r"|build|process|company)\b",
)
