"""Finds secrets in text, in linear time, and never repeats one: one scanner for memory and team.

It reads rule files only; it writes nothing and keeps no text.
"""

from lamina.secrets.rules import Rule, Rules, all_rules, load_gitleaks, own_rules
from lamina.secrets.scanner import Finding, Secrets, redact, scan, secrets_in

__all__ = [
    "Finding",
    "Rule",
    "Rules",
    "Secrets",
    "all_rules",
    "load_gitleaks",
    "own_rules",
    "redact",
    "scan",
    "secrets_in",
]
