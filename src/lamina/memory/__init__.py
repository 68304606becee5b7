"""Layer 3's room, and its one door: what other rooms may use of it.

The store is `ports.MemoryStore`; `FileStore` is the one that wiring makes. The rest are functions on
the text of memories, their names and their index. Names load when first used: a turn without memory
loads none of it. Import-linter forbids going past this module.
"""
# ruff: noqa: F401 - others import these from here
# pyright: reportUnusedImport=false

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import alone costs time
if TYPE_CHECKING:
    from typing import Any

    from lamina.memory.audit import FEW_TO_ASK, Audit, Step, contradicting, look_over, missing_files
    from lamina.memory.commits import (
        blame,
        diff_text,
        earlier_name,
        rests_on_user,
        teammate_of,
        users_word,
        written_at,
    )
    from lamina.memory.confirmations import is_plain_confirmation
    from lamina.memory.drafts import (
        file_in_their_words,
        in_their_words,
        leaks_in,
        note_of,
        proposal_of,
        proposed,
        safe_path,
        without_secrets,
    )
    from lamina.memory.file_store import open_agent_store, open_store, sync_team
    from lamina.memory.forgetting import and_kept_away, holds, not_forgotten
    from lamina.memory.gate import GateContext, days_named
    from lamina.memory.history import HistoryDamaged
    from lamina.memory.index import (
        ADVISED_LINE,
        INDEX,
        LOADED_BYTES,
        LOADED_LINES,
        Pointer,
        files_named,
        is_index,
        joined_lines,
        lines_in,
        links_of,
        pointer_line,
        pointers_of,
        resolver,
        short_hook,
        told_of,
        unlinked,
        with_pointer,
        with_pointers,
        with_renamed,
        without_pointer,
        without_quotations,
    )
    from lamina.memory.instructions import Instructions, as_reminder, load, places_for, touched
    from lamina.memory.journal import merge_contents
    from lamina.memory.naming import file_name, free_names, title_of, why_bad_name, why_misnamed
    from lamina.memory.paths import (
        TEAM_AUTHORS,
        TEAM_NEWS,
        canonical_root,
        memory_place,
        place_of,
        team_authors,
        team_folder,
        team_is_on,
        team_news,
    )
    from lamina.memory.prompt import (
        date_reminder,
        first_reminder,
        known_lines,
        memory_section,
        reminder_for,
    )
    from lamina.memory.removal import left_out, takes_back
    from lamina.memory.repairs import Repaired, repair
    from lamina.memory.scan import LARGEST, TICK_NS, is_memory_path, manifest
    from lamina.memory.topics import (
        HEAD_BYTES,
        age_words,
        brought_to,
        edit_topic,
        heading,
        is_binary,
        read_header,
        read_topic,
        topic_at,
        topic_of,
        why_ambiguous,
    )

# The same names for `__getattr__`, by the module that they come from.
_NAMES = {
    "audit": "FEW_TO_ASK Audit Step contradicting look_over missing_files",
    "commits": "blame diff_text earlier_name rests_on_user teammate_of users_word written_at",
    "drafts": "file_in_their_words in_their_words leaks_in note_of proposal_of proposed safe_path "
    "without_secrets",
    "confirmations": "is_plain_confirmation",
    "file_store": "open_agent_store open_store sync_team",
    "forgetting": "and_kept_away holds not_forgotten",
    "gate": "GateContext days_named",
    "history": "HistoryDamaged",
    "index": (
        "ADVISED_LINE INDEX LOADED_BYTES LOADED_LINES Pointer files_named is_index joined_lines "
        "lines_in links_of "
        "pointer_line pointers_of resolver short_hook told_of unlinked with_pointer "
        "with_pointers with_renamed without_pointer without_quotations"
    ),
    "instructions": "Instructions as_reminder load places_for touched",
    "journal": "merge_contents",
    "naming": "file_name free_names title_of why_bad_name why_misnamed",
    "paths": (
        "TEAM_AUTHORS TEAM_NEWS canonical_root memory_place place_of team_authors team_folder "
        "team_is_on team_news"
    ),
    "prompt": "date_reminder first_reminder known_lines memory_section reminder_for",
    "removal": "left_out takes_back",
    "repairs": "Repaired repair",
    "scan": "LARGEST TICK_NS is_memory_path manifest",
    "topics": (
        "HEAD_BYTES age_words brought_to edit_topic heading is_binary read_header read_topic "
        "topic_at topic_of why_ambiguous"
    ),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'lamina.memory' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"lamina.memory.{_HOMES[name]}"), name)
    return value
