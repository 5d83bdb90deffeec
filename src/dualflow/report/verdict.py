"""The verdict of a comparison: one sentence that names the solver to use."""

from __future__ import annotations

from .columns import gap_text, seconds_text, status_text
from .model import Results, Row, Section

__all__ = ["overall", "verdict"]

#: Solvers whose times are within this factor of the least are named together: such differences are chance.
TIE_FACTOR = 2.0
#: Maximum number of solvers that are named.
MAX_NAMED = 3


def verdict(section: Section) -> str:
    """Return the sentence that names the solver to use for one problem: the fastest that met the tolerance.

    Controls, repairs and emulated rows are never recommended.
    """
    if not (ranking := section.ranking):
        return "No verdict: no ranked row has a certified gap."
    if times := _times(section):
        return _use(times, section.tol, "optimal in", "")
    best = ranking[0]
    excess = "" if best.excess is None else f", excess {gap_text(best.excess)}"
    return (
        f"No solver met tol = {section.tol:g}. The best is {_name(best)}: raw gap {gap_text(best.raw_gap or 0.0)}"
        f"{excess} ({status_text(best)})."
    )


def overall(comparison: Results) -> str:
    """Return the sentence that names the solver with the least total time that met the tolerance on all problems."""
    sections = comparison.sections
    if len(sections) == 1:
        return verdict(sections[0])
    found = [_times(section) for section in sections]
    took = {name: sum(times[name] for times in found) for name in found[0] if all(name in times for times in found)}
    if not took:
        return f"No single solver met tol = {sections[0].tol:g} on all {len(sections)} problems."
    return _use(took, sections[0].tol, f"optimal on all {len(sections)} problems, in", " together")


def _times(section: Section) -> dict[str, float]:
    """Return the seconds of each solver that met the tolerance."""
    met: dict[str, float] = {}
    for row in section.ranking:
        if row.met(section.tol):
            met[_name(row)] = min(row.wall_time_s or 0.0, met.get(_name(row), float("inf")))
    return met


def _use(times: dict[str, float], tol: float, what: str, how: str) -> str:
    quickest = sorted(times, key=times.__getitem__)
    named = [name for name in quickest if times[name] <= TIE_FACTOR * times[quickest[0]]][:MAX_NAMED]
    least, most = (seconds_text(times[name]) for name in (named[0], named[-1]))
    took = least if least == most else f"{least} to {most}"
    names = " or ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    others = len(times) - len(named)
    more = f" ({others} more)" if others else ""
    tied = f"; everything within tol = {tol:g} is a tie{more}" if len(times) > 1 else ""
    return f"Use {names}: {what} {took}{how}{tied}."


def _name(row: Row) -> str:
    """Return the solver and its device; the reference is named like any other solver."""
    return row.solver if row.device is None else f"{row.solver} on {row.variant}"
