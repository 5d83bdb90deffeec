"""The text of `Solution.summary`: the numbers of a result, each with its meaning, and which one to read."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from .certificate import Certifier
from .shot_floor import DRAWS, sampled
from .status import Status

#: If the excess is at most this many shot floors, the shots limit it, as in `Solution.shows_circuits`.
MAX_FLOORS = 3.0
#: If the excess is less than this many shot floors, counts alone cannot have brought the answer there.
MIN_FLOORS = 0.1
#: Longest line of the last sentence, in characters.
LINE_CHARS = 100


def summary_of(solution: Any, best: Any, best_of: str) -> str:
    """Return the text.

    Parameters
    ----------
    solution : Solution
    best : Certificate or None
        Of the best known α of the same problem; None if there is none, or none is needed.
    best_of : str
        What found it.
    """
    raw, cost, provenance = solution.raw_certificate, solution.cost, solution.provenance
    place = f" on {provenance['device']}" if "device" in provenance else ""
    lines = [f"{provenance.get('solver', 'solution')}{place}: {solution.raw_status.value}"]
    if raw.relative_gap is None:
        lines.append(_line("objective", f"{raw.objective:.6g}", f"no gap is certified: Q is {raw.psd}"))
    else:
        # f and its bound differ in sign from 1 on, and the share of f* has no bound then.
        bounded = "" if raw.relative_gap < 1 else "; from 1 on it bounds no excess"
        meaning = f"certified: (f − f*)/max(|f|, |bound|) is no larger{bounded}"
        lines.append(_line("raw gap", f"{raw.relative_gap:.1e}", meaning))
    excess = floors = None
    if best is not None and best.objective and np.isfinite(raw.objective):
        f = min(best.objective, raw.objective)
        excess = float(raw.objective - f) / abs(f)
        found = f"(f − f*)/|f*| with the best f* known, by {best_of}"
        known = "" if best.relative_gap is None else f", gap {best.relative_gap:.0e}"
        lines.append(_line("excess", f"{excess:.1e}", found + known))
        floors = floors_of(solution, best)
    if floors is not None:
        lines.append(
            _line("floor of excess", f"{floors[0]:.1e}", f"the optimum itself, measured with {cost.shots:,} shots")
        )
        if floors[1] is not None:
            lines.append(_line("floor of gap", f"{floors[1]:.1e}", "the gap that the same measurement has"))
    if solution.refined:
        gap = solution.certificate.relative_gap
        lines.append(
            _line("refined gap", "none" if gap is None else f"{gap:.1e}", "after a classical method, from any start")
        )
    weight = f"of {solution.problem.n} variables have weight"
    lines.append(_line("support", f"{len(solution.support)}", weight))
    if solution.ran_circuits:
        shots = f"{cost.shots:,} shots" if cost.shots else "exact distributions"
        size = f"on {cost.qubits} qubits, {shots}; depth {cost.depth:,}, {cost.two_qubit_gates:,} two-qubit gates"
        lines.append(_line("circuits", f"{cost.circuits:,}", size))
    else:
        lines.append(_line("steps", f"{cost.steps:,}", f"in {cost.wall_time_s:.2g} s"))
    return "\n".join([*lines, textwrap.fill(_what_to_read(solution, raw, excess, floors), LINE_CHARS)])


def _line(name: str, value: str, meaning: str) -> str:
    return f"  {name:<16} {value:<9} {meaning}"


def floors_of(solution: Any, best: Any, shots: int | None = None) -> tuple[float, float | None] | None:
    """Return the median excess and gap of the optimum, sampled with all shots; None for a run without shots.

    ``shots`` replaces the number of all shots of the run.
    """
    problem, shots = solution.problem, solution.cost.shots if shots is None else shots
    if not shots or not np.isfinite(problem.effective_upper).all():
        return None
    certifier, encoding = Certifier(problem), solution.provenance.get("encoding")
    draws = [
        certifier.certify(sampled(problem, best.alpha, shots, np.random.default_rng(seed), encoding))
        for seed in range(DRAWS)
    ]
    above = float(np.median([draw.objective for draw in draws])) - best.objective
    gaps = [draw.relative_gap for draw in draws]
    known = [gap for gap in gaps if gap is not None]
    gap = float(np.median(known)) if len(known) == len(gaps) else None
    return max(0.0, above) / abs(best.objective), gap


def _what_to_read(solution: Any, raw: Any, excess: float | None, floors: tuple[float, float | None] | None) -> str:
    """Return the sentence on which of the numbers to read."""
    if raw.relative_gap is None:
        return "Read the objective beside those of other solvers: without a positive semidefinite Q nothing bounds it."
    if solution.raw_ended is Status.NOISE_DOMINATED:
        return "Read the status: the outcomes are as good as uniform, and no number here shows what the circuits do."
    if not solution.ran_circuits or floors is None or excess is None:
        whose = "the circuits' own answer" if solution.ran_circuits else "the answer"
        return f"Read the raw gap: it bounds how far {whose} is from the optimum."
    times = excess / floors[0] if floors[0] > 0 else np.inf
    if times < MIN_FLOORS:
        return (
            f"At {times:.2g} floors this answer is far below what counts of the optimum itself would give: the floor "
            "is a scale and no bound. Its α is no plain read-out: the solver reads it in shrinking boxes, or averages "
            "over circuits, or uses f itself in its classical steps. Read the raw gap, and what the controls of "
            "dualflow.compare reach with the same steps."
        )
    if times <= MAX_FLOORS:
        verdict = "as good as its shots allow; more of them, by circuits or by steps, take it farther"
    else:
        verdict = "not limited by its shots, but by steps, ansatz or noise; solution.advice says by which"
    return (
        f"Read the excess beside its floor: noise changes it to second order only, the gap to first. At {times:.2g} "
        f"floors this answer is {verdict}. dualflow.compare shows whether the circuits matter, by controls that run "
        "none."
    )
