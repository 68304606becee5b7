"""How English says what is worth keeping. Only patterns; nothing here touches anything."""

from __future__ import annotations

from lamina.text.cues.any_language import Cues, verbose

# What an agent is told to do or not to do. A closed list keeps "never give up" and "always fun" out.
_WORK = """use run write ask check add make create keep put include commit push test format name show
    explain give answer reply respond start end avoid follow update delete remove touch change
    edit modify merge deploy install import call log document review verify validate build wrap
    split sort group quote cite confirm tell let do work send print open close read save store
    mock stub skip disable enable assume guess invent rename refactor rewrite reformat squash
    rebase force-push sign tag bump pin upgrade downgrade translate summarise summarize mention
    repeat apologise apologize present propose suggest restart stop kill wait talk speak prefix
    indent comment lint type cache copy paste duplicate hardcode hard-code rely ignore suppress
    swallow catch throw raise expose publish release ship share upload download fetch generate
    regenerate overwrite revert amend stage leave set pass define declare inline extract abstract
    nest concatenate escape sanitise sanitize render style prefer stick go link list number order
    report introduce bring bypass limit round convert output display sound treat stay exceed omit
    drop fix mix place move return""".split()  # noqa: SIM905 - a word list
_VERB = r"(?:" + "|".join(sorted(_WORK, key=len, reverse=True)) + r")\b(?!\s(?:up|in\sto)\b)"
_ING = r"(?:" + "|".join(sorted({form for verb in _WORK if verb not in {"go", "move", "push", "stay"} for form in (verb + "ing", verb[:-1] + "ing", verb + verb[-1] + "ing")}, key=len, reverse=True)) + r")\b"  # fmt: skip
# What an agent hands over, again and again.
_OUTPUT = r"answers|replies|responses|explanations|summaries|commits|commit\smessages|prs|diffs|descriptions|e?-?mails|letters|comments|code\ssnippets|sentences|paragraphs"
# Where an English order can begin.
_BARE = r"(?!(?:the|it|that|this|these|those|them|an?|my|your|any|both|only)\b)"  # a name, not one thing
_CLAUSE = r"(?:^|[,;:.!–—-]\s|\b(?:and|so|but|please|pls|just|then|also|no|nah|ok|okay|kindly|ugh|yo|god|actually|seriously)\s,?\s?)"
_FROM_NOW = r"(?:from\snow\son|from\shere\son|from\stoday\son|(?<!keep\s)(?:going|moving)\sforward|in\s(?:the\s)?future(?!\s[a-z]+s?\b(?<!please)(?<!kindly)(?<!always)(?<!never)(?<!use)(?<!ask))|next\stime(?!\s(?:it|we|i|the|they)\b)|as\sa\srule|in\sgeneral)"
ENGLISH = Cues(
    remember_task=verbose(
        r"\b(?:remember|rember|don'?t\sforget|do\snot\sforget|keep\sin\smind|make\ssure)\s(?:to\s|never\s|always\s|not\s)(?P<what>.+)"
    ),
    lasting=verbose(
        r"""\b(?:always|never|ever|every\stime|each\stime|whenever|from\snow\son|from\shere\son|from\stoday\son|going\sforward|moving\sforward
        |in\s(?:the\s)?future|next\stime|in\sgeneral|generally|as\sa\srule|by\sdefault|for\sgood|anymore
        |again\sand\sagain|everywhere|every\s(?:little|single)|each\s\w+|every\s\w+|before\s(?:you|every|each|any)\b|in\s(?:this|our|the)\s(?:repo|repository|project|codebase|code\sbase|team|company))\b"""
    ),
    order=verbose(
        rf"""(?:{_CLAUSE}|\b(?:you\s(?:should|must|need\sto|have\sto)|(?:can|could|would|will)\syou(?:\splease|\spls)?|(?:want|like|need|expect|ask|tell|told)\syou\sto|(?:prefer|rather)\s(?:that\s)?you)\s)
             (?:always|never(?:\sever)?|don'?t\sever|do\snot\sever)\s{_VERB}
        |{_CLAUSE}{_FROM_NOW},?\s(?:on,?\s)?(?:i(?:'d|\swould)?\s(?:like|prefer|want|rather)|we\s|you\s|please|pls|kindly|only|always|never|don'?t|do\snot|no\s|all\s|every\s|{_VERB})
        |(?:{_CLAUSE}|\byou\s(?:should|must|can|need\sto)\s)(?:(?:only|always|never|don'?t|do\snot)\s)?{_VERB}.*\b{_FROM_NOW}
        |(?:{_CLAUSE}|\byou\s)(?:stop|quit)\s(?:\w+ly\s)?{_ING}
        |{_CLAUSE}use\s{_BARE}[\w./+\#-]+,?\s(?:and\s)?(?:not|instead\sof|rather\sthan)\s{_BARE}[\w./+\#-]+(?!.*\b(?:for\sthe|in\sthe|in\sthat|there)\b)
        |{_CLAUSE}(?:do\snot|don'?t)\suse\s{_BARE}[a-z][\w./+\#-]*\s?(?:[.,!]|$|\bin\s(?:our|this)\b)
        |{_CLAUSE}(?:do\snot|don'?t)\s\w+\b.*\bever\b
        |^(?:[\w']+,?\s){{0,2}}when(?:ever)?\syou\s(?!(?:are|have|get|finish|can|say|see)\b)\w+\b[^,:]*(?::(?:\s\w|$)|,\s(?:please\s|pls\s|also\s|always\s|never\s|only\s|don'?t\s)*{_VERB})
        |{_CLAUSE}no\s[a-z-]+(?:\s[a-z-]+)?,?\s(?:pls|please)\s?[.!]*$|^no\smore\s(?!questions|ideas|errors)(?:[\w-]+\s)?[\w-]+s(?:,|\s(?:please|pls)|[.!]*$)|\bno\s[\w\s-]{{3,40}},\sever\b
        |{_CLAUSE}don'?t\sbe\s(?!afraid|scared|shy|sad|worried|hard)\w+.*\b(?:every|in\syour|repl(?:y|ies)|answers)\b|^all\s(?:[\w-]+\s){{1,3}}in\s(?:english|german|french|spanish|chinese|lower\s?case|upper\s?case|metric)\b
        |(?:^|[,;:.]\s)(?:and\s|but\s)?we\snever\s{_VERB}\s(?!it\b|this\b|that\b|the\b)(?:[\w-]+\s)?[\w-]+s\b|^(?:and\s|also\s)?if\syou(?:'re|\sare)?\s(?:ever\s)?(?:unsure|not\s(?:100%\s)?sure|in\sdoubt|don'?t\sknow|can'?t\sfind|aren'?t\ssure)\b
        |{_CLAUSE}(?:keep|make|write|give\sme)\s(?:your\s|all\s)?(?:{_OUTPUT})\s(?!for\b|in\sa\b|of\b|to\b|about\b)\w+
        |\byou\s(?:don'?t|do\snot)\s(?:need|have)\sto\s{_VERB}.*\b(?:every\stime|each\stime|always|every\s\w+|to\sme)\b
        |{_CLAUSE}(?:do\snot|don'?t|never)\s.*\b(?:unless\s(?:i|you)|without\s(?:asking|my|checking))\b
        |{_CLAUSE}(?:do\snot|don'?t|never)\s(?:commit|push|deploy|merge|write)\s(?:\w+\s){{0,2}}(?:to|into|on)\s(?:main|master|prod\w*|shared)\b(?!.*\b(?:without\sthe|until|before|yet|now)\b)
        |^we\s\w+.*,\s(?:always|never)\b|\bin\s(?:our|this)\s(?:team|repo|project|codebase|company),?\s(?:nobody|no\sone|we\s(?:don'?t|never|always|only))\b
        |^(?:and\s|also\s|hey\s)?when(?:ever)?\si\s(?:ask|say|want)\b.*\b(?:just|only|don'?t|always|never|give|show|answer)\b
        |\b(?:tone|wording)\s(?:should|must)\s.*\b(?:all|every|any|always)\b|\bwe(?:'ve)?\s(?:banned|outlawed)\b
        |{_CLAUSE}(?:use|write|put|keep|show|give|include|round|format|add|quote|cite|answer|ask|report|state|list|mention)\b.*\b(?:everywhere|every\ssingle\stime|every\stime|each\stime)\b
        |^(?:please\s|and\s|so\s)?(?:whenever|every\stime|each\stime)\syou\b.*,\s(?:please\s|also\s|always\s|never\s|only\s|don'?t\s)*{_VERB}
        |\bwhen(?:ever)?\syou\s\w+.*\b(?:always|never)\b
        |^(?:please\s)?(?:{_VERB}|no\s).*,\s(?:always|ever|every\stime|each\stime|every\ssingle\stime)\s?[.!,]?(?:\s(?:please|because|since|as)\b.*)?$
        |\b(?:do|keep)\s(?:it|that|this)\s(?:like\sthat\s)?(?:every\stime|each\stime|always)\b
        |^no\s(?!(?:idea|problem|need|worries|one|way|longer|more\squestions|rush|clue|matter)\b)[a-z]+s(?:\s\w+)?\sin\s[a-z\s]+(?:please|ever|!|$|[,.])"""
    ),
    forbids=verbose(
        rf"""{_CLAUSE}(?:do\snot|don'?t|avoid|never)\s(?P<what>{_VERB}.+|(?<=avoid\s).+)|\bwe\s(?:don'?t|never)\s(?:do|use|write|want|allow|accept)\s\w+s\b"""
    ),
    insists=verbose(
        r"""\byou\skeep\s(?!failing|crashing|getting|trying|going|working|hitting|running)\w+ing\b|\byou(?:'ve)?\s\w+(?:\s\w+){0,3}\sagain\b(?!\?)|\b(?:second|third|fourth|fifth|\d(?:nd|rd|th)|umpteenth)\stime\b
        |\bhow\smany\stimes\b|\bi(?:'ve)?\s(?:already\s)?(?:told|asked|said)\b.*\b(?:before|times|already|twice)\b|\bevery\s(?:single\s)?time\si\s(?:have|need)\sto\s(?!wait|run|restart)|\bi\skeep\shaving\sto\b|\bi\salways\s(?:have\sto\s(?:fix|cut|redo|reformat|rewrite)|end\sup\s(?:cutting|fixing|rewriting|deleting))\b
        |\b(?:this|that)\s(?:goes|applies|holds|counts)\sfor\s(?:every|all|any|each)\b|^(?:and\s)?(?:always|ever|every\s(?:single\s)?time|each\stime|no\sexceptions?)\s?[.!]*$"""
    ),
    asks_for=verbose(
        rf"""^(?:(?!(?:you|i|we|they|it|he|she|to)\b)[\w']+[,!.]*\s){{0,2}}?(?:please\s|pls\s)?(?!(?:fix|run|show|check|open|stop|start|restart|kill|wait|commit|push|revert|delete|remove|merge|deploy|rename|move|try|explain|look|tell)\b){_VERB}
        |\b[\w./+\#-]+,?\snot\s{_BARE}[\w./+\#-]+|(?:^|[:,]\s)no\s[\w-]+|\bshould\s(?:be|have|use)\b|\b(?:shorter|longer|simpler|fewer|less|more)\b.*\b(?:please|pls)\b|\bmust\s(?:not|never)\b|\bit'?s\sjust\b|\bonly\b"""
    ),
    prefers=verbose(
        r"\bi\s(?:much\s|strongly\s|really\s)?prefer\s(?!.*\b(?:first|second|third|last|other|former|latter|option|variant|version|approach)\b).+\s(?:over|instead\sof|rather\sthan)\s|\bi(?:'d|\swould)?\s(?:much\s|strongly\s|really\s)?(?:prefer|rather)\s(?:that\s|if\s)?you\b(?!\s(?:could|can)\b)|\b(?:in\sgeneral|generally|always|usually),?\si(?:'d|\swould)?\s(?:much\s)?(?:prefer|rather)\b|\bi\s(?:generally|always|usually)\sprefer\b|\bi\s(?:want|need|like|expect)\s.*\b(?:everything|every\s\w+|all\s\w+)\syou\s(?:give|send|write|make|show|draft|produce)\b|\bi\sdon'?t\s(?:want|like|need)\s(?:to\ssee\s)?any\s(?:\w+\s)?\w+s\b|\bi\s(?:hate|can'?t\sstand)\s(?!not\b|being\b|to\b|having\b|that\si\b|how\si\b|(?:it\s)?when\s(?!you\b))"
    ),
    this_time=verbose(
        r"""\babout\s(?:me|you|us)\b|\b(?:don'?t|not|never|stop|avoid|and|to)\s\w+\s(?:it|them|that|this)\b|\b(?:here|yet|right\snow|for\snow|now|today|tonight|this\stime|for\sthe\smoment|until\si|instead\sof\sthat|the\sother\s(?:one|two)
        |(?:this|that|these|those)\s(?!repo|repository|project|codebase|code\sbase|way|style|format|team|is\b|was\b|i\b|you\b|just\b|only\b|simply\b|repeats?\b|are\b)\w+
        |it\s(?:yet|again|now)|\b(?:first|second|third|last)\s(?:one|argument|parameter|option|line|step)|line\s\d+|step\s\d+|them\b)"""
    ),
    general=verbose(
        r"""\bwithout\b|\bjust\sto\b|\bunless\b|\bthat\si\sdid(?:n't|\snot)\b|\bcode\sthat\b|\beverything\b|\bevery\b|\bany\b
        |\b(?!this\b|does\b|always\b|was\b|has\b|is\b|its\b|us\b|yes\b|as\b|thus\b|less\b|unless\b|class\b|pass\b|process\b|access\b|address\b|css\b|js\b|https?\b|tests\spass)[a-z-]{3,}(?<![su])s\b"""
    ),
    about_code=verbose(
        r"""^(?:they|he|she|it|these|those|who|everyone|people)(?:'re|'s|'ll|'ve|\s)|\b(?:always|never)\s\w+(?<!s)s\b|\bmake\ssure\s(?:the|that|it|this)\b|\bthe\s(?:function|method|class|endpoint|job|test|button|field|page|user|script|server|component|module|query|model|label|header|column|app)\s(?:should|must|always|never|is|has|returns|will)\b
        |\b(?:should|must)\s(?:say|return|show|display|appear|render|throw|raise|accept)\b"""
    ),
    praise=verbose(
        r"""^(?:(?:ok|okay|ah|oh|wow|hm+|great|cool)[,.!]?\s)?(?:yes|yep|yeah|yup|perfect|exactly|excellent|great|love|loved|nice|awesome|right|correct|good|well\sdone|brilliant
        |that(?:'?s|\sis|\swas)\s(?:exactly|perfect|great|right|the\sright|how|what)|that\s\w+\sworks|this\sis\s(?:exactly|perfect|great|how)|it\swas\s(?:good|great|nice|helpful|right)\sthat\syou|i\s(?:really\s)?(?:like|love))\b"""
    ),
    go_on=verbose(
        rf"""(?:{_CLAUSE})keep\s(?:{_ING}|that\sup|this\sup)|^(?:exactly|yes|perfect|great|nice)[,.!]+\s[\w\s,-]{{3,60}}\blike\s(?:that|this)\b|\bmore\slike\s(?:this|that)\b|\bstick\s(?:to|with)\s(?:it|that|this)\b|\bplease\s(?:keep|continue)\b|(?:{_CLAUSE})keep\s[\w\s-]{{1,40}}\slike\s(?:this|that)\b|(?:{_CLAUSE})continue\s(?:to\s{_VERB}|{_ING}|with\sthis|like)
        |\bdo\s(?:it|that|the\ssame|this|so)\b.{{0,40}}\b(?:every\stime|always|from\snow|in\s(?:the\s)?future|going\sforward)|\b(?:was|is)\s(?:absolutely\s)?the\sright\s(?:call|choice|approach)\b
        |\b(?:always|every\stime|each\stime)\slike\s(?:this|that)\b|\bmore\s(?:of\s)?(?:that|this)\b.*\b{_FROM_NOW}|\bdo\s(?:that|this)\swhenever\b
        |\bexactly\s(?:how|the\sway)\si\s(?:like|want|prefer)|\bworks\s(?:very\s|really\s)?well\sfor\sme\b|(?:{_CLAUSE}){_FROM_NOW},?\s(?:always\s|please\s|only\s)?{_VERB}|{_CLAUSE}(?:always|only)\s{_VERB}
        |{_CLAUSE}{_VERB}.*\b{_FROM_NOW}"""
    ),
    role=verbose(
        r"""\b(?:i'?m|i\sam)\s(?:also\s|actually\s|just\s|only\s|still\s|currently\s|basically\s)?(?:a|an|the|one\sof\sthe|your)\s
            (?!bit\b|little\b|lot\b|tad\b|fan\b|huge\sfan|big\sfan|only\b|one\b|first\b|last\b)(?:[\w/+#.-]+\s){0,4}?
            (?:[\w-]*(?:engineer|developer|programmer|scientist|designer|manager|analyst|researcher|teacher|lecturer|professor|student|consultant|architect|admin(?:istrator)?|translator|maintainer|tester|freelancer|contractor|journalist|accountant|physicist|chemist|biologist|mathematician|linguist|economist|statistician|psychologist|librarian|owner|founder|director|technician|electrician|photographer|musician|novelist|hobbyist|paralegal|plumber|carpenter|mechanic|chef|baker|barista|potter|clerk|secretary|bookkeeper|pharmacist|dentist|veterinarian|therapist|curator|archivist|illustrator|animator|composer|producer|marketer|recruiter|realtor|tutor|coach|instructor|firefighter|paramedic|midwife|gardener|tailor|welder|machinist|surveyor|notary|banker|auditor|pensioner|retiree)
            |dev|devs|sysadmin|lead|head|cto|ceo|cfo|vp|pm|sre|dba|ml\sengineer|intern|apprentice|trainee|junior|senior|novice|beginner|newbie|expert|nurse|doctor|physician|surgeon|lawyer|writer|editor|author|trainer|artist|farmer|pilot|postdoc|undergrad|grad|hacker|coder)\b
        |\bi\s(?:work\s(?:as|in|at|for|with)|(?:used\sto\swork|worked)\s(?:as|at|for))\s(?!the\s[\w./-]+\s(?:folder|directory|repo)\b|it\b|this\b|that\b|the\s(?:file|bug|branch|function)\b)\w+|\bi\s(?:lead|manage|run|head|own|maintain|teach|study|studied)\s(?!it\b|this\b|that\b|the\s(?:test|command|script|code|server|app|program|build)|tests|out\b|into\b|npm|make|python|pytest|\x01)(?:a|an|the|our|my|high|\w+ics|\w+y\b|\w+ing\b)
        |\bi(?:'ve|\shave)\s(?:been\s(?:a|an|writing|coding|programming|working|developing|teaching)\b(?!\s(?:on\s)?(?:it|this|that)\b).{1,60}\b(?:years?|months?|decades?|long)\b|(?:a|an)\s(?:\w+\s)?(?:degree|phd|background|masters?)\b|never\s(?:used|written|touched|worked\swith)\b|\w+\syears\sof\b)
        |\bi'?m\s(?:a|an|the)\s(?:[\w/-]+\s){1,5}(?:at|for|in)\s(?:(?:a|an|the|our)\s)?(?:[\w-]+\s){0,3}(?:firm|school|hospital|university|company|agency|startup|bank|shop|lab|clinic|studio|nonprofit|charity|college|museum|library|hotel|restaurant|factory|ministry)\b
        |\bi\swork\s(?:nights|weekends|part-?\s?time|remotely|from\shome|shifts|mornings|evenings)\b|\bi(?:'ve|\shave)\sbeen\s(?:doing|using|writing|teaching)\s(?!it|this|that)\w.{1,40}\bsince\s(?:the|\d{4}|i\swas)\b|\bi\steach\s(?!it\b|you\b)\w+|\b(?:i'?m|i\sam)\s(?:still\s|currently\s|just\s)?learning\s(?!nothing\b|how\b|an?\b|this\b|so\b|as\b|more\b|that\b|about\b|the\b|to\b)\w+|\b(?:joined|started|hired)\s(?:\w+\s){0,3}as\s(?:an?|the|junior|senior|head|lead|trainee|intern)\b|\bdoing\s(?!it\b|this\b|that\b)(?:[\w-]+\s){1,3}at\s(?:a|an|the)\s\w+
        |^(?:i'?m\s)?(?:colou?r-?\s?blind|dyslexic|deaf)\shere\b|\bmy\sday\sjob\b|\bnot\sa\s(?:coder|programmer|developer|techie|native\sspeaker)\b|\bi'?m\sin\smy\s\w+\s(?:year|semester)\b|\bi\sknow\s(?:\w+\s){1,2}(?:really|very|quite|pretty|fairly)\swell\b|\bis\s(?:all\s|completely\s|very\s)?new\sto\sme\b|\bmy\s(?:job|role|profession|background|field|title|position)\s(?:is|as)\b|\bby\s(?:training|profession|trade)\b|\bmy\sfirst\stime\s(?:touching|using|writing|working|with)\b
        |\bi'?m\s(?:(?:completely|totally|quite|pretty|fairly|very|rather)\s)?new\sto\s\w+|\bi(?:'?m|\sam)\s(?:colou?r\s?-?blind|dyslexic|blind|deaf|left-handed|a\snon-native)|\bi\sam\snot\sa\s(?:programmer|developer|coder)
        |^(?:[\w/+#-]+\s){0,3}(?:dev|developer|engineer|admin|designer|scientist|analyst|student|guy|girl|nurse|teacher|lawyer|electrician|plumber|accountant|librarian|musician|writer|photographer|pensioner|beginner|newbie)(?:\shere\b|,\s\d+\s?(?:yrs?|years?)\b)"""
    ),
    event=verbose(
        r"""\b(?:deadline|due|is\son|(?:is|are)\s(?:out|off|away)|(?:auditors?|inspectors?|clients?|customers?|investors?|visitors)\s(?:come|comes|arrive|arrives)|kick-?\s?off|go-?\s?live|cutover|interview|defen[cs]e|got\s(?:moved|pushed)|pushed\s(?:back\s)?to|release[sd]?|launch(?:es|ed)?|ships?|shipping|freez(?:e|es|ing)|frozen|demo|presentation|present|talk|audit|expires?|expiring|ends?|ending|closes?|begins?|starts?
        |switch(?:ed|ing)?\s(?:it\s|them\s)?off|shut(?:s|ting)?\sdown|turn(?:ed|ing)?\soff|go(?:es|ing)?\s(?:live|out)|cut(?:ting|s|over)?|migrat(?:e|ed|ion)|holiday|vacation|leave|away|out\sof\soffice|visits|visiting|exam|submi(?:t|tted|ssion)
        |hand\sin|handed\sin|deliver(?:y|ed)?|moved\sto|postponed|rescheduled|meeting\swith|review\swith|(?:must|has\sto|have\sto|needs?\sto|should)\sbe\s(?:\w+\s)?(?:done|finished|ready|live|off|out|merged|submitted|delivered)
        |(?<!\bi\s)(?<!\breally\s)(?:needs?|wants?|expects?)\s(?:the|that|this|our|it)\b|(?:finished|ready|done|live)\sby|until|contract|conference|trade\sshow|sunset|deprecated|end\sof\slife)\b"""
    ),
    not_event=verbose(
        r"""\b(?:i|we|he|she|they|you)\s(?:\w+ly\s|just\s|also\s)?(?!need|moved|postponed|rescheduled|decided|agreed|scheduled|planned)(?:\w{2,}ed|took|had|did|went|got|saw|fell|spent|bought|made|came|met)\b|\blooking\sto\b
        |\b(?:yesterday|last\s(?:week|month|year|monday|tuesday|wednesday|thursday|friday|saturday|sunday|night)|ago|was|were|released|rolled\sback|merged|tagged|reverted|broke
        |field|model|function|calculation|button|default|reminder|flight|departure|reservation|booking|column|label|endpoint|timestamp|parser|timezone|bug|the\suser|users\sget|cron|\x01|i'm\sgoing\sto|i\swill|i'll|we\scontinue|step\s\d)\b
        |^(?:so\s|ok\s|and\s)?let'?s\b|^(?:please\s)?(?:fix|add|implement|write|create|make|change|update|remove|delete|refactor|use|run|show|check|set|move|rename|generate|test|build|explain|find|look|schedule)\b"""
    ),
    placed=verbose(
        r"""\b(?:(?:are|is|get|gets|be|been)\s(?:all\s|always\s|usually\s|also\s)?(?:kept|tracked|stored|found|documented|filed|collected|managed|recorded|reported|answered|listed|posted|written\s(?:down|up))|lives?|sits?|comes?\sin\s(?:through|thru|via|by)|go(?:es)?\s(?:through|thru|via)|source\sof\struth|goes?\s(?:in|into|to)|go\s(?:in|into|to)|ask\s(?:in|\#)|(?:is|are)\shere:|you(?:'ll|\scan|\swill)?\sfind|we\s(?:keep|track|store|collect|file|document|put)|(?:is|are|it's)\s(?:all\s)?(?:in|on|at|under)\b)"""
    ),
    decided=verbose(
        r"""\b(?:we|our\s\w+|they|the\s[\w\s-]{2,40}|\w+s)\b.*\b(?:on\spurpose|deliberately|intentionally|by\sdesign)\b
        |\bwe(?:'ve|\shave|\sall|\sboth|\sfinally|\salready)*\s(?:decided|agreed|opted|settled\son|committed\sto)\s(?!on\sa\sprice)\w+
        |\b(?:in|for|across)\s(?:this|our)\s(?:repo|repository|project|codebase|code\sbase|team|company),?\swe\s(?:want|prefer|expect|avoid|don'?t\swant|aim|try)\b
        |\bwe(?:'re|\sare)\s(?:not|never)\s(?:allowed|permitted)\sto\b|\bwe(?:'re|\sare)\s(?:legally|contractually)\s\w+
        |\b(?:legal|compliance|security|procurement|finance|management|the\s(?:client|customer|board|auditors?|legal\steam|security\steam|lawyers?))\s(?:won'?t\slet\sus|does\snot\slet\sus|doesn'?t\s(?:let|allow)|forbids?|rejected|approved|signed\soff)\b"""
    ),
    habit=verbose(
        r"""\bi\s(?:usually|normally|typically|mostly|generally|mainly|almost\salways)\s(?!(?:get|see|have|had|got|do|did|am|was|would|prefer)\b)[a-z]+\b(?<!ed)
        |^(?:usually|normally|typically),?\si\s(?!(?:get|see|had|got|did|am|was|would)\b)[a-z]+\b(?<!ed)
        |\bi(?:'ve|\shave)?\s(?:also\s|recently\s|now\s|just\s|finally\s)*(?:switched|moved|migrated)\s(?:over\s)?(?:to|from)\s(?!(?:the|that|this|it|them|there|a\snew\s(?:branch|file))\b)
        |\bi(?:'m|\sam)\s(?:also\s|severely\s)?(?:allergic\sto|vegan|vegetarian|lactose|gluten|diabetic|based\sin|on\s(?:a\s)?(?:macos|windows|linux|arch|fedora|ubuntu|nixos|debian|mac)\b)|\bmy\s(?:time\s?zone|pronouns|native\slanguage|mother\stongue|main\s(?:language|machine|editor))\s(?:is|are)\b"""
    ),
    first_person=verbose(r"\b(?:i|i'm|i'd|i've|im|my|me|mine)\b"),
    question=verbose(
        r"""\?[\s)"'\x01]*$|^(?:and\s|but\s|so\s|ok,?\s)?(?:what(?!\s(?:i|we|i'm|matters|counts)\b)|why|how|where|when(?=\s(?:is|are|do|does|did|will|was))|who|which|whose|is\s(?:it|there|that|this)|are\s(?:there|we|you)|do\syou|does|did|should\s(?:i|we)|can\s(?:i|we|you\s(?:explain|tell|check|look))|could\s(?:i|we)|shall|would\sit|may\si)\b"""
    ),
    imagined=verbose(
        r"""^(?:(?:so|ok|now|please)\s,?)?(?:imagine|suppose|assume|assuming|pretend|let'?s\s(?:say|assume|pretend)|say\si|what\sif|if\si\b|if\swe\swere|act\sas|(?:you\sare|you'?re|ur|u\sare)\s(?:(?:a|an|now)\b|(?:the|my)\s(?!best\b|one\b|only\b|first\b|last\b|expert\b|agent\b|assistant\b))|play\sthe\srole|(?:mock\s)?(?:interview|exam|job)\s(?:practice|rehearsal|prep))
        |\b(?:role-?\s?play\w*|in\scharacter|dungeon\smaster|(?:you|u)\splay\sthe)\b
        |\bif\si\s(?:were|was|am)\b|\bas\s(?:a|an|the)\s[\w\s-]{1,30},?\s(?:i|we)\s(?:want|need|can|should|would|could|must|am\sable|expect)\b"""
    ),
    because=verbose(
        r"\b(?:because|since\s(?=we|i|it|the|our|they|you)|so\sthat|in\sorder\sto|otherwise)\s(?P<why>.{6,})|[,;]\s(?P<why2>(?:we\s(?:got|had|were)|it's\sabout|the\s\w+\s(?:is|are)\sfor|nobody|they)\s.{4,})"
    ),
    scope=verbose(
        r"\b(?P<scope>(?:in|for|when|whenever|before|unless|without)\s(?!that\b|it\b|all\s\w+\sbefore)(?:you\s|the\s|this\s|our\s|all\s|every\s|each\s|any\s|public\s|shared\s)?[\w-]+(?:\s[\w-]+){0,4}(?<!\sthat)(?<!\sit)(?<!\sthis))\s?[.!,]?$"
    ),
)
