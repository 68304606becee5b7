"""Lamina inside other people's agent frameworks, a module for each; none is imported before it is asked
for. The framework's record stays whole: only what its model is sent is changed.
"""

from __future__ import annotations

from importlib import metadata

from lamina.errors import PackageMissing, installing


def needs(package: str, extra: str, least: tuple[int, int], below: int) -> None:
    """Raise PackageMissing, in a sentence, unless the package is there in a version we know."""
    asked = f"{package}>={least[0]}.{least[1]},<{below}"
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        how = installing(extra)
        raise PackageMissing(f"This adapter needs the package {package}: {how}.") from None
    digits = "".join(sign if sign.isdigit() else " " for sign in found)  # of 2.0rc1, 2 and 0
    numbers = tuple(int(part) for part in digits.split()[:2])
    if not least <= numbers < (below, 0):
        raise PackageMissing(
            f"This adapter does not know {package} {found}: pip install '{asked}'."
        )
