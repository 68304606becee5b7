"""The version, alone, so that `lamina --version` and the build read one small file."""

__version__ = "0.1.0"
