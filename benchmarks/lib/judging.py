"""Cells, how many times faster one entrant is than another, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from benchmarks.lib import ratios
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.harness import Case, Row

#: BLAS threads of the entrant's lane that counts; the other lane is shown.
JUDGED_THREADS = 1

#: What ratios are made of: seconds on the wall, and seconds that the process computed, the kernel's own left out.
CLOCKS = ("wall", "user")
#: Seconds that a run cannot be below: where ticks found a fit in the kernel alone, its user time is 0.
TICK = 1e-6

#: The most of user time that the system's may be, in fits above so many seconds.
SYSTEM_SHARE, LEAST_S = 0.1, 0.02


@dataclass(frozen=True)
class Cell:
    """One case, two entrants: how many times faster ``ours`` is by a clock of `CLOCKS`. ``note`` says why there is no
    plain ratio."""

    case: Case
    ours: Row
    theirs: Row | None
    ratio: ratios.Estimate
    note: str = ""
    clock: str = "wall"

    @property
    def times(self) -> tuple[list[float], list[float]]:
        """Times of theirs and of ours, for the geometric mean; a timeout stands at its limit."""
        if self.theirs is None or self.theirs.status == "timeout":
            return [self.case.limit_s], seconds(self.ours, self.clock)
        return seconds(self.theirs, self.clock), seconds(self.ours, self.clock)


def seconds(row: Row, clock: str) -> list[float]:
    """Of its runs, by a clock."""
    return row.times if clock == "wall" else [max(TICK, t) for t in row.user_times]


def find(rows: Sequence[Row], case: Case, entrant: str, threads: int = JUDGED_THREADS) -> Row | None:
    """The row of a lane, or None."""
    return next((r for r in rows if r.case == case and r.key == (entrant, threads)), None)


def cells(
    rows: Sequence[Row],
    ours: str,
    theirs: str | Sequence[str],
    threads: int = JUDGED_THREADS,
    clock: str = "wall",
    their_threads: int = JUDGED_THREADS,
) -> list[Cell]:
    """A cell for every case that has a row of ours; of several peers, that against the fastest.

    Ours without a time has ratio 0; a peer that timed out counts at its limit, a lower bound; a peer without any time
    has ratio NaN, which passes nothing. One of several that is not installed is left out, and the note says so.
    """
    peers = [theirs] if isinstance(theirs, str) else theirs
    found = []
    for row in rows:
        if row.key != (ours, threads) and row.entrant != "(all)":
            continue
        peer, note = fastest(rows, row.case, peers, clock, their_threads)
        nothing = ratios.Estimate(float("nan"), float("nan"), float("nan"))
        if row.status != "ok":
            ratio, note = ratios.Estimate(0.0, 0.0, 0.0), f"ours: {row.status} {row.reason}"
        elif peer is None or peer.status not in ("ok", "timeout"):
            ratio, note = nothing, f"{' or '.join(peers)}: {peer.reason if peer else 'no row'}"
        elif not seconds(row, clock) or (peer.status == "ok" and not seconds(peer, clock)):
            ratio, note = nothing, f"no {clock} times here"
        elif peer.status == "timeout":
            ratio = ratios.ratio([row.case.limit_s], seconds(row, clock))
            note = f"{peer.entrant} timed out: a lower bound"
        else:
            ratio = ratios.ratio(seconds(peer, clock), seconds(row, clock))
        found.append(Cell(row.case, row, peer, ratio, note, clock))
    return found


def fastest(
    rows: Sequence[Row], case: Case, entrants: Sequence[str], clock: str, threads: int = JUDGED_THREADS
) -> tuple[Row | None, str]:
    """The row with the least median of some entrants' lanes of a case, and who of them is missing.

    Where one of them failed, or has no row at all, so has the fastest: nobody knows how fast it would have been.
    """
    found = [(name, find(rows, case, name, threads)) for name in entrants]
    there = [(name, row) for name, row in found if row is None or row.status != "skipped" or len(entrants) == 1]
    absent = [name for name, _ in found if name not in {name for name, _ in there}]
    note = f"without {' and '.join(absent)}" if absent else ""
    lanes = [row for _, row in there if row is not None]
    broken = [row for row in lanes if row.status not in ("ok", "timeout")]
    if not lanes or len(lanes) < len(there) or broken:
        return (broken[0] if broken else None), note
    return min(lanes, key=lambda row: _middle(row, clock)), note


def _middle(row: Row, clock: str) -> float:
    if row.status == "timeout":
        return row.case.limit_s
    return ratios.median(seconds(row, clock)).value if seconds(row, clock) else float("inf")


def against(
    rows: Sequence[Row],
    ours: str,
    theirs: str | Sequence[str],
    what: str,
    mean: float | None = None,
    least: float | None = None,
    threads: int = JUDGED_THREADS,
    kind: str = "must",
    their_threads: int = JUDGED_THREADS,
    bound: str = "value",
) -> list[Verdict]:
    """Ratios by both clocks: their geometric mean, and each of them, against a number."""
    verdicts = []
    for clock in CLOCKS:
        found = cells(rows, ours, theirs, threads, clock, their_threads)
        said = what if clock == "wall" else f"{what}, {clock} time"
        if mean is not None:
            verdicts.append(mean_at_least(found, mean, said, kind))
        if least is not None:
            verdicts.append(each_at_least(found, least, said, bound, kind))
    return verdicts


def between_threads(rows: Sequence[Row], ours: str, threads: int = 2) -> list[Cell]:
    """How many times faster an entrant is with more threads than with one, by the wall."""
    single = [replace(row, entrant="one thread") for row in rows if row.key == (ours, 1)]
    return cells([*rows, *single], ours, "one thread", threads)


def mean_ratio(found: Sequence[Cell]) -> ratios.Estimate:
    """Geometric mean of the cells' ratios; 0 if there is none, or one has no ratio."""
    if not found or not all(cell.ratio.value > 0 for cell in found):
        return ratios.Estimate(0.0, 0.0, 0.0)
    return ratios.geometric_mean([cell.times for cell in found])


def mean_at_least(found: Sequence[Cell], least: float, what: str, kind: str = "must") -> Verdict:
    """Geometric mean of the ratios against a number."""
    figure = {"sense": ">=", "asked": least, "unit": "×", "note": f"over {len(found)} cells"}
    return Verdict(kind, what, "geometric mean", **asdict(mean_ratio(found)), **figure)


def each_at_least(
    found: Sequence[Cell], least: float, what: str, bound: str = "value", kind: str = "must", strictly: bool = False
) -> Verdict:
    """Every cell's ratio (``bound="value"``) or its lower bound (``"low"``) against a number."""
    measure = {"value": "ratio", "low": "lower bound"}[bound]
    figures = [(cell.case.name, getattr(cell.ratio, bound)) for cell in found]
    verdict = each(kind, what, measure, figures, ">" if strictly else ">=", least, unit="×")
    cell = {cell.case.name: cell for cell in found}.get(verdict.case)
    if cell is None:
        return verdict
    bounds = {"low": cell.ratio.low, "high": cell.ratio.high} if bound == "value" else {}
    return replace(verdict, note=cell.note, **bounds)


def gaps_at_most(rows: Sequence[Row], limit: float, what: str, kind: str = "must") -> Verdict:
    """Every row's certified relative gap against a number; a row without a fit fails."""
    return each(kind, what, "certified relative gap", [(r.case.name, r.relative_gap) for r in rows], "<=", limit)


def little_system_time(rows: Sequence[Row], ours: Sequence[str], what: str = "fits", kind: str = "must") -> Verdict:
    """The kernel's share in all of our fits that take longer than `LEAST_S`: memory that is mapped anew shows in it."""
    found = [
        (f"{row.case.name}, {row.entrant}, {row.threads} thr", sum(row.system_times) / max(TICK, sum(row.user_times)))
        for row in rows
        if row.entrant in ours and row.user_times and ratios.median(row.times).value > LEAST_S
    ]
    if not found:
        return Verdict("shown", f"{what} above {LEAST_S:g} s", "system over user time", float("nan"), case="no fits")
    return each(kind, f"{what} above {LEAST_S:g} s", "system over user time", found, "<=", SYSTEM_SHARE)


def no_worse_gaps(found: Sequence[Cell], what: str) -> Verdict:
    """Whether the answers that were timed are as exact as the peer's: without it a ratio says little."""
    both = [c for c in found if c.theirs is not None and c.theirs.status == c.ours.status == "ok"]
    sides = [c.ours for c in both], [c.theirs for c in both]
    shares = [(c.case.name, _share(c.ours.relative_gap, c.theirs.relative_gap)) for c in both if c.theirs is not None]
    widest, theirs = (max((row.relative_gap for row in rows if row), default=float("nan")) for rows in sides)
    note = f"widest {widest:.2g}, theirs {theirs:.2g}"
    return each("shown", what, "our certified gap over the peer's", shares, "<=", 1.0, note=note)


def _share(ours: float, theirs: float) -> float:
    """Their quotient; 1 where both are the same, 0 or infinite."""
    return 1.0 if ours == theirs else ours / theirs if theirs > 0 else float("inf")
