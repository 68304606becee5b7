"""Permissions: rules that deny, ask about or allow a tool call, and the default without a rule.

A rule is `Tool`, `Tool(glob)` or `mcp__server__*`. For file tools the glob is matched against the
resolved path (relative ones start at the project), for Bash against each simple command of the line.
Deny is stronger than ask, ask than allow, allow than the default. A search that begins above what a
rule keeps from it is allowed without that part. Nothing is read here; paths are only resolved.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from lamina.errors import SettingsError
from lamina.messages import Json
from lamina.ports import Ask, Decision, Permit, Question, ToolContext, ToolSpec
from lamina.text.globs import left_below, literal_prefix, matches
from lamina.tools.sandbox import readable_alone

PATH_FIELDS: dict[str, str] = {
    **dict.fromkeys(("Read", "Write", "Edit"), "file_path"),
    **dict.fromkeys(("Grep", "Glob"), "path"),
}
# Glob shows names; Grep shows names and content. So what a rule keeps from Read is kept from both,
# and what it keeps from Glob is kept from Grep.
KEPT_WITH = {"Glob": ("Glob", "Read"), "Grep": ("Grep", "Glob", "Read")}
# Lamina's own tools change nothing but the session and the memory, which have their own guards.
OWN_TOOLS = frozenset(
    {"Todo", "Expand", "Remember", "Forget", "Recall", "Agent", "SendMessage", "Snip"}
)
_RULE = re.compile(r"([A-Za-z0-9_*-]{1,128})(?:\((.*)\))?", re.DOTALL)
_LONGEST_SHOWN = 200  # characters of a question

Verdict = Literal["deny", "ask", "allow"]

# What programs run, or agents obey, the next time somebody works here.
_STEERING_FOLDERS = frozenset({
    ".git", ".githooks", ".hg", ".husky", ".lamina", ".claude", ".codex", ".gemini", ".opencode", ".pi",
    ".cursor", ".windsurf", ".clinerules", ".continue", ".kiro", ".junie", ".roo", ".vscode", ".idea",
    ".fleet", ".zed", ".vim", ".nvim", ".emacs.d", ".devcontainer", ".ssh", ".ipython", ".agents",
    ".amazonq", ".augment", ".trae", ".openhands", ".cargo", "nushell",
})  # fmt: skip
_STEERING_FILES = (
    "agents*.md", "claude*.md", "gemini*.md", "qwen.md", "copilot-instructions.md", ".mcp.json",
    "opencode.json*", ".aider.conf.yml", ".goosehints", ".cursorrules", ".windsurfrules", ".clinerules",
    ".roorules", ".bash*", ".profile", ".zsh*", ".zprofile", ".zlog*", ".?cshrc", ".cshrc", ".log[io]*",
    ".kshrc", "config.fish", ".xprofile", ".xinitrc", ".xsession*", ".inputrc", ".envrc", "*.code-workspace",
    ".mise.toml", "mise.toml", ".tmux.conf", ".screenrc", ".vimrc", ".exrc", ".gvimrc", ".lvimrc",
    ".nvimrc", ".nvim.lua", ".emacs*", ".dir-locals*.el", ".gitconfig", ".gitmodules", ".lldbinit",
    ".gdbinit", ".psqlrc", ".sqliterc", ".rprofile", ".irbrc", ".pryrc", ".pre-commit-config.yaml",
    "lefthook.y*ml", ".lefthook.y*ml", "sitecustomize.py", "usercustomize.py", "skill.md", ".rules",
    ".devcontainer.json", ".tool-versions", ".npmrc", ".yarnrc*", ".pnpmfile.*js", ".pdbrc",
)  # fmt: skip
_STEERS = re.compile("|".join(map(fnmatch.translate, _STEERING_FILES)))


def steers(path: Path, project: Path) -> bool:
    """Is it, inside the project, a file that something runs or obeys later without being asked?"""
    if not path.is_relative_to(project):
        return False
    *folders, name = path.relative_to(project).parts or ("",)
    return named_to_steer(name) or any(map(holds_what_steers, [*folders, name]))


def named_to_steer(file: str) -> bool:
    return _STEERS.match(_folded(file)) is not None


def holds_what_steers(folder: str) -> bool:
    return _folded(folder) in _STEERING_FOLDERS


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it was written."""

    text: str
    tool: str
    glob: str | None

    @classmethod
    def parse(cls, text: str) -> Rule:
        found = _RULE.fullmatch(text.strip())
        if found is None:
            raise SettingsError(
                f"{text!r} is not a permission rule. Write Tool, Tool(glob) or mcp__server__*."
            )
        tool, glob = found[1], found[2]
        if glob is not None and tool != "Bash" and tool not in PATH_FIELDS:
            raise SettingsError(
                f"The rule {text!r} has a pattern, but only Bash, {', '.join(PATH_FIELDS)} take one."
            )
        if glob is not None and not glob.strip():
            raise SettingsError(f"The rule {text!r} has an empty pattern. Leave out the brackets.")
        everything = tool == "Bash" and glob == "*"
        return cls(text.strip(), tool, None if everything else glob)

    def names(self, tool: str) -> bool:
        whole_server = self.tool.startswith("mcp__") and tool.startswith(f"{self.tool}__")
        return whole_server or fnmatch.fnmatchcase(tool, self.tool)

    def keeps(self, tool: str) -> bool:
        """Is a rule that denies or asks about this tool, by name or by what the tool would show?"""
        return any(self.names(one) for one in KEPT_WITH.get(tool, (tool,)))

    def patterns(self, project: Path) -> frozenset[str]:
        """Globs over real paths; the rule's own directories are resolved too."""
        absolute = os.path.join(project, os.path.expanduser(self.glob or "/"))
        prefix, rest = literal_prefix(absolute)
        real = f"{os.path.realpath(prefix or '/').rstrip('/')}/{rest}"
        # A rule about a directory is also about what is in it.
        candidates = (absolute, real, os.path.realpath(absolute))
        return frozenset(f"{one.rstrip('/').removesuffix('/**')}/**" for one in candidates)

    def fits_path(self, path: Path, project: Path) -> bool:
        return any(matches(pattern, str(path)) for pattern in self.patterns(project))

    def fits_command(self, command: str) -> bool:
        if self.glob is None:
            return True
        if self.glob.endswith(":*"):  # `git log:*` is the command with or without arguments
            prefix = " ".join(self.glob[:-2].split())
            return command == prefix or command.startswith(f"{prefix} ")
        glob = " ".join(self.glob.split())
        return fnmatch.fnmatchcase(command, glob)


@dataclass(frozen=True, slots=True)
class PermissionRules:
    """All rules of a session, parsed; raises SettingsError for one that can't be read."""

    deny: Sequence[Rule] = ()
    ask: Sequence[Rule] = ()
    allow: Sequence[Rule] = ()

    @classmethod
    def of(
        cls, *, deny: Sequence[str] = (), ask: Sequence[str] = (), allow: Sequence[str] = ()
    ) -> PermissionRules:
        return cls(*(tuple(Rule.parse(text) for text in texts) for texts in (deny, ask, allow)))


def make_permit(
    rules: PermissionRules, *, ask: Ask | None, interactive: bool, sandboxed: bool
) -> Permit:
    """The one function that decides for an agent.

    `sandboxed`: the kernel can enforce the context's profile, so that an unattended shell may run.
    """
    return _Permit(rules, ask if interactive else None, sandboxed)


@dataclass(slots=True)
class _Permit:
    rules: PermissionRules
    ask: Ask | None
    sandboxed: bool
    granted: set[str] = field(default_factory=set[str])  # "always" of this session
    asking: anyio.Lock | None = None

    async def __call__(self, spec: ToolSpec, input: Json, context: ToolContext) -> Decision:  # noqa: A002
        call = await anyio.to_thread.run_sync(_Call.of, spec, input, context)
        verdict, reason = await anyio.to_thread.run_sync(self._decide, call)
        decision = Decision(allow=verdict == "allow", reason=reason)
        if verdict == "ask":
            decision = await self._ask(call, reason)
        if decision.allow and call.tool in KEPT_WITH:
            return await anyio.to_thread.run_sync(self._without_the_rest, call, decision)
        return decision

    def _without_the_rest(self, call: _Call, decision: Decision) -> Decision:
        """A search that is allowed where it begins, less what rules keep from it further down."""
        denied = [rule for rule in self.rules.deny if rule.keeps(call.tool)]
        # One that is about the beginning was just answered, "always" answers all of them.
        asked = [
            rule
            for rule in self.rules.ask
            if rule.keeps(call.tool) and call.key not in self.granted and not call.touches(rule)
        ]
        if not denied and not asked:
            return decision
        return replace(decision, withheld=_Withheld.of(denied, asked, call))

    def _decide(self, call: _Call) -> tuple[Verdict, str]:
        for rule in self.rules.deny:
            if call.touches(rule):
                return "deny", f"the rule {rule.text} denies it."
        for rule in self.rules.ask:
            if call.touches(rule):
                return "ask", f"the rule {rule.text} asks first."
        if rule := call.covered_by(self.rules.allow):
            return "allow", f"allowed by the rule {rule.text}."
        return self._default(call)

    def _default(self, call: _Call) -> tuple[Verdict, str]:
        if call.path is not None and call.spec.read_only and alone(call.context):
            return _unasked_read(call, call.path)
        if call.spec.read_only or call.tool in OWN_TOOLS:
            return "allow", "it changes nothing outside of the session."
        if self.ask is not None:
            return "ask", ""
        if call.path is not None:
            return _unasked_write(call, call.path)
        if call.command is not None:
            if self.sandboxed and call.context.sandbox != "full":
                return "allow", f"it runs in the {call.context.sandbox} sandbox."
            return "deny", "commands run without a sandbox here; a rule has to allow this one."
        if call.tool.startswith("mcp__"):
            return "deny", f"nobody is here to ask; a rule such as {call.tool} has to allow it."
        return "allow", "the host gave this tool."

    async def _ask(self, call: _Call, reason: str) -> Decision:
        if self.ask is None:
            return Decision(allow=False, reason=f"{reason} Nobody is here to ask.")
        self.asking = self.asking or anyio.Lock()
        async with self.asking:  # one question at a time
            if call.key in self.granted:
                return Decision(allow=True, reason="the user allowed it for this session.")
            answer = await self.ask(call.tool, Question.of(call.question, call.always))
            if answer == "always":
                self.granted.add(call.key)
        if answer == "no":
            return Decision(allow=False, reason="the user said no. Ask what to do instead.")
        return Decision(allow=True, reason="the user allowed it.")


def alone(context: ToolContext) -> bool:
    """Nobody is there to ask, and the user's settings allow no more for that."""
    return not context.attended and not context.reach


def _unasked_read(call: _Call, path: Path) -> tuple[Verdict, str]:
    """A search follows no link below its beginning, so where it begins is all that matters."""
    context = call.context
    places = readable_alone(call.project, context.reads, context.env.get("PATH", os.defpath))
    if any(path.is_relative_to(os.path.realpath(place)) for place in places):
        return "allow", "it is in the project, the session, the memory or the system."
    rule = f"{call.tool}({path})"
    return "deny", (
        f"{path} is outside the project, and nobody is here to ask. The user can allow it in their "
        f"own settings: the rule {rule} in permissions.allow, or sandbox.unattended_reach."
    )


def _unasked_write(call: _Call, path: Path) -> tuple[Verdict, str]:
    if not path.is_relative_to(call.project):
        return "deny", f"{path} is outside the project, and nobody is here to ask."
    if steers(path, call.project):
        rule = f"{call.tool}({path.relative_to(call.project)})"
        return "deny", f"it runs or steers later; a rule such as {rule} has to allow it."
    return "allow", "it is inside the project."


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call as rules see it: a path, a command, or neither."""

    spec: ToolSpec
    input: Json
    project: Path
    context: ToolContext
    path: Path | None = None
    command: str | None = None

    @classmethod
    def of(cls, spec: ToolSpec, input: Json, context: ToolContext) -> _Call:  # noqa: A002
        project = Path(os.path.realpath(context.project))
        path = command = None
        if spec.name == "Bash":
            command = str(input.get("command", ""))
        elif name := PATH_FIELDS.get(spec.name):
            given, held = str(input.get(name) or "."), context.held
            if held is not None and str(held.path) == given:
                path = held.path  # resolving it again could lead elsewhere by now
            else:
                path = Path(os.path.realpath(context.cwd / given))
        return cls(spec, input, project, context, path, command)

    @property
    def tool(self) -> str:
        return self.spec.name

    def touches(self, rule: Rule) -> bool:
        """For rules that deny or ask: is anything in the call meant, or might be?"""
        if not rule.keeps(self.tool):
            return False
        if self.path is not None:
            # Upper and lower case are one, as they are on some file systems, and so are the ways to
            # write an accented letter.
            path, folded = str(self.path), _folded(str(self.path))
            globs = rule.patterns(self.project)
            return any(matches(one, path) or matches(_folded(one), folded) for one in globs)
        if self.command is not None:
            exact = take_apart(self.command).commands
            candidates = (*exact, *rough_parts(self.command), self.command.strip())
            return any(rule.fits_command(command) for command in candidates)
        return True

    def covered_by(self, rules: Sequence[Rule]) -> Rule | None:
        """For rules that allow: is everything in the call meant? The last rule that was needed."""
        naming = [rule for rule in rules if rule.names(self.tool)]
        if self.path is not None:
            path = self.path
            return next((rule for rule in naming if rule.fits_path(path, self.project)), None)
        if self.command is None:
            return next(iter(naming), None)
        if whole := next((rule for rule in naming if rule.glob is None), None):
            return whole
        parts = take_apart(self.command)
        fitting: Rule | None = None
        for command in parts.commands:
            fitting = next((rule for rule in naming if rule.fits_command(command)), None)
            if fitting is None:
                return None
        return fitting if parts.clear else None

    @property
    def _inside(self) -> bool:
        return self.path is not None and self.path.is_relative_to(self.project)

    @property
    def key(self) -> str:
        """What an `always` is remembered by: never more than what was asked."""
        if self.path is not None:
            return f"{self.tool} {'inside' if self._inside else self.path}"
        return f"{self.tool} {self.command}" if self.command is not None else self.tool

    @property
    def always(self) -> str:
        """The same in words."""
        if self.path is not None:
            return f"{self.tool} on {'any file of this project' if self._inside else 'this path'}"
        return "just this command" if self.command is not None else f"every call of {self.tool}"

    @property
    def question(self) -> str:
        """What the user is shown."""
        if self.path is not None:
            return str(self.path)
        if self.command is not None:
            return self.command
        shown = ", ".join(f"{name}={value!r}" for name, value in self.input.items())
        return shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 1] + "…"


@dataclass(frozen=True, slots=True)
class _Withheld:
    """What rules keep from a search that begins above it."""

    root: str  # where the search begins
    left: frozenset[str]  # globs over paths below the root
    folded: frozenset[str]  # the same for paths with case and accents folded
    note: str

    @classmethod
    def of(cls, denied: Sequence[Rule], asked: Sequence[Rule], call: _Call) -> _Withheld:
        root = str(call.path)
        left: set[str] = set()
        folded: set[str] = set()
        wanting: list[str] = []
        for rule in [*denied, *asked]:
            patterns = rule.patterns(call.project)
            more = {one for pattern in patterns for one in left_below(pattern, root)}
            for pattern in patterns:
                folded |= left_below(_folded(pattern), _folded(root))
            left |= more
            if more and rule in asked:
                wanting.append(rule.text)
        names = ", ".join(wanting)
        note = f"Left out, because a rule asks first: {names}. Give it as path to ask for it."
        return cls(root, frozenset(left), frozenset(folded), note if wanting else "")

    def hides(self, path: str) -> bool:
        """The root itself was permitted; what lies elsewhere is not part of the search."""
        if path == self.root:
            return False
        if not path.startswith(f"{self.root.rstrip('/')}/"):
            return True
        below = path[len(self.root.rstrip("/")) + 1 :]
        kept = any(matches(one, below) for one in self.left)
        return kept or any(matches(one, _folded(below)) for one in self.folded)

    def globs(self) -> Sequence[str]:
        return sorted(self.folded)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


# ---- the commands in a line of shell

_SEPARATORS = ("&&", "||", "|&", ";", "|", "&", "\n")
# What makes the meaning of a text depend on more than the text.
_UNCLEAR = re.compile(r"[`(){}<>]|\$[({'\"]")
_HARMLESS_REDIRECTION = re.compile(
    r"(?:[012]?>{1,2}\s*/dev/null|&>\s*/dev/null|[012]?>&[12])(?=[\s;|&]|$)"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# First words that make a command something else than what it seems to run.
_KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select",
    "function", "time", "coproc", "!", "[[", "eval", "exec", "source", ".", "trap", "alias", "builtin",
    "command", "env", "sudo", "doas", "nohup", "xargs", "setsid",
})  # fmt: skip
_ROUGH_BREAKS = re.compile(r"[;&|\n`(){}<>'\"$\\]+")


@dataclass(frozen=True, slots=True)
class Parts:
    """A command's simple commands, words joined by one space; `clear` if that is all there is."""

    commands: tuple[str, ...]
    clear: bool


def take_apart(text: str) -> Parts:
    """The simple commands of a line of shell."""
    pieces = _split(_HARMLESS_REDIRECTION.sub(" ", text))
    if pieces is None:
        return Parts((), clear=False)
    commands = [_joined(piece) for piece in pieces if piece]
    clear = bool(commands) and all(_is_plain(piece[0]) for piece in pieces if piece)
    return Parts(tuple(commands), clear)


def rough_parts(text: str) -> list[str]:
    """Everything in the text that might be run as a command, for rules that forbid.

    Each stretch between special characters, from each of its words on: too much rather than too
    little, so that `sudo rm x`, `$(rm x)` and `bash -c 'rm x'` all show `rm x`."""
    found: list[str] = []
    unquoted = re.sub(r"['\"\\]", "", text)
    for stretch in (*_ROUGH_BREAKS.split(text), *re.split(r"[;&|\n`(){}<>$]+", unquoted)):
        words = stretch.split()
        found += [" ".join(words[index:]) for index in range(min(len(words), 50))]
    return found


def _joined(words: list[str]) -> str:
    """A word with spaces keeps its quotes: `git "log x"` is not `git log x`."""
    spaced = any(not word or word != "".join(word.split()) for word in words)
    return shlex.join(words) if spaced else " ".join(words)


def _is_plain(first: str) -> bool:
    return not (first in _KEYWORDS or _ASSIGNMENT.match(first) or re.search(r"[$~*?\[]", first))


def _split(text: str) -> list[list[str]] | None:
    """Words of each simple command, quotes removed; None where the text is not plain."""
    pieces: list[list[str]] = [[]]
    word: str | None = None
    at = 0
    while at < len(text):
        char = text[at]
        separator = next((s for s in _SEPARATORS if text.startswith(s, at)), None)
        if separator or char in " \t":
            if word is not None:
                pieces[-1].append(word)
                word = None
            if separator:
                pieces.append([])
            at += len(separator or char)
        elif char in "'\"":
            end = _end_of_quote(text, at)
            if end is None:
                return None
            word = (word or "") + text[at + 1 : end]
            at = end + 1
        elif char == "\\" or _UNCLEAR.match(text, at) or (char == "#" and word is None):
            return None
        else:
            word = (word or "") + char
            at += 1
    if word is not None:
        pieces[-1].append(word)
    return pieces


def _end_of_quote(text: str, at: int) -> int | None:
    """Where the quoted stretch ends; None if it does not, or if the shell would look into it."""
    end = text.find(text[at], at + 1)
    if end < 0:
        return None
    inside = text[at + 1 : end]
    if text[at] == '"' and re.search(r"[\\`]|\$[({]", inside):
        return None
    return end
