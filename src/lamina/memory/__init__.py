"""Layer 3's room, and its one door: what other rooms may use of it.

The store is `ports.MemoryStore`; `FileStore` is the one that wiring makes. The rest are functions on
the text of memories, their names and their index. Names load when first used: a turn without memory
loads none of it. Import-linter forbids going past this module.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import alone costs time
if TYPE_CHECKING:
    from typing import Any

    from lamina.memory.audit import Audit as Audit
    from lamina.memory.audit import Step as Step
    from lamina.memory.audit import contradicting as contradicting
    from lamina.memory.audit import look_over as look_over
    from lamina.memory.audit import missing_files as missing_files
    from lamina.memory.commits import blame as blame
    from lamina.memory.commits import diff_text as diff_text
    from lamina.memory.commits import earlier_name as earlier_name
    from lamina.memory.commits import rests_on_user as rests_on_user
    from lamina.memory.commits import teammate_of as teammate_of
    from lamina.memory.commits import users_word as users_word
    from lamina.memory.commits import written_at as written_at
    from lamina.memory.drafts import proposal_of as proposal_of
    from lamina.memory.drafts import proposed as proposed
    from lamina.memory.evidence import is_plain_confirmation as is_plain_confirmation
    from lamina.memory.file_store import open_agent_store as open_agent_store
    from lamina.memory.file_store import open_store as open_store
    from lamina.memory.file_store import sync_team as sync_team
    from lamina.memory.forgetting import and_kept_away as and_kept_away
    from lamina.memory.forgetting import holds as holds
    from lamina.memory.forgetting import not_forgotten as not_forgotten
    from lamina.memory.gate import GateContext as GateContext
    from lamina.memory.history import HistoryDamaged as HistoryDamaged
    from lamina.memory.index import ADVISED_LINE as ADVISED_LINE
    from lamina.memory.index import INDEX as INDEX
    from lamina.memory.index import LOADED_BYTES as LOADED_BYTES
    from lamina.memory.index import LOADED_LINES as LOADED_LINES
    from lamina.memory.index import Pointer as Pointer
    from lamina.memory.index import files_named as files_named
    from lamina.memory.index import is_index as is_index
    from lamina.memory.index import links_of as links_of
    from lamina.memory.index import pointer_line as pointer_line
    from lamina.memory.index import pointers_of as pointers_of
    from lamina.memory.index import resolver as resolver
    from lamina.memory.index import short_hook as short_hook
    from lamina.memory.index import told_of as told_of
    from lamina.memory.index import unlinked as unlinked
    from lamina.memory.index import with_pointer as with_pointer
    from lamina.memory.index import with_pointers as with_pointers
    from lamina.memory.index import with_renamed as with_renamed
    from lamina.memory.index import without_pointer as without_pointer
    from lamina.memory.index import without_quotations as without_quotations
    from lamina.memory.instructions import Instruction as Instruction
    from lamina.memory.instructions import Instructions as Instructions
    from lamina.memory.instructions import as_reminder as as_reminder
    from lamina.memory.instructions import load as load
    from lamina.memory.instructions import places_for as places_for
    from lamina.memory.instructions import touched as touched
    from lamina.memory.journal import merge_contents as merge_contents
    from lamina.memory.leaks import leaks_in as leaks_in
    from lamina.memory.leaks import safe_path as safe_path
    from lamina.memory.leaks import without_secrets as without_secrets
    from lamina.memory.naming import file_name as file_name
    from lamina.memory.naming import free_names as free_names
    from lamina.memory.naming import title_of as title_of
    from lamina.memory.naming import why_bad_name as why_bad_name
    from lamina.memory.naming import why_misnamed as why_misnamed
    from lamina.memory.paths import TEAM_AUTHORS as TEAM_AUTHORS
    from lamina.memory.paths import TEAM_NEWS as TEAM_NEWS
    from lamina.memory.paths import canonical_root as canonical_root
    from lamina.memory.paths import memory_place as memory_place
    from lamina.memory.paths import team_authors as team_authors
    from lamina.memory.paths import team_folder as team_folder
    from lamina.memory.paths import team_is_on as team_is_on
    from lamina.memory.paths import team_news as team_news
    from lamina.memory.prompt import date_reminder as date_reminder
    from lamina.memory.prompt import day as day
    from lamina.memory.prompt import first_reminder as first_reminder
    from lamina.memory.prompt import known_lines as known_lines
    from lamina.memory.prompt import memory_section as memory_section
    from lamina.memory.prompt import reminder_for as reminder_for
    from lamina.memory.removal import left_out as left_out
    from lamina.memory.removal import takes_back as takes_back
    from lamina.memory.repairs import Repaired as Repaired
    from lamina.memory.repairs import repair as repair
    from lamina.memory.scan import LARGEST as LARGEST
    from lamina.memory.scan import TICK_NS as TICK_NS
    from lamina.memory.scan import is_memory_path as is_memory_path
    from lamina.memory.scan import manifest as manifest
    from lamina.memory.topics import HEAD_BYTES as HEAD_BYTES
    from lamina.memory.topics import age_words as age_words
    from lamina.memory.topics import edit_topic as edit_topic
    from lamina.memory.topics import heading as heading
    from lamina.memory.topics import is_binary as is_binary
    from lamina.memory.topics import new_topic as new_topic
    from lamina.memory.topics import read_header as read_header
    from lamina.memory.topics import read_topic as read_topic
    from lamina.memory.topics import topic_at as topic_at
    from lamina.memory.topics import why_ambiguous as why_ambiguous

_HOMES = {
    "ADVISED_LINE": "index",
    "Audit": "audit",
    "GateContext": "gate",
    "HEAD_BYTES": "topics",
    "HistoryDamaged": "history",
    "INDEX": "index",
    "Instruction": "instructions",
    "Instructions": "instructions",
    "LARGEST": "scan",
    "LOADED_BYTES": "index",
    "LOADED_LINES": "index",
    "Pointer": "index",
    "Repaired": "repairs",
    "Step": "audit",
    "TICK_NS": "scan",
    "age_words": "topics",
    "and_kept_away": "forgetting",
    "as_reminder": "instructions",
    "blame": "commits",
    "canonical_root": "paths",
    "contradicting": "audit",
    "date_reminder": "prompt",
    "day": "prompt",
    "diff_text": "commits",
    "earlier_name": "commits",
    "edit_topic": "topics",
    "file_name": "naming",
    "first_reminder": "prompt",
    "free_names": "naming",
    "heading": "topics",
    "holds": "forgetting",
    "is_binary": "topics",
    "is_index": "index",
    "resolver": "index",
    "links_of": "index",
    "files_named": "index",
    "is_memory_path": "scan",
    "is_plain_confirmation": "evidence",
    "leaks_in": "leaks",
    "left_out": "removal",
    "load": "instructions",
    "look_over": "audit",
    "manifest": "scan",
    "memory_place": "paths",
    "known_lines": "prompt",
    "memory_section": "prompt",
    "merge_contents": "journal",
    "missing_files": "audit",
    "new_topic": "topics",
    "not_forgotten": "forgetting",
    "open_agent_store": "file_store",
    "open_store": "file_store",
    "places_for": "instructions",
    "pointer_line": "index",
    "pointers_of": "index",
    "proposal_of": "drafts",
    "proposed": "drafts",
    "read_header": "topics",
    "read_topic": "topics",
    "reminder_for": "prompt",
    "repair": "repairs",
    "rests_on_user": "commits",
    "safe_path": "leaks",
    "short_hook": "index",
    "told_of": "index",
    "sync_team": "file_store",
    "takes_back": "removal",
    "team_authors": "paths",
    "team_folder": "paths",
    "team_is_on": "paths",
    "team_news": "paths",
    "TEAM_AUTHORS": "paths",
    "TEAM_NEWS": "paths",
    "teammate_of": "commits",
    "title_of": "naming",
    "topic_at": "topics",
    "touched": "instructions",
    "unlinked": "index",
    "users_word": "commits",
    "why_ambiguous": "topics",
    "why_bad_name": "naming",
    "why_misnamed": "naming",
    "with_pointer": "index",
    "with_pointers": "index",
    "with_renamed": "index",
    "without_pointer": "index",
    "without_quotations": "index",
    "without_secrets": "leaks",
    "written_at": "commits",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lamina.memory' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"lamina.memory.{_HOMES[name]}"), name)
    return value
