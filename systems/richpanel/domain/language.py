"""Recognise the language of a message.

`py3langid` compares the letters; a short message has too few of them. So its frequent words count too, and
without either the language of the shop is assumed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH: Final = "en"
# The classifier knows English only. Messages in other languages go to people.
HOME_LANGUAGE: Final = ENGLISH
LANGUAGES: Final = (
    "ar", "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "he", "hi", "hr", "hu", "id", "it",
    "ja",
    "ko", "lt", "lv", "no", "nl", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "th", "tr", "uk", "vi",
    "zh",
)  # fmt: skip
# What each frequent word is worth against the letters, as a logarithm of the odds.
WORD_WEIGHT: Final = 3.5
# English wins by default; the evidence for another language must exceed this.
MIN_EVIDENCE: Final = 2.0
MAX_CHARS: Final = 2000
MIN_LETTERS: Final = 3

_NOISE: Final = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+|[#\w-]*\d[\w-]*|[A-Z]{2,}\d*\b(?=\W|$)")
_CITED: Final = re.compile(r"[„“»«][^„“”»«\n]{3,200}[“”«»]|\"[^\"\n]{3,200}\"")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_SCRIPTS: Final = {
    "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "ARABIC": "ar", "HEBREW": "he", "THAI": "th",
    "GREEK": "el",
    "DEVANAGARI": "hi",
}  # fmt: skip
_WORDS: Final[Mapping[str, frozenset[str]]] = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and is are was were i my me you your it's its it to of in on for with not have has had "
        "can could "
        "would will please thanks thank hi hello hey order ordered when where what how why do does did "
        "this that "
        "any there i'm i've don't didn't from at be been an a want need get got still no yes pls plz "
        "refund cancel "
        "parcel package delivery delivered shipping account password help new one they he she we our item "
        "items "
        "discount code return wrong status size broken human agent person u ur",
        "de": "der die das und ist sind war ich mein meine meiner mir mich sie ihr ihre ihnen nicht kein "
        "keine haben "
        "habe hat wird wurde werden kann können bitte danke hallo guten tag bestellung bestellt paket "
        "lieferung wo wann "
        "wie warum was mit für auf von zu im den dem ein eine einen noch schon immer auch aber wenn dass "
        "geld konto "
        "zurück stornieren liebe grüße vielen dank lieferzeit rechnung größe kommt bleibt ware moin servus "
        "stornierung rücksendung retoure umtausch erstattung widerruf gutschein falsche defekt beschädigt "
        "passwort",
        "fr": "le la les un une des et est sont je j'ai mon ma mes vous votre vos nous ne pas avoir c'est "
        "ce cette qui "
        "que quand où comment pourquoi avec pour dans sur du de au aux bonjour merci commande colis "
        "livraison "
        "commandé reçu remboursement svp s'il plaît jamais taille cassé abîmé annuler retour facture "
        "toujours encore très mais je n'ai d'une l'article compte salut",
        "es": "el la los las un una y es son estoy está mi mis me usted su no he ha han que cuando cuándo "
        "donde dónde "
        "cómo como por qué para con en del de al hola gracias pedido paquete envío entrega quiero puedo "
        "recibido "
        "devolver devolución buenos buenas días tardes todavía pero muy cuenta reembolso favor ayuda llega "
        "reembolso llegó roto dañado talla equivocado cancelar tienda contraseña factura",
        "it": "il lo la i gli le un una e è sono mio mia mi lei suo non ho ha hanno che quando dove come "
        "perché per "
        "con in del della di al ciao buongiorno salve grazie ordine pacco spedizione consegna vorrei "
        "posso ricevuto "
        "reso rimborso ancora ma molto conto favore arrivato nel dal alla "
        "danneggiato sbagliato annullare ordinato fattura taglia assistenza spedito",
        "nl": "de het een en is zijn ik mijn me u uw je jullie niet geen heb heeft hebben wordt kan "
        "kunnen graag "
        "bedankt dank hallo hoi goedemorgen goedendag bestelling besteld pakket pakketje levering waar "
        "wanneer hoe "
        "waarom wat met voor op van te in nog al ook maar als dat geld rekening terug annuleren blijft "
        "komt wil bij "
        "verkeerde maat gekregen beschadigd kapot retour terugbetaling korting factuur wachtwoord",
        "pt": "o a os as um uma e é são estou está meu minha me você seu não tenho tem que quando onde "
        "como por "
        "porque para com em do da dos das no na olá oi obrigado obrigada pedido encomenda entrega quero "
        "posso recebi "
        "devolver reembolso bom boa dia tarde ainda mas muito conta favor ajuda cadê já chegou cupom "
        "produto errado quebrado cancelar tamanho senha loja fatura atendente",
        "pl": "i w na z do nie jest są mój moja moje mi pan pani państwo mam ma się że kiedy gdzie jak "
        "dlaczego po "
        "dla od o za dzień dobry dziękuję proszę zamówienie zamówienia paczka paczki przesyłka dostawa "
        "chcę mogę "
        "otrzymałem zwrot jeszcze ale bardzo konto pomoc czy już tej tego "
        "uszkodzona uszkodzony reklamacja anulować pieniędzy rozmiar faktura hasło sklep",
        "sv": "och är jag min mitt mina inte har du ni er vi på för med till av om att det den hej tack "
        "beställning "
        "beställt paket leverans när var hur varför pengar tillbaka fortfarande snälla",
        "da": "og er jeg min mit mine ikke har du vi på for med til af om at det den hej tak bestilling "
        "ordre pakke "
        "levering hvornår hvor hvordan hvorfor penge tilbage stadig",
        "no": "og er jeg min mitt mine ikke har du vi på for med til av om at det den hei takk bestilling "
        "ordre pakke "
        "levering når hvor hvordan hvorfor penger tilbake fortsatt",
    }.items()
}


def find_language(text: str) -> str:
    """Return the language of a text as an ISO 639-1 code; English if too little of the text tells."""
    whole = unicodedata.normalize("NFC", text[:MAX_CHARS])
    # In a text of capitals, capitals are no codes.
    clean = _NOISE.sub(" ", _drop_cited(whole.lower() if whole.isupper() else whole))
    letters = [each for each in clean if each.isalpha()]
    if len(letters) < MIN_LETTERS:
        return HOME_LANGUAGE
    if (script := _find_script(letters)) is not None:
        return script
    scores = _score_letters(" ".join(clean.split()))
    for language, hits in _count_words(clean).items():
        scores[language] = scores.get(language, -20.0) + WORD_WEIGHT * hits
    best = max(scores, key=lambda each: scores[each])
    is_clear = scores[best] - scores[HOME_LANGUAGE] >= MIN_EVIDENCE
    return best if is_clear and _has_evidence(best, clean) else HOME_LANGUAGE


def _drop_cited(text: str) -> str:
    """Return a text without what it cites between quotation marks, such as the message of a page, if enough
    is left.
    """
    rest = _CITED.sub(" ", text)
    return rest if sum(each.isalpha() for each in rest) >= MIN_LETTERS * 4 else text


def _find_script(letters: list[str]) -> str | None:
    """Return the language of a script that only it uses, if it has a third of the letters."""
    found = Counter(unicodedata.name(each, "").split(" ")[0] for each in letters)
    script, count = max(((each, found[each]) for each in _SCRIPTS), key=lambda pair: pair[1], default=("", 0))
    kana = found["HIRAGANA"] + found["KATAKANA"] + found["KATAKANA-HIRAGANA"]
    if kana and kana + found["CJK"] > len(letters) / 3:
        return "ja"
    return _SCRIPTS[script] if count > len(letters) / 3 else None


def _score_letters(text: str) -> dict[str, float]:
    """Return each language's score by the letters, relative to the best. The scores of a naive model grow
    with the length of the text, so they are damped.
    """
    ranked = _load_identifier().rank(text)
    best = max(score for _, score in ranked)
    damping = max(4.0, len(text) / 10)
    return {language: max(-20.0, (float(score) - float(best)) / damping) for language, score in ranked}


def _count_words(text: str) -> dict[str, int]:
    """Count the frequent words of each language."""
    words = [each.casefold().replace("’", "'") for each in _WORD.findall(text)]
    found = {language: sum(word in known for word in words) for language, known in _WORDS.items()}
    return {language: hits for language, hits in found.items() if hits}


def _has_evidence(language: str, text: str) -> bool:
    """Return whether a text has a frequent word of the language, or enough letters to do without."""
    if language not in _WORDS:
        return sum(each.isalpha() for each in text) >= 20 or not text.isascii()
    return language in _count_words(text) or sum(each.isalpha() for each in text) >= 25


@cache
def _load_identifier() -> LanguageIdentifier:
    """Load the model once per process."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(list(LANGUAGES))
    return identifier
