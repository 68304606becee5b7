"""The one table of settings: every default that a user can change, in the order of the docs page.
`lamina settings`, docs/settings.md, the flags and the loader all read it. Touches nothing.
"""

from __future__ import annotations

from typing import Any

from lamina.config.setting import Setting, figures, hooks, model, prices, servers, texts
from lamina.messages import BACKGROUND

# What is taken when no model is set: the first provider whose key is there. (model, small model)
MODELS_BY_KEY: dict[str, tuple[str, str]] = {
    "anthropic": ("anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-5-5"),
    "openai": ("openai:gpt-6-luna", "openai:gpt-6-luna"),
}
NO_MODEL = "none"
# Keys are read from the environment alone and never shown.
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "team": "LAMINA_TEAM_TOKEN",
    "gateway": "LAMINA_GATEWAY_TOKEN",
}

_WITH_KEYS = "; ".join(f"`{main}` with {KEYS[name]}" for name, (main, _) in MODELS_BY_KEY.items())


def _value(name: str, default: Any, about: str, **more: Any) -> Setting:
    """A figure that flags may set, too, under the same name."""
    return Setting(name, default, about, flag=name, **more)


# As dense as it is: the formatter would stretch the table to eight hundred lines.
# fmt: off
_MODELS = (
    Setting("model", NO_MODEL,
            "The model of the conversation: anthropic:NAME, openai:NAME, gguf:PATH, scripted:FILE or none.",
            check=model,
            default_text=f"{_WITH_KEYS}; else `{NO_MODEL}`"),
    Setting("small_model", NO_MODEL,
            "The model for small background calls: picking memories, reading what a search of sessions found "
            "(`--ask`), progress lines, fold summaries.",
            check=model,
            default_text="the provider's small model; `none` for local models; the model itself where "
            "`openai.base_url` is set"),
    Setting("max_output", 0, "Maximum tokens in one answer; 0 takes the model's own limit.", least=0, most=1_000_000),
    Setting("anthropic.base_url", "", "Where Anthropic's API is; empty means the provider's own address.",
            variable="ANTHROPIC_BASE_URL"),
    Setting("anthropic.cache_edits", False, "The server behind that address can delete tool results from its cached "
            "prefix (`cache_edits`); the public API can't."),
    Setting("anthropic.thinking", "off",
            "Extended thinking: off, adaptive (the model chooses how much), or enabled with a budget of tokens.",
            choices=("off", "adaptive", "enabled")),
    Setting("anthropic.thinking_tokens", 16_000, "That budget, for each answer.", least=1_024),
    Setting("anthropic.betas", [], "More `anthropic-beta` headers, such as context-1m-2025-08-07.", adds_up=True),
    Setting("anthropic.headers", {}, "More headers of every request to that address.", check=texts),
    Setting("anthropic.diagnostics", False,
            "Ask the provider why its prompt cache was missed; the cache guard names the reason."),
    Setting("openai.base_url", "", "Any OpenAI-compatible endpoint; empty means the provider's own address.",
            variable="OPENAI_BASE_URL"),
    Setting("openai.headers", {}, "More headers of every request to that address.", check=texts),
    Setting("openai.cache_key", "",
            "`prompt_cache_key`: requests with the same key go to the same cache, where the endpoint has several."),
    Setting("api.timeout", 300.0, "Seconds of silence after which a call counts as broken.", least=1, most=86_400),
    Setting("api.retries", 5, "How often a call that failed temporarily is retried.", least=0, most=20),
    Setting("cache.ttl", "5m", "How long the provider's prompt cache lives, if it can be set; `mixed` is 5m, and 1h "
            "for system prompt and tools after a first pause of more than 5m; `auto` begins with 5m and takes 1h for "
            "all once the session's own pauses make that cheaper.", choices=("5m", "1h", "mixed", "auto")),
    Setting("cache.keep_warm", 2, "Maximum requests that keep a five-minute cache alive in one pause, paid for from "
            "the savings; 0 sends none.", "lower", least=0, most=11),
    Setting("window.tokens", 0, "The context window of a model that Lamina's table does not know; 0 means 200,000.",
            least=0, most=100_000_000, variable="LAMINA_WINDOW"),
    Setting("turn.max_calls", 200, "Maximum model calls in one turn; 0 sets no limit.", least=0),
    Setting("turn.recover", False,
            "Make room for a prompt that the provider refused even where layer 2 and autocompaction are off."),
    Setting("turn.continuations", 3,
            "How often an answer that was cut off is continued after its limit was raised once.", least=0, most=20),
    Setting("background.profile", "saving", "When notes and extraction ask a model that costs money: `saving` waits "
            "for a pause, the session's end or a near compaction, and keeps notes by rules until then; `every-turn` "
            "asks as often as notes.* and extraction.* say.", choices=("saving", "every-turn")),
    Setting("background.turns", 10, "Turns after which `saving` stops waiting for a pause.", least=1),
    Setting("background.drain_seconds", 60.0,
            "How long leaving a session waits for background work; the rest runs at the next open.", least=0, most=600),
)

_LAYERS = (
    Setting("tool_results.enabled", True, "Layer 1: large tool results go to disk, a preview stays in the view.",
            flag="tool_results"),
    _value("tool_results.threshold", 50_000, "Characters above which a result goes to disk.", least=1_000, most=50_000),
    _value("tool_results.thresholds", {"Bash": 30_000, "Grep": 20_000, "Read": 0}, "The same by tool; 0 means never.",
           adds_up=True, check=figures(whole=True, most=50_000)),
    _value("tool_results.message_limit", 200_000, "Characters that the results of one message may have together.",
           least=1_000),
    Setting("tool_results.preview_bytes", 2_000, "About how many bytes of a result on disk stay in the view.",
            least=100, most=20_000),
    Setting("folds.enabled", True,
            "Layer 1: what the view already contains is folded into a line before it is first sent.", flag="folds"),
    _value("folds.least", 120, "Characters that a fold must save.", least=50),
    Setting("microcompact.time_based", True,
            "Layer 2: after a pause that let the prompt cache go cold, old tool results are cleared.",
            flag="time_clearing"),
    _value("microcompact.gap_minutes", 0.0, "The pause that triggers it; 0 means the cache's lifetime.", least=0),
    _value("microcompact.keep", 5, "How many of the last results it keeps.", least=1),
    Setting("microcompact.worn", True,
            "Layer 2: old results are dropped from a warm cache once carrying them costs more.", flag="worn_clearing"),
    _value("microcompact.worn_tokens", 10_000, "Minimum tokens that this must free.", least=1_000),
    _value("microcompact.worn_keep", 2, "How many of the last results it keeps.", least=1),
    Setting("microcompact.cache_edits", True,
            "Layer 2: old results are deleted from the provider's cache, where the provider can do that.",
            flag="cache_edits"),
    _value("microcompact.edits_trigger", 12, "Active results at which cache edits begin.", least=1),
    _value("microcompact.edits_keep", 5, "Results that cache edits keep.", least=1),
    Setting("microcompact.api_management", True, "Layer 2: the provider's own context management, where it has one.",
            flag="api_management"),
    _value("microcompact.api_trigger", 180_000,
           "Input tokens at which it clears; scaled to stay below the autocompact threshold.", least=1_000),
    _value("microcompact.api_clear_at_least", 140_000, "Minimum tokens it clears; scaled likewise.", least=0),
    _value("microcompact.thinking_turns", 0, "Turns whose thinking the provider keeps; 0 keeps all.", least=0,
           most=1_000),
    Setting("snip.enabled", True, "Finished spans can be snipped out of the view, by /snip or by the agent.",
            "switch off", flag="snip"),
    Setting("notes.enabled", True, "Layer 3: running notes of the session.", "switch off", flag="notes"),
    _value("notes.first_tokens", 10_000, "Context tokens at which the notes are first written.", least=0),
    _value("notes.every_tokens", 5_000, "New tokens after which they are updated.", least=1),
    _value("notes.tool_calls", 3, "Tool calls that an update needs as well, unless the last answer made none.",
           least=0),
    _value("notes.section_tokens", 2_000, "Maximum tokens in one section.", least=100),
    _value("notes.total_tokens", 12_000, "Maximum tokens in the whole file.", least=1_000),
    _value("notes.keep_tokens", 5_000, "Minimum tokens of messages that a compaction from notes keeps.", least=0),
    _value("notes.keep_messages", 5, "Minimum messages with text that it keeps.", least=0),
    _value("notes.keep_most_tokens", 40_000, "Maximum tokens that it keeps.", least=1_000),
    Setting("compact.auto", True, "Layer 4: compact when the context nears the window's end.", "switch off",
            flag="autocompact"),
    Setting("compact.from_notes", True, "Compaction tries the notes first, with no model call.",
            flag="notes_compaction"),
    Setting("compact.full", True, "Full compaction by a summary.", "switch off", flag="full_compaction"),
    Setting("compact.window", 0,
            "Treat the window as this many tokens, if that is less than the model's; 0 uses the model's.", least=0),
    Setting("compact.percent", 0.0,
            "Autocompact at this percentage of the effective window, if that is earlier; 0 is off.", least=0, most=100,
            variable="LAMINA_AUTOCOMPACT_PERCENT"),
    Setting("compact.output_reserve", 20_000,
            "Tokens kept free for an answer: effective window = window − the lesser of this and the model's most.",
            least=0),
    Setting("compact.margin", 13_000, "Autocompact when this many tokens of the effective window are left.", least=0),
    Setting("compact.warning_margin", 20_000, "Warn this many tokens before autocompaction.", least=0),
    Setting("compact.blocking_margin", 3_000,
            "Take no more input when only this many tokens of the effective window are left.", least=0),
    Setting("compact.tries", 3, "How often a summary is tried again when the text is itself too long.", least=0,
            most=10),
    Setting("compact.failures", 3, "Failures in a row after which a session stops autocompacting.", least=1),
    Setting("compact.fidelity", 0.6,
            "Share of probed facts that must survive; below it a compaction is done again once.", least=0, most=1),
    Setting("compact.restore_files", 5, "Files read last that come back after a compaction.", least=0),
    Setting("compact.restore_file_tokens", 5_000, "Maximum tokens for one of them.", least=0),
    Setting("compact.restore_files_tokens", 50_000, "Maximum tokens for all of them.", least=0),
    Setting("compact.restore_skill_tokens", 5_000, "Maximum tokens for one invoked skill that comes back.", least=0),
    Setting("compact.restore_skills_tokens", 25_000, "Maximum tokens for all skills that come back.", least=0),
    Setting("collapse.enabled", False, "Fold finished rounds one by one instead of autocompacting.", "switch off",
            flag="collapse"),
    Setting("collapse.stage_percent", 70.0, "Percentage of the effective window from which folds are prepared.",
            least=1, most=100),
    Setting("collapse.commit_percent", 90.0, "Percentage at which they take effect.", least=1, most=100),
)

_BACKGROUND = (
    Setting("extraction.enabled", True, "Layer 5: memories are extracted after an answer.", "switch off",
            flag="extraction"),
    Setting("extraction.non_interactive", False, "Extract in one-shot and scripted runs too.", "switch off",
            flag="extraction_non_interactive"),
    _value("extraction.every_turns", 1, "Turns from one extraction to the next.", least=1),
    Setting("extraction.max_calls", 5, "Maximum model calls in one extraction.", "lower", least=1, most=50),
    Setting("dream.enabled", True, "Layer 6: memories are consolidated between sessions.", "switch off", flag="dream"),
    _value("dream.hours", 24.0, "Hours between two dreams.", least=0),
    _value("dream.sessions", 5, "Sessions touched since the last dream that a new one needs.", least=0),
    Setting("dream.non_interactive", False, "Dream at the end of scripts' and programs' sessions too."),
    Setting("dream.scan_minutes", 10.0, "Minutes between two checks of the sessions.", least=0),
    Setting("dream.max_minutes", 60.0, "Minutes after which a dream stops.", "lower", least=1, most=1_440),
)

_AGENTS = (
    Setting("agents.enabled", False, "Layer 7: the agent can start others (Agent) and write to them (SendMessage).",
            "switch off", flag="agents"),
    Setting("agents.coordinator", False, "The conversation itself only reads, starts agents and writes to them.",
            "switch off"),
    Setting("agents.trust", False, "Agent types that a project brings are used without asking first."),
    Setting("agents.depth", 2, "How deep agents may start agents.", "lower", least=1, most=10),
    Setting("agents.at_once", 64, "Maximum agents running at once in a session.", "lower", least=1, most=1_000),
    Setting("agents.max_calls", 100, "Maximum model calls by one agent for one task.", "lower", least=1, most=10_000),
    Setting("agents.max_minutes", 30.0, "Minutes after which an agent is stopped.", "lower", least=0.01, most=1_440),
    Setting("agents.max_dollars", 2.0, "Dollars after which an agent makes no more calls; 0 sets no limit.", least=0),
    Setting("agents.name", "",
            "The name by which agents of other processes write to this session; empty means one from its id."),
    Setting("agents.serves", "", "The agent type that reads this session's letters, as `lamina agents start` sets it; "
            "empty means the conversation."),
    Setting("agents.bridge", "", "A PostgreSQL database over which agents on several hosts write to each other "
            "(postgresql://USER@HOST/NAME); empty means none."),
)

_MEMORY = (
    Setting("memory.enabled", True, "Memory as a whole. LAMINA_DISABLE_MEMORY, LAMINA_BARE and LAMINA_REMOTE (with no "
            "LAMINA_REMOTE_MEMORY_DIR) switch it off as well.", "switch off"),
    Setting("memory.directory", "",
            "Where this project's memories are written; empty means under the home. Absolute, or from ~/.",
            variable="LAMINA_MEMORY_DIR"),
    Setting("memory.remote_directory", "", "Where memory is kept in a remote run; without it memory is off there.",
            variable="LAMINA_REMOTE_MEMORY_DIR"),
    Setting("memory.guidelines", "", "Extra text for the memory section of the system prompt.",
            variable="LAMINA_MEMORY_GUIDELINES"),
    Setting("memory.inbox_all", False,
            "Everything that background work wants to remember waits in the inbox for a person."),
    Setting("memory.reader", True, "Have the small model read, in its place in the talk, what a model wants to keep as "
            "your word; what it does not take for meant waits in the inbox."),
    Setting("memory.inbox_most", 200,
            "Maximum memories waiting in the inbox; when it is full, no more are kept until a person reviews it.",
            least=1, most=100_000),
    Setting("memory.index", True, "Keep MEMORY.md as the index; without it memories are saved in one step."),
    Setting("memory.manifest_files", 200, "Maximum files shown in a manifest.", least=1),
    Setting("memory.past_context", True, "The system prompt says how to search past sessions.", "switch off",
            flag="past_context"),
    Setting("memory.daily_log", False, "The agent appends to a log of the day, and a nightly dream distils it.",
            "switch off", flag="daily_log"),
    Setting("team.enabled", False, "Team memory, in projects that joined a team with `lamina team join`.", "switch off",
            flag="team"),
    Setting("team.sync", True,
            "Pull the team's memories when a session opens, and push what was written, in the background.",
            "switch off"),
    Setting("team.repositories", {}, "What a repository is called on the team's server, as owner/name, by what its "
            "remote calls it (a fork, or one that was renamed) or by the project's folder (no remote).", check=texts),
    Setting("recall.enabled", True, "Memories that fit the user's message are shown to the model.", "switch off",
            flag="recall"),
    Setting("recall.max_files", 5, "Maximum memories for one message.", "lower", least=1, most=50),
    Setting("recall.max_lines", 200, "Maximum lines of one memory.", "lower", least=1),
    Setting("recall.max_bytes", 4_096, "Maximum bytes of one memory.", "lower", least=100),
    Setting("recall.session_bytes", 60_000, "Maximum bytes of all memories shown in one session.", "lower", least=0),
    Setting("recall.stale_days", 1.0, "Days after which a memory is shown with a caveat.", least=0),
    Setting("recall.max_tokens", 256,
            "Maximum tokens of a small model's answer when it picks memories, or past turns (`sessions search --ask`).",
            least=16, most=4_096),
    Setting("recall.timeout", 10.0, "Maximum seconds for that pick; after that, the local ranker decides.", least=0.1,
            most=600),
    Setting("recall.wait", 2.0,
            "Maximum seconds that the first call of a turn waits for that pick. 0 shows what the ranker is sure of at "
            "once.", least=0, most=60),
    Setting("instructions.excludes", [], "Instruction files that are left out, as glob patterns of absolute paths.",
            adds_up=True),
    Setting("instructions.trust", False, "Instruction files may include files outside the project."),
    Setting("instructions.depth", 4, "How deep includes may go.", least=0, most=20),
    Setting("instructions.warn_characters", 40_000, "Characters of an instruction file from which a warning is shown.",
            least=1_000),
    Setting("memory.max_file", 250_000, "Maximum bytes of one memory.", least=1_000),
)

_SAFETY = (
    Setting("permissions.allow", [], "Tool calls allowed without asking, such as Bash(git status) or Edit(src/**).",
            adds_up=True),
    Setting("permissions.ask", [], "Tool calls that always ask first.", "set", adds_up=True),
    Setting("permissions.deny", [], "Tool calls that are refused; overrides ask and allow.", "set", adds_up=True),
    Setting("sandbox.profile", "workspace",
            "What shell commands may write: anything, the project and temporary files, or nothing.",
            choices=("full", "workspace", "read-only")),
    Setting("sandbox.network", True, "Shell commands of the main agent may use the network.", "switch off"),
    Setting("sandbox.unattended_reach", False, "With nobody there to ask, shell commands may use the network, they and "
            "Read, Grep and Glob may read outside the project and the system, and commands may change what runs or "
            "steers later: git hooks, instruction files, start-up files."),
    Setting("bash.timeout", 120.0, "Seconds after which a shell command is stopped, unless the call says otherwise.",
            "set", least=1, most=86_400),
    Setting("bash.environment", [], "Variables that shell commands get although their names look like keys of other "
            "services, or they hold an address with a password: GITHUB_TOKEN, DATABASE_URL or AWS_*.", adds_up=True),
    Setting("bash.max_timeout", 600.0, "The most that a call may ask for.", least=1, most=86_400),
    Setting("hooks", {}, "Commands run at events: [[hooks.PreToolUse]] with command, match (tools, a regular "
            "expression), timeout (seconds).", adds_up=True, check=hooks),
    Setting("mcp.servers", {}, "MCP servers whose tools the agent may use: [mcp.servers.NAME] with command, args, env, "
            "cwd or url, headers; clearable = true lets old results be cleared.", adds_up=True, check=servers),
    Setting("mcp.wait_seconds", 5.0, "How long after its start the first message waits for an MCP server. One that "
            "answers later joins with a later message.", least=0),
    Setting("skills.directories", [], "Where skills are kept, each as NAME/SKILL.md, beside the folder `skills` of the "
            "home. Absolute, or from ~/.", adds_up=True),
    Setting("web.search", "", "A command that searches the web for its last argument and prints what it found; it "
            "provides the tool WebSearch. Lamina itself never accesses the web."),
    Setting("web.fetch", "", "A command that prints the text of the page at its last argument, such as `lynx -dump "
            "-nolist`; it makes the tool WebFetch."),
    Setting("secrets.rules", [], "More rules for the secret scanner: TOML files in gitleaks' format.", adds_up=True),
    Setting("spend.daily_cap", 5.0,
            "Dollars a day for background work; the user's turn is never stopped. 0 sets no limit.", least=0),
    Setting("spend.layer_caps", {}, f"The same by purpose: {', '.join(BACKGROUND)}.", adds_up=True,
            check=figures(whole=False, names=BACKGROUND)),
    Setting("prices", {}, "Prices that replace the built-in ones: [prices.MODEL] in dollars per million tokens.",
            adds_up=True, check=prices),
    Setting("bare", False, "Bare mode: run without memory."),
    Setting("remote", False, "This is a remote run on a disposable machine."),
)

# fmt: on

SETTINGS: tuple[Setting, ...] = (*_MODELS, *_LAYERS, *_BACKGROUND, *_AGENTS, *_MEMORY, *_SAFETY)
BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
