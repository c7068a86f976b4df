"""Which language a request is in, as far as it must be known to refuse it politely: English, or one that is named.

Small words decide, and those of travelling. None of them is part of a city's name or an English word, so that "Rio de
Janeiro" is no Portuguese; where as many are English, the sentence is read.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tripcortex.planning.ports import Refusal

WORDS_MIN: Final = 2

ENGLISH: Final = frozenset(
    "a the to from on in at for i me my need want would like please book flight flights fly flying next this returning "
    "return back one way round trip tomorrow today and with prefer under of is am leaving going get go".split()
)
OTHERS: Final = {
    "German": frozenset(
        "ich bitte einen eine nach mochte moechte fliegen flug und zuruck zurueck nachsten naechsten morgen ubermorgen "
        "brauche buchen am von der den montag dienstag mittwoch donnerstag freitag samstag sonntag fur mit hin hinflug "
        "ruckflug einfach nur heute woche".split()
    ),
    "French": frozenset(
        "je voudrais un une vol pour vers demain aller retour simple lundi mardi mercredi jeudi vendredi samedi dimanche "
        "prochain reserver billet depuis besoin jai mon avec et du au plait aujourdhui semaine".split()
    ),
    "Spanish": frozenset(
        "quiero quisiera necesito un una vuelo para manana proximo lunes martes miercoles jueves viernes sabado domingo "
        "solo ida vuelta reservar desde hasta con por favor el y hoy semana billete volar".split()
    ),
    "Italian": frozenset(
        "vorrei un volo per domani lunedi martedi mercoledi giovedi venerdi sabato domenica solo andata ritorno prenotare "
        "biglietto prossimo da il con favore ho bisogno oggi settimana volare".split()
    ),
    "Portuguese": frozenset(
        "quero queria preciso um uma voo para amanha segunda terca quarta quinta sexta proxima so ida volta reservar "
        "bilhete passagem com por favor desde hoje semana feira voar".split()
    ),
    "Dutch": frozenset(
        "ik wil graag een vlucht naar morgen enkele reis retour maandag dinsdag woensdag donderdag vrijdag zaterdag zondag "
        "volgende boeken ticket vanaf van met alstublieft en terug vandaag vliegen nodig heb".split()
    ),
}
PLEASE: Final = {
    "German": "Bitte schreiben Sie auf Englisch.",
    "French": "Merci d'écrire en anglais.",
    "Spanish": "Por favor, escriba en inglés.",
    "Italian": "Per favore, scriva in inglese.",
    "Portuguese": "Por favor, escreva em inglês.",
    "Dutch": "Schrijf alstublieft in het Engels.",
}


def foreign(sentence: str, plain: str) -> Refusal | None:
    """A refusal where the sentence is plainly in another language. `plain` is the sentence as `worded` makes it."""
    if _is_of_another_script(sentence):
        return _refused("another script", "")
    words = re.findall(r"[a-z]+", plain)
    english = sum(word in ENGLISH for word in words)
    counts = {name: sum(word in known for word in words) for name, known in OTHERS.items()}
    name = max(counts, key=lambda each: counts[each])
    if counts[name] < WORDS_MIN or counts[name] <= english:
        return None
    return _refused(name, f" {PLEASE[name]}")


def _is_of_another_script(sentence: str) -> bool:
    letters = [each for each in sentence if each.isalpha()]
    strange = [each for each in letters if not unicodedata.name(each, "").startswith("LATIN")]
    return len(strange) * 2 > len(letters)


def _refused(name: str, please: str) -> Refusal:
    return Refusal(
        "language",
        f"Sorry, I read English only, and this looks like {name}. Please say it in English, for instance: "
        f"“Flight from Boston to Chicago on 2 June, returning 4 June.”{please}",
    )
