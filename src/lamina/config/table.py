"""The one table of settings: every default that a user can change, in the order of the docs page.
`lamina settings`, docs/settings.md, the flags and the loader all read it. Touches nothing.
"""

from __future__ import annotations

from lamina.config import shapes
from lamina.config.setting import Setting

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
}

_WITH_KEYS = "; ".join(f"`{main}` with {KEYS[name]}" for name, (main, _) in MODELS_BY_KEY.items())

# One row a line: the formatter would stretch the table to eight hundred lines.
# fmt: off
_MODELS = (
    Setting("model", "str", NO_MODEL, "The model of the conversation: anthropic:NAME, openai:NAME, gguf:PATH, scripted:FILE or none.",
            default_text=f"{_WITH_KEYS}; else `{NO_MODEL}`"),
    Setting("small_model", "str", NO_MODEL, "The model for small background calls: picking memories, progress lines, fold summaries.",
            default_text="the provider's small model; `none` for local models; the model itself where `openai.base_url` is set"),
    Setting("max_output", "int", 0, "Most tokens of one answer; 0 takes the model's own limit.", minimum=0, maximum=1_000_000),
    Setting("anthropic.base_url", "str", "", "Where Anthropic's API is; empty means the provider's own address.",
            variable="ANTHROPIC_BASE_URL"),
    Setting("anthropic.cache_edits", "bool", False, "The server behind that address can delete tool results from its cached prefix (`cache_edits`); the public API can't."),
    Setting("openai.base_url", "str", "", "Any OpenAI-compatible endpoint; empty means the provider's own address.",
            variable="OPENAI_BASE_URL"),
    Setting("api.timeout", "float", 300.0, "Seconds without a sign of life after which a call counts as broken.", minimum=1, maximum=86_400),
    Setting("api.retries", "int", 5, "How often a call that failed for now is tried again.", minimum=0, maximum=20),
    Setting("cache.ttl", "str", "5m", "Life of the provider's prompt cache, where it can be chosen.", choices=("5m", "1h")),
    Setting("window.tokens", "int", 0, "The context window of a model that Lamina's table does not know; 0 means 200,000.",
            minimum=0, maximum=100_000_000, variable="LAMINA_WINDOW"),
    Setting("turn.max_calls", "int", 200, "Most model calls of one turn; 0 sets no limit.", minimum=0),
    Setting("turn.continuations", "int", 3, "How often an answer that was cut off is continued after its limit was raised once.",
            minimum=0, maximum=20),
    Setting("background.drain_seconds", "float", 60.0, "How long leaving a session waits for background work; the rest runs at the next open.",
            minimum=0, maximum=600),
)

_LAYERS = (
    Setting("tool_results.enabled", "bool", True, "Layer 1: large tool results go to disk, a preview stays in the view.",
            flag="tool_results"),
    Setting("tool_results.threshold", "int", 50_000, "Characters above which a result goes to disk.",
            minimum=1_000, maximum=50_000, flag="tool_results.threshold"),
    Setting("tool_results.thresholds", "table", {"Bash": 30_000, "Grep": 20_000, "Read": 0}, "The same by tool; 0 means never.",
            adds_up=True, check=shapes.figures(whole=True, maximum=50_000), flag="tool_results.thresholds"),
    Setting("tool_results.message_limit", "int", 200_000, "Characters that the results of one message may have together.",
            minimum=1_000, flag="tool_results.message_limit"),
    Setting("tool_results.preview_bytes", "int", 2_000, "About how many bytes of a result on disk stay in the view.",
            minimum=100, maximum=20_000),
    Setting("microcompact.time_based", "bool", True, "Layer 2: after a pause that let the prompt cache go cold, old tool results are cleared.",
            flag="time_clearing"),
    Setting("microcompact.gap_minutes", "float", 0.0, "The pause that triggers it; 0 means the cache's lifetime.",
            minimum=0, flag="microcompact.gap_minutes"),
    Setting("microcompact.keep", "int", 5, "How many of the last results it keeps.", minimum=1, flag="microcompact.keep"),
    Setting("microcompact.worn", "bool", True, "Layer 2: old results are dropped from a warm cache once carrying them costs more.",
            flag="worn_clearing"),
    Setting("microcompact.worn_tokens", "int", 10_000, "Tokens that this must free at least.", minimum=1_000, flag="microcompact.worn_tokens"),
    Setting("microcompact.worn_keep", "int", 3, "How many of the last results it keeps.", minimum=1, flag="microcompact.worn_keep"),
    Setting("microcompact.cache_edits", "bool", True, "Layer 2: old results are deleted from the provider's cache, where the provider can do that.",
            flag="cache_edits"),
    Setting("microcompact.edits_trigger", "int", 12, "Active results at which cache edits begin.",
            minimum=1, flag="microcompact.edits_trigger"),
    Setting("microcompact.edits_keep", "int", 5, "Results that cache edits keep.", minimum=1, flag="microcompact.edits_keep"),
    Setting("microcompact.api_management", "bool", True, "Layer 2: the provider's own context management, where it has one.",
            flag="api_management"),
    Setting("microcompact.api_trigger", "int", 180_000, "Input tokens at which it clears; scaled to stay below the autocompact threshold.",
            minimum=1_000, flag="microcompact.api_trigger"),
    Setting("microcompact.api_clear_at_least", "int", 140_000, "Tokens that it clears at least; scaled likewise.",
            minimum=0, flag="microcompact.api_clear_at_least"),
    Setting("microcompact.thinking_turns", "int", 0, "Turns whose thinking the provider keeps; 0 keeps all.",
            minimum=0, maximum=1_000, flag="microcompact.thinking_turns"),
    Setting("snip.enabled", "bool", True, "Finished spans can be snipped out of the view, by /snip or by the agent.", "switch off", flag="snip"),
    Setting("notes.enabled", "bool", True, "Layer 3: running notes of the session.", "switch off", flag="notes"),
    Setting("notes.first_tokens", "int", 10_000, "Context tokens at which the notes are first written.",
            minimum=0, flag="notes.first_tokens"),
    Setting("notes.every_tokens", "int", 5_000, "New tokens after which they are updated.", minimum=1, flag="notes.every_tokens"),
    Setting("notes.tool_calls", "int", 3, "Tool calls that an update needs too, unless the last answer made none.",
            minimum=0, flag="notes.tool_calls"),
    Setting("notes.section_tokens", "int", 2_000, "Most tokens of one section.", minimum=100, flag="notes.section_tokens"),
    Setting("notes.total_tokens", "int", 12_000, "Most tokens of the whole file.", minimum=1_000, flag="notes.total_tokens"),
    Setting("notes.keep_tokens", "int", 10_000, "Tokens of messages that a compaction from notes keeps at least.",
            minimum=0, flag="notes.keep_tokens"),
    Setting("notes.keep_messages", "int", 5, "Messages with text that it keeps at least.", minimum=0, flag="notes.keep_messages"),
    Setting("notes.keep_most_tokens", "int", 40_000, "Tokens that it keeps at most.", minimum=1_000, flag="notes.keep_most_tokens"),
    Setting("compact.auto", "bool", True, "Layer 4: compact when the context nears the window's end.", "switch off", flag="autocompact"),
    Setting("compact.from_notes", "bool", True, "Compaction tries the notes first, with no model call.", flag="notes_compaction"),
    Setting("compact.full", "bool", True, "Full compaction by a summary.", "switch off", flag="full_compaction"),
    Setting("compact.window", "int", 0, "Reckon with a window of so many tokens, if that is less than the model's; 0 takes the model's.",
            minimum=0),
    Setting("compact.percent", "float", 0.0, "Autocompact at this percentage of the effective window, if that is earlier; 0 is off.",
            minimum=0, maximum=100, variable="LAMINA_AUTOCOMPACT_PERCENT"),
    Setting("compact.output_reserve", "int", 20_000, "Tokens kept free for an answer: effective window = window − the lesser of this and the model's most.",
            minimum=0),
    Setting("compact.margin", "int", 13_000, "Autocompact at the effective window less this.", minimum=0),
    Setting("compact.warning_margin", "int", 20_000, "Warn so many tokens before autocompaction.", minimum=0),
    Setting("compact.blocking_margin", "int", 3_000, "Take no more input at the effective window less this.", minimum=0),
    Setting("compact.tries", "int", 3, "Tries when the text to summarise is itself too long.", minimum=1, maximum=10),
    Setting("compact.failures", "int", 3, "Failures in a row after which a session autocompacts no more.", minimum=1),
    Setting("compact.fidelity", "float", 0.6, "Share of probed facts that must survive; below it a compaction is done again once.",
            minimum=0, maximum=1),
    Setting("compact.restore_files", "int", 5, "Files read last that come back after a compaction.", minimum=0),
    Setting("compact.restore_file_tokens", "int", 5_000, "Most tokens of one of them.", minimum=0),
    Setting("compact.restore_files_tokens", "int", 50_000, "Most tokens of all of them.", minimum=0),
    Setting("compact.restore_skill_tokens", "int", 5_000, "Most tokens of one invoked skill that comes back.", minimum=0),
    Setting("compact.restore_skills_tokens", "int", 25_000, "Most tokens of all skills that come back.", minimum=0),
    Setting("collapse.enabled", "bool", False, "Fold finished rounds one by one instead of autocompacting.", "switch off", flag="collapse"),
    Setting("collapse.stage_percent", "float", 70.0, "Percentage of the effective window from which folds are prepared.",
            minimum=1, maximum=100),
    Setting("collapse.commit_percent", "float", 90.0, "Percentage at which they take effect.", minimum=1, maximum=100),
)

_BACKGROUND = (
    Setting("extraction.enabled", "bool", True, "Layer 5: memories are extracted after an answer.", "switch off", flag="extraction"),
    Setting("extraction.non_interactive", "bool", False, "Extract in one-shot and scripted runs too.", "switch off", flag="extraction_non_interactive"),
    Setting("extraction.every_turns", "int", 1, "Extract after every so many turns.", minimum=1, flag="extraction.every_turns"),
    Setting("extraction.max_calls", "int", 5, "Most model calls of one extraction.", "lower", minimum=1, maximum=50),
    Setting("dream.enabled", "bool", True, "Layer 6: memories are consolidated between sessions.", "switch off", flag="dream"),
    Setting("dream.hours", "float", 24.0, "Hours between two dreams.", minimum=0, flag="dream.hours"),
    Setting("dream.sessions", "int", 5, "Sessions touched since the last dream that a new one needs.", minimum=0, flag="dream.sessions"),
    Setting("dream.scan_minutes", "float", 10.0, "Minutes between two looks at the sessions.", minimum=0),
    Setting("dream.max_minutes", "float", 60.0, "Minutes after which a dream ends itself.", "lower", minimum=1, maximum=1_440),
)

_MEMORY = (
    Setting("memory.enabled", "bool", True, "Memory as a whole. LAMINA_DISABLE_MEMORY, LAMINA_BARE and LAMINA_REMOTE (with no LAMINA_REMOTE_MEMORY_DIR) switch it off as well.", "switch off"),
    Setting("memory.directory", "str", "", "Where this project's memories are written; empty means under the home. Absolute, or from ~/.",
            variable="LAMINA_MEMORY_DIR"),
    Setting("memory.remote_directory", "str", "", "Where memory is kept in a remote run; without it memory is off there.",
            variable="LAMINA_REMOTE_MEMORY_DIR"),
    Setting("memory.guidelines", "str", "", "Extra text for the memory section of the system prompt.",
            variable="LAMINA_MEMORY_GUIDELINES"),
    Setting("memory.inbox_all", "bool", False, "Everything that background work wants to remember waits in the inbox for a person."),
    Setting("memory.inbox_most", "int", 200, "Most memories that wait in the inbox; with that many there, no more are kept until a person has looked.",
            minimum=1, maximum=100_000),
    Setting("memory.index", "bool", True, "Keep MEMORY.md as the index; without it memories are saved in one step."),
    Setting("memory.manifest_files", "int", 200, "Most files that a manifest shows.", minimum=1),
    Setting("memory.past_context", "bool", True, "The system prompt says how to search past sessions.", "switch off", flag="past_context"),
    Setting("memory.daily_log", "bool", False, "The agent appends to a log of the day, and a nightly dream distils it.", "switch off", flag="daily_log"),
    Setting("recall.enabled", "bool", True, "Memories that fit the user's message are shown to the model.", "switch off", flag="recall"),
    Setting("recall.max_files", "int", 5, "Most memories for one message.", "lower", minimum=1, maximum=50),
    Setting("recall.max_lines", "int", 200, "Most lines of one memory.", "lower", minimum=1),
    Setting("recall.max_bytes", "int", 4_096, "Most bytes of one memory.", "lower", minimum=100),
    Setting("recall.session_bytes", "int", 60_000, "Most bytes of a session.", "lower", minimum=0),
    Setting("recall.stale_days", "float", 1.0, "Days after which a memory is shown with a caveat.", minimum=0),
    Setting("recall.max_tokens", "int", 256, "Most tokens of the answer with which a small model picks.", minimum=16, maximum=4_096),
    Setting("recall.timeout", "float", 10.0, "Seconds that it may take; after that the local ranker's choice stands.",
            minimum=0.1, maximum=600),
    Setting("instructions.excludes", "strings", [], "Instruction files that are left out, as glob patterns of absolute paths.",
            adds_up=True),
    Setting("instructions.trust", "bool", False, "Instruction files may include files outside the project."),
    Setting("instructions.depth", "int", 4, "How deep includes may go.", minimum=0, maximum=20),
    Setting("instructions.warn_characters", "int", 40_000, "Characters of an instruction file from which a warning is shown.",
            minimum=1_000),
    Setting("memory.max_file", "int", 250_000, "Most bytes of one memory.", minimum=1_000),
)

_SAFETY = (
    Setting("permissions.allow", "strings", [], "Tool calls that need no question, such as Bash(git status) or Edit(src/**).",
            adds_up=True),
    Setting("permissions.ask", "strings", [], "Tool calls that always need one.", "set", adds_up=True),
    Setting("permissions.deny", "strings", [], "Tool calls that are refused; this beats ask and allow.", "set", adds_up=True),
    Setting("sandbox.profile", "str", "workspace", "What shell commands may write: anything, the project and temporary files, or nothing.",
            choices=("full", "workspace", "read-only")),
    Setting("sandbox.network", "bool", True, "Shell commands of the main agent may use the network.", "switch off"),
    Setting("bash.timeout", "float", 120.0, "Seconds after which a shell command is stopped, unless the call says otherwise.", "set",
            minimum=1, maximum=86_400),
    Setting("bash.environment", "strings", [], "Variables that shell commands get although their names look like keys of other services: GITHUB_TOKEN, or AWS_*.",
            adds_up=True),
    Setting("bash.max_timeout", "float", 600.0, "The most that a call may ask for.", minimum=1, maximum=86_400),
    Setting("hooks", "table", {}, "Commands run at events: [[hooks.PreToolUse]] with command, match (tools, a regular expression), timeout (seconds).",
            adds_up=True, check=shapes.hooks),
    Setting("mcp.servers", "table", {}, "MCP servers whose tools the agent may use: [mcp.servers.NAME] with command, args, env, cwd or url, headers; clearable = true lets old results be cleared.",
            adds_up=True, check=shapes.servers),
    Setting("secrets.rules", "strings", [], "More rules for the secret scanner: TOML files in gitleaks' format.", adds_up=True),
    Setting("spend.daily_cap", "float", 5.0, "Dollars a day for background work; the user's turn is never stopped. 0 sets no limit.",
            minimum=0),
    Setting("spend.layer_caps", "table", {}, "The same by purpose: notes, summary, recall, extraction, dream, agent_summary, probe.",
            adds_up=True, check=shapes.figures(whole=False, names=("notes", "summary", "recall", "extraction", "dream", "agent_summary", "probe"))),
    Setting("prices", "table", {}, "Prices that replace the built-in ones: [prices.MODEL] in dollars per million tokens.",
            adds_up=True, check=shapes.prices),
    Setting("bare", "bool", False, "Bare mode: run without memory."),
    Setting("remote", "bool", False, "This is a remote run on a machine that is thrown away."),
)

# fmt: on

SETTINGS: tuple[Setting, ...] = (*_MODELS, *_LAYERS, *_BACKGROUND, *_MEMORY, *_SAFETY)
BY_NAME: dict[str, Setting] = {setting.name: setting for setting in SETTINGS}
