"""Settings: one table of them, and the loader that resolves files, environment and options."""

from __future__ import annotations

from lamina.config.layers import Layer, Source
from lamina.config.load import (
    FLAGS,
    MANAGED,
    Config,
    Flags,
    absolute,
    defaults,
    find_home,
    load,
    settings_files,
)
from lamina.config.setting import Setting
from lamina.config.table import BY_NAME, KEYS, SETTINGS

__all__ = [
    "BY_NAME",
    "FLAGS",
    "KEYS",
    "MANAGED",
    "SETTINGS",
    "Config",
    "Flags",
    "Layer",
    "Setting",
    "Source",
    "absolute",
    "defaults",
    "find_home",
    "load",
    "settings_files",
]
