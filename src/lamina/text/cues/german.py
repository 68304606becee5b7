"""How German says what is worth keeping. Only patterns; nothing here touches anything."""

from __future__ import annotations

import re

from lamina.text.cues.any_language import Cues, verbose

_GERMAN_IMPERATIVE = (
    r"(?:nutze?|verwende|benutze?|schreibe?|mache?|halte?|frage?|antworte|nimm|gib|teste|prüfe?|committe|formatiere?|erkläre?|zeige?"
    r"|achte|vermeide?|lösche?|füge?|führe?|lasse?|rufe?|starte?|setze?|benenne?|kommentiere?|dokumentiere?|pushe?|merge?|installiere?|arbeite|bleibe?|fasse?|sprich|rede|denke?|liefere?|stelle?|packe?|lege?|hole?|sage?|duze?|nenne?|kürze?|sei)"
)

GERMAN = Cues(
    remember_task=verbose(
        r"\b(?:denk(?:e)?\s(?:bitte\s)?(?:immer\s)?daran|vergiss\s(?:bitte\s)?nicht|merk\sdir),?\s(?P<what>.+)"
    ),
    lasting=verbose(
        r"\b(?:immer|nie|niemals|nie\swieder|stets|jedes\smal|ab\sjetzt|ab\ssofort|ab\sheute|von\snun\san|künftig|zukünftig|in\szukunft|in\szukünftig\w+|nächstes\smal|grundsätzlich|generell|weiterhin|nicht\smehr|jede[mrsn]?|in\sdiesem\s(?:projekt|repo)|im\sprojekt)\b"
    ),
    order=verbose(
        rf"""^(?!ich\b|es\b|vielleicht|ob\b|.*\b(?:gibt\ses|brauchen|wird|werden|könnte\w*|müss\w+|haben|hat|sollte\w*|wäre\w*)\b)(?:.*\s)?(?:ab\sjetzt|ab\ssofort|von\snun\san|künftig|zukünftig|in\szukunft|nächstes\smal|grundsätzlich|generell|weiterhin)\b(?!\s(?:werde|wird)\b)
        |^(?:(?:bitte|nein|und|also|ach)[,\s]+)*(?:niemals|nie\swieder|nie|immer|stets)\s.*\w+(?:en|ern|eln)\b
        |(?:^|[.,!:]\s|\bund\s|\bbitte\s)(?:{_GERMAN_IMPERATIVE})\s(?:[\w-]+\s){{0,5}}(?:niemals|nie\swieder|nie|immer|stets|jedes\smal)\b
        |\bich\s(?:will|möchte|brauche|mag)\skeine?[nrms]?\s\w+|\b(?:duze?|sieze?)\s(?:mich|uns)\b|\bbitte\s(?:nur\s|immer\s)?auf\s(?:englisch|deutsch|französisch|spanisch)\b|^(?:bitte\s)?{_GERMAN_IMPERATIVE}\s(?:bitte\s)?keine\s[a-zäöüß]+(?:en|s)\b(?!.*\b(?:an|in|hier)\b)
        |\bbitte\s(?:nix|nichts)\s(?:\w+\s)?\w+en\b|\bbei\s(?!de[rmn]\b|diese)\w+\s(?:\w+\s){{0,2}}(?:immer|nie|niemals)\b.*\w+en\b|\b(?:immer|nur|stets)\s(?:über|mit|per|via|gegen|auf|in)\s[\w.-]+,?\s(?:und\s)?(?:nicht|nie|statt)\b|\bso\s(?:bitte\s)?immer\s?[.!]?$
        |\bbitte\s(?:[\w-]+\s){{0,4}}(?:immer|nie|niemals|stets|jedes\smal)\b|\bsondern\simmer\b|^{_GERMAN_IMPERATIVE}\b.*,\simmer\s?[.!]?$
        |(?:^|[,.!]\s)(?:bitte\s)?hör(?:e|en\ssie)?\s(?:bitte\s)?(?:auf|damit)\b|(?:^|[,.!]\s)lass\s(?:das|die|den)\b.*\b(?:mit|sein|weg)\b
        |\bkeine?n?\s[\w\s-]{{2,40}}\smehr\b|\bmir\sist\s(?:es\s)?lieber\b|\bich\s(?:möchte|will|hätte\sgern),?\sdass\s(?:du|sie)\b"""
    ),
    forbids=verbose(
        r"""(?:^|[,;.!:]\s|\bund\s)(?:bitte\s)?keine?n?\s(?!ahnung|problem|sorge|zeit|frage)(?P<what>[a-zäöüß]+e[nsmr]?\s[A-ZÄÖÜ].+|[A-ZÄÖÜ]\w+.*)"""
    ),
    insists=verbose(
        r"\bgilt\s(?:\w+\s)?für\s(?:alle\w*|jede\w*)\b|^(?:und\s)?(?:immer|nie|niemals|ausnahmslos|jedes\smal)\s?[.!]*$|\bzum\s(?:zweiten|dritten|vierten|x-ten|hundertsten)\smal\b|\bwie\soft\s(?:noch|soll|muss)\b|\bhab(?:e)?\sich\s(?:dir\s)?(?:schon|doch)\b.*\bgesagt\b"
    ),
    asks_for=verbose(
        rf"^(?:bitte\s)?{_GERMAN_IMPERATIVE}\b|\bbitte\b|,\snicht\s|\bstatt\b|\bnichts\b|\bkeine?n?\b|\bimmer\b"
    ),
    prefers=verbose(
        r"\bich\s(?:bevorzuge|mag\s(?:lieber|keine)|hasse|finde\s\w+\sbesser)|\bmir\sist\s(?:es\s)?lieber\b"
    ),
    this_time=verbose(
        r"\b(?:hier|jetzt\s(?:mal|erst|noch)|gerade|noch\snicht|erstmal|erst\smal|heute|diesmal|vorerst|(?:diese|jene)[mnrs]?\s(?!projekt|repo|team|firma|art|weise|stil|format)\w+|die\sandere|der\sandere|rückgängig|zeile\s\d+)\b"
    ),
    general=verbose(
        r"\bohne\b|\bin\sdiesem\s(?:projekt|repo)\b|\bin\sunsere[mrn]\b|\bbei\suns\b|\bin\sden\b|\bwenn\b"
    ),
    about_code=verbose(
        r"^\w+\s(?:gibt|hat|macht|bietet|nimmt|hatte)\s(?:\w+\s)?keine|^(?:der|die|das|diese[rs]?|unser\w*|jede[rs]?|(?-i:[A-Z][a-z]\w*[A-Z]\w*))\s[\w-]+\s(?!bitte|künftig|ab\b|immer\s(?:als|auf|mit|in)\b)(?:\w+t|ist|sind|wird|liegt|ruft|gibt|hat)\b"
    ),
    praise=verbose(
        r"^(?:(?:ok|ah|oh|so)[,.!]?\s)?(?:ja|jawohl|genau|super|perfekt|passt|sehr\sgut|gut|prima|toll|klasse|richtig|stimmt|top|spitze|wunderbar|gefällt\smir|das\s(?:ist|war)\s(?:genau\s)?(?:richtig|gut|super|perfekt))\b"
    ),
    go_on=verbose(
        r"\bweiter\sso\b|\bso\sbitte\simmer\b|\b(?:genau\s)?so\sweiter\b|\b(?:bitte\s)?immer\sso\b|\bweiterhin\b|\bkünftig\b|\bin\szukunft\b|\bab\sjetzt\b|\bab\ssofort\b|\bgenau\srichtig\b|\bmach\sdas\s(?:bitte\s)?so\sweiter|\bauch\s(?:künftig|weiterhin)\b|\bbehalte?\sdas\sbei\b|\bjedes\smal\b"
    ),
    role=re.compile(
        r"\b[Ii]ch bin (?:(?:auch|eigentlich|selbst|nur|noch|gelernter?|freier?|angehender?) )*(?:(?:ein|eine|der|die) )?(?!Fan|Kunde|Kundin|Nutzer|Benutzer|Besucher|Sicher|Immer)"
        r"[A-ZÄÖÜ][\w-]*(?:entwickler|administrator|ingenieur|student|leiter|er|ist|ent|ant|eur|or|oge|ologe|ärzt|arzt|wirt|mann|frau|chef|amte|kraft|PM|CTO|CEO|DBA|SRE)(?:in|innen|s)?\b"
        r"|\b[Ii]ch arbeite (?:als|bei|in|im|für)\b (?!de[mnr] (?:Datei|Branch|Funktion))|\b[Ii]ch (?:leite|studiere|unterrichte|betreue|verantworte|lehre) (?!das hier|dich)\w+"
        r"|\b[Vv]on Beruf\b|\bberuflich\b|\b[Mm]ein (?:Beruf|Job|Fachgebiet)\b|\b[Mm]eine (?:Rolle|Aufgabe|Stelle) ist\b"
        r"|(?:^|\b[Ii]ch )(?:bin )?(?:[\w+#/-]+[ -])?(?:[Ee]ntwickler|[Ii]ngenieur|[Aa]dmin|[Dd]esigner|[Ss]tudent)(?:in)?, |\b(?:ist|sind) (?:ganz |noch )?neu für mich\b|\b[Ii]ch (?:kenne mich|habe (?:noch )?nie mit)\b.*\b(?:kaum|nicht|wenig|gearbeitet)\b"
        r"|(?i:\bbin\s(?:\w+\s)?neu\s(?:im\steam|hier|in\sder)\b|\bich\shabe?\s\w+\sjahre\s\w+|(?:^|[,;]\s|\b(?:ich|und)\s)komme?\saus\sde[rm]\s(?!schleife|urlaub|funktion|datei|tritt)\w+|\barbeite\s(?:\w+\s){0,4}als\s\w+|\bvon\s[\w+#]+\s(?:null|keine|kaum)\s(?:ahnung|plan)\b"
        r"|(?:\bbin|\bzu\smir:)\s(?:(?:hier|die|der|ein|eine|neue|neuer|seit|noch|im|gelernte\w?)\s){0,4}(?:azubi|werkstudent|praktikant|\w*admin|\w*lehrer|\w*entwickler|student|\w*pfleger|rentner|freelancer|\w*informatiker|\w*meister|ärztin|arzt|anwältin|anwalt|\w*designer|redakteur|\w*leiter|\w*manager|\w*assistent|\w*berater|\w*ingenieur|\w*schwester|\w*köch|\w*koch|tischler|schreiner|elektriker|erzieher|hebamme|legasthenik\w+|\w*forscher|\w*makler)(?:in)?\b)"
    ),
    event=verbose(
        r"""\b(?:frist|abgabe|abgabetermin|deadline|termin|fällig|release|launch|freeze|code-freeze|messe|demo|präsentation|vortrag|prüfung|audit|abnahme|übergabe|klausur|hochzeit|schulung|eröffnung|kick-?off|(?:ist|sind|wäre)\sam|findet\s.*statt|verschiebt\ssich|verschoben|go-?\s?live|läuft\s(?:\w+\s){0,3}aus|ausläuft|endet|beginnt|startet|abgeschaltet|abschaltung|umgestellt|umstellung|umzug|urlaub|online|live|veröffentlich\w+|ausgeliefert|auslieferung|konferenz|vertrag
        |muss|müssen|braucht|brauchen|will\s(?:das|den|die)|abgeben|einreichen|fertig|stehen|besuch|kommt\sder\skunde|wartungsvertrag|angebot)\b"""
    ),
    not_event=verbose(
        r"\b(?:gestern|letzte[nrs]?|vorige[nrs]?|war|waren|wurde|hat|haben|hatte|feld|spalte|funktion|methode|klasse|knopf|standardwert|berechnung|erinnerung|cronjob|datumsformat|\x01)\b|^(?:bitte\s)?(?:füge?|baue?|schreib|änder|lösch|mach|prüf|teste|zeig|erstell|implementier|korrigier)\w*\b"
    ),
    placed=verbose(
        r"\b(?:liegt|liegen|steht|stehen|findest\sdu|finden\ssie|findet\sman|finden\ssich|sind\s(?:bei\suns\s)?(?:in|im|unter)|ist?\s(?:bei\suns\s|alles\s)?(?:in|im|unter|auf)|erfasst|erfassen|gesammelt|sammelt|sammeln|abgelegt|gespeichert|verwaltet|dokumentiert|gepflegt|pflegen|ablegen|legen\swir)\b"
    ),
    decided=verbose(
        r"""\b(?:wir|unser\w*|der|die|das)\b.*\b(?:absichtlich|mit\sabsicht|bewusst\s(?:so|nicht|kein\w*|weggelassen|entfernt|einfach))\b
        |\bwir\s(?:haben|hatten)\s(?:uns\s)?.{0,80}\b(?:entschieden|beschlossen|vereinbart|geeinigt|festgelegt)\b|\bwir\sdürfen\s(?:\w+\s){0,4}(?:nicht|keine?\w*)\b
        |\b(?:rechtsabteilung|datenschutz|betriebsrat|der\skunde|die\skundin|geschäftsführung|it-sicherheit)\s(?:verbietet|erlaubt\s(?:\w+\s)?(?:nicht|kein\w*)|lehnt)\b"""
    ),
    habit=verbose(
        r"""\bich\s\w+e\s(?:\w+\s){0,2}(?:normalerweise|üblicherweise|meistens?|in\sder\sregel|grundsätzlich|hauptsächlich|überwiegend)\b|^(?:normalerweise|üblicherweise|meistens|in\sder\sregel)\s\w+e\sich\b
        |\bich\sbin\s(?:\w+\s){0,3}(?:auf|zu)\s(?!(?:dem|den|der|diese\w*)\b).{2,40}\b(?:umgestiegen|gewechselt)\b|\bich\sbin\s(?:allergisch|veganer(?:in)?|vegetarier(?:in)?|farbenblind)\b|\bmeine\s(?:zeitzone|muttersprache)\sist\b"""
    ),
    first_person=verbose(r"\b(?:ich|mein|meine[mnrs]?|mir|mich)\b"),
    question=verbose(
        r"\?[\s)\"'\x01]*$|^(?:und\s|aber\s)?(?:was(?!\s(?:ich|wir|mir|zählt)\b)|warum|wieso|weshalb|wie|wo|wann|wer|welche[rsnm]?|soll\sich|sollen\swir|muss\s(?:ich|man)|kann\s(?:ich|man)|darf|weißt\sdu|ist\s(?:das|es)|gibt\ses)\b"
    ),
    imagined=verbose(
        r"^(?:stell\sdir|angenommen|nehmen\swir\san|wenn\sich|falls\sich|tu\sso|du\sbist\s(?:ein|eine|jetzt|nun|der|die|das|mein|meine)\b|sie\ssind\s(?:jetzt|nun|der|die)\b|spiel\w*\b)|\brollenspiel\b|\bspielleiter|\bwenn\sich\s\w+\swäre\b|\bals\s\w+\s(?:möchte|will|kann|soll|brauche|muss)\sich\b"
    ),
    because=verbose(
        r"\b(?:weil|da\s(?=wir|ich|es|der|die|das|sonst)|damit|denn|sonst)\s(?P<why>.{6,})|(?P<why2>(?!))"
    ),
    scope=verbose(
        r"\b(?P<scope>(?:in|im|bei|für|vor|nach|bevor|wenn|beim|ohne)\s[\w-]+(?:\s[\w-]+){0,4})\s?[.!]?$"
    ),
)
