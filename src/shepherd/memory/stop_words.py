"""Stop words of languages other than English, removed from a query's keywords.

The index has them: it does not know languages, and leaves out only English ones. The words of a question show
its language, so "die" and "was" stay in an English one. Otherwise "Was ist die Hauptstadt von Frankreich?"
would find every memory with "die" or "von".
"""

from __future__ import annotations

import re
from collections.abc import Collection

from shepherd._native.text import STOP_WORDS, keywords, stem, terms

__all__ = ["is_filler", "without_stop_words"]

# Question words, articles, pronouns, prepositions, auxiliary verbs, and verbs of asking ("say", "know", "is
# called"). Subjects of questions are not listed, nor are English stop words, which no keyword is.
_LISTS = {
    "de": """
        wer wen wem wessen wann wo woher wohin wie wieso warum weshalb womit wofür wozu worum worüber
        wovon woran welche welcher welches welchen welchem wieviel der die das den dem des ein eine
        einen einem einer eines kein keine keinen keinem keiner ich mich mir mein meine meinen meinem
        meiner meines du dich dir dein deine deinen deinem deiner deines er sie es ihn ihm ihr ihre
        ihren ihrem ihrer ihres ihnen sein seine seinen seinem seiner seines wir uns unser unsere
        unseren unserem unserer euch euer eure euren eurem eurer sich man jemand etwas dies diese dieser
        dieses diesen diesem jene jener jenes alle alles im ins auf aus bei beim mit nach seit von vom
        vor zu zum zur für gegen ohne um unter über durch bis zwischen neben hinter während wegen bin
        bist ist sind seid war waren warst gewesen hab habe hast hat haben habt hatte hatten hattest
        gehabt werde wird werden wirst wurde wurden worden kann kannst können könnt könnte könntest
        konnte darf dürfen muss musst müssen soll sollst sollte sollen willst wollen möchte und oder
        aber denn dass ob wenn als auch nicht nur noch schon mal doch da dort hier sehr viel mehr gibt
        bitte sag sagen erzähl erzähle weißt wissen kennst kennen erklär erkläre heißt bedeutet liegt""",
    "fr": """
        qui que quoi quel quelle quels quelles quand où comment pourquoi combien lequel laquelle
        qu'est-ce qu'est est-ce le la les un une des du de au aux je moi mon ma mes tu te toi ton ta tes
        il elle nous vous ils elles lui leur leurs se soi sa ses son notre nos votre vos ce cet cette
        ces cela ça ceci dans par pour sur sous avec sans chez vers entre depuis pendant avant après
        contre en suis es est sommes sont étais était étaient être ai avons avez ont avais avait avoir
        sera serait peux peut pouvez peuvent dois doit devez faut veux veut voulez vas va vais fait
        faire fais et ou mais donc ni si ne pas plus aussi très c'est n'est s'est j'ai n'ai d'un d'une
        qu'il qu'elle qu'on c'était plaît dis dites dis-moi explique expliquer expliquez m'expliquer
        sais savez appelle s'appelle est-il est-elle sont-ils y-a-t-il a-t-il puis-je dois-je suis-je
        ai-je as-tu sais-tu peux-tu vas-tu pouvez-vous avez-vous""",
    "es": """
        qué quién quiénes cuál cuáles cuándo dónde adónde cómo cuánto cuánta cuántos cuántas el la los
        las lo un una unos unas al del yo mi mis mío mía tu tus te ti él ella ello ellos ellas nosotros
        nosotras usted ustedes le les se su sus nuestro nuestra nuestros nuestras este esta esto estos
        estas ese esa eso esos esas aquel aquella de en con sin por para sobre entre hasta desde hacia
        según contra soy eres es somos son era eras eran fue fueron fui ser sido está estás están estoy
        estamos estaba estar han hemos había haber hay puedo puedes puede pueden debo debe tengo tiene
        tienes tener hace haces hago hacer y pero que si ni como más muy también ya favor dime sabes
        decir explica explícame llama llamas""",
    "it": """
        chi che cosa cos'è quale quali qual quando dove dov'è come perché quanto quanta quanti quante il
        lo la gli le un uno una del dello della dei degli delle al allo alla ai agli alle dal dallo
        dalla dai dalle nel nello nella nei negli nelle sul sullo sulla sui sulle io mi mio mia miei mie
        tu ti te tuo tua tuoi tue lui lei noi ci voi vi loro si suo sua suoi sue nostro nostra nostri
        nostre vostro vostra questo questa questi queste quello quella quelli quelle di da con su per
        tra fra senza sono sei è siamo siete era eri erano ero stato stata essere ho hai ha abbiamo
        avete hanno aveva avevo avere avuto sta stai sto stanno può puoi posso possono devo deve devi
        vuole vuoi fa fai fare c'è e ed ma se non più anche già favore dimmi sai dire spiega spiegami
        chiama""",
    "nl": """
        wie wat wanneer waar waarom hoe welke welk waarmee waarvoor hoeveel de het een ik mij mijn je
        jij jou jouw u uw hij hem zij ze wij ons onze jullie hun zich men iemand iets deze dit die dat
        van voor met op aan uit bij naar over onder tussen tegen zonder door om te tot na sinds ben bent
        zijn waren geweest heb hebt heeft hebben hadden word wordt worden werd werden kan kun kunt
        kunnen kon moet moeten zal zullen zou wil wilt willen doe doet doen gaat en maar want dus als
        niet geen ook nog al wel er daar hier alsjeblieft vertel zeg weet weten heet heten ligt betekent""",
    "pt": """
        quem que quê qual quais quando onde aonde como porquê por quanto quanta quantos quantas o os um
        uma uns umas da dos das na nos nas ao aos num numa pelo pela pelos pelas eu mim meu minha meus
        minhas tu te ti teu tua teus tuas você vocês ele ela eles elas lhe lhes se si seu sua seus suas
        nós nosso nossa nossos nossas isto isso aquilo este esta estes estas esse essa esses essas
        aquele aquela dele dela deles delas de em com sem para sobre entre desde sou és é somos são era
        eram foi foram fui ser sido estou está estás estamos estão estava estar tenho tens tem têm tinha
        ter há haver houve posso podes pode podem devo deve faz fazer vai vou vais e ou mas não mais
        muito também já favor diga diga-me diz dizer sabe sabes explica explique chama chamas chama-se""",
}
# Words that are English too, or names or abbreviations, do not show the language.
_ENGLISH_TOO = """
    ai al als art au aus ben bent bin bis ca ces ci col com come comment con cos dai dal dan das
    dat de del dell dem den der di die dies diga dir dire dis do doe door dos dove dune dus e ed el ella
    em en er eras es esse et fa faire fare favor foi fra fui fur gia ha hast hat hatte hay hier ho il im io
    kan la las le lei les llama lo los ma mais mal man mas me mehr men met mi mia mir mit moet mon na ne
    nel nest non nos num o om on ons op os ou over par para pendant per perch plus pode por pour quante
    quest queste sage sans se sei sem ser sera si sim sin sobre sole son sou sous sta su sue sui sur ta
    te tem tens ter ti toi ton tot tra tu tue tuo uber um un uns van vers vi via voor want war waren wel
    word worden ya yo"""
_WORDS = {language: frozenset(terms(words)) for language, words in _LISTS.items()}
_SIGNS = frozenset().union(*_WORDS.values()) - frozenset(terms(_ENGLISH_TOO))

_SMALL_TALK = (
    "alright awesome bye cheers cool fine good goodbye great hello hey hi hm hmm morning evening night nice"
    " no ok okay perfect sorry sure thanks thank uh um welcome well wow yeah yep yes"
    " hallo danke guten tag morgen abend bonjour bonsoir salut merci hola buenos días gracias ciao grazie olá"
    " 你好 您好 请问 谢谢 こんにちは ありがとう"
)
# The keywords of a text that has only stop words are those, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in STOP_WORDS), keywords(_SMALL_TALK, 256))
_FILLER_OR_STOP_WORD = _FILLER.union(*_WORDS.values())
_GO_ON = re.compile(
    r"\W*(?:and |please )?(?:go (?:on|ahead)|carry on|keep going|continue|(?:tell me |say )?more)"
    r"(?: please)?\W*",
    re.IGNORECASE,
)


def is_filler(text: str, words: Collection[str]) -> bool:
    """Return whether a text, whose keywords are `words`, has only stop words and small talk.

    Such a text says nothing, and no memory can be found by it.
    """
    if _FILLER.issuperset(words) or _GO_ON.fullmatch(text):
        return True
    # Most texts have a word that no list has.
    return _FILLER_OR_STOP_WORD.issuperset(words) and any(
        all(word in own or word in _FILLER for word in words) for own in _WORDS.values()
    )


def without_stop_words(keywords: list[str]) -> list[str]:
    """Return the keywords without the stop words of a language with at least half of them, and two.

    Unchanged if nothing would be left, and if all of those words are English too.
    """
    if _SIGNS.isdisjoint(keywords):
        return keywords
    words = max(_WORDS.values(), key=lambda words: sum(word in words for word in keywords))
    left = [word for word in keywords if word not in words]
    n_out = len(keywords) - len(left)
    if n_out < 2 or n_out < len(left) or words.isdisjoint(_SIGNS.intersection(keywords)):
        return keywords
    return left or keywords
