"""Tables and bars that fit the terminal: the least important columns give way, then long names are cut, so
that no line is broken by the terminal itself. Pure but for colours, which follow the terminal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lamina.cli.terminal import columns, one_line, style, table

GAP = 2  # columns between two cells
LEAST = 12  # columns that a name keeps while other columns can give way
SHORTEST_BAR = 6
LONGEST_BAR = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(value: float, most: float, room: int) -> str:
    """A bar whose length is the value's share of `most`, to an eighth of a character."""
    eighths = round(8 * room * value / most) if most > 0 else 0
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def fitted(
    rows: Sequence[Sequence[str]],
    heading: Sequence[str],
    room: int,
    *,
    gives_way: Sequence[int],
    cut: int,
    right: Collection[int] = (),
    bars: Sequence[float] = (),
    bar_after: int = -1,
) -> str:
    """A table of at most `room` columns. Those of `gives_way` leave, the first first, until `cut` has
    room; `right` ones are flush right. `bars` are drawn behind column `bar_after` in what is left."""
    cells = [list(map(_plain, heading)), *(list(map(_plain, row)) for row in rows)]
    widths = [max(columns(line[at]) for line in cells) for at in range(len(heading))]
    wanted = max(SHORTEST_BAR, room // 8) + GAP if bars else 0
    kept, wide = fit(widths, room - wanted, gives_way, cut)
    left = room - GAP * len(kept) - sum(widths[at] for at in kept if at != cut) - wide
    most = min(LONGEST_BAR, left) if bars else 0
    if most < SHORTEST_BAR:
        most, wide = 0, max(1, wide + min(0, left + GAP))
    lines: list[list[str]] = []
    for number, line in enumerate(cells):
        line[cut] = one_line(line[cut], wide)
        shown: list[str] = []
        for at in kept:
            space = " " * (widths[at] - columns(line[at])) if at in right else ""
            cell = space + line[at]
            shown.append(cell if number else style(cell, "dim"))
            if at == bar_after and most:
                shown.append(bar(bars[number - 1], max(bars), most) if number else "")
        lines.append(shown)
    return table(lines)


def fit(
    widths: Sequence[int], room: int, gives_way: Sequence[int], cut: int
) -> tuple[list[int], int]:
    """Which columns stay, and how wide the one that may be cut is then."""
    kept = list(range(len(widths)))
    least = min(LEAST, widths[cut])
    for at in (*gives_way, -1):
        others = sum(widths[column] + GAP for column in kept if column != cut)
        if room - others >= least or at < 0:
            return kept, max(1, min(widths[cut], room - others))
        kept.remove(at)
    return kept, least


def _plain(cell: str) -> str:
    return " ".join(cell.split())
