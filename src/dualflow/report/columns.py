"""The columns of a comparison's tables, for the terminal and for HTML: header, meaning, value and format."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.evidence import margin_text
from .model import Row

#: Text of a missing value.
MISSING = "–"
#: Text in place of a circuit's cost if its distribution was computed and no gate was applied.
EMULATED = "emulated"
#: Smaller gaps are rounding, which differs between two fits of one model.
LEAST_GAP = 1e-12


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    header : str
    meaning : str
        Its explanation in the legend.
    value : callable
        Returns the value of a row, or None.
    text : callable
        Formats a value that is not None.
    narrow : str
        The header if there is little room.
    """

    header: str
    meaning: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str]
    narrow: str = ""

    def cell(self, row: Row) -> str:
        """Return the value of a row as text."""
        value = self.value(row)
        return MISSING if value is None else self.text(value)


def gap_text(gap: float) -> str:
    """Return a gap with two significant digits, in scientific notation; all below `LEAST_GAP` are alike."""
    if math.isinf(gap):
        return "∞"
    return "0" if gap == 0 else f"< {LEAST_GAP:.0e}" if abs(gap) < LEAST_GAP else f"{gap:.1e}"


def _share(share: float) -> str:
    return f"{share:.3f}"


def seconds_text(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.{0 if seconds >= 0.01 else 1}f} ms"


def _count(number: int | str) -> str:
    if isinstance(number, str):
        return number
    return f"{number:,}".replace(",", "\u00a0")


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _over(figure: str, floor: str) -> Callable[[Row], float | None]:
    """Return a function that gives a row's value in units of its floor."""

    def ratio(row: Row) -> float | None:
        value, unit = getattr(row, figure), getattr(row, floor)
        return None if value is None or not unit else value / unit

    return ratio


def _quantum_only(name: str) -> Callable[[Row], Any]:
    return lambda row: getattr(row, name) if row.device is not None else None


def _of_circuit(name: str) -> Callable[[Row], Any]:
    """Return a function that gives a row's circuit cost; an emulated row has none."""
    return lambda row: EMULATED if row.role == "emulated" and row.ran else _quantum_only(name)(row)


def _of(name: str) -> Callable[[Row], Any]:
    return lambda row: getattr(row, name)


RESULTS = (
    Column(
        "excess",
        "(f − f*)/|f*| of the raw answer, where f* is cvxopt's optimum. Shot noise enters it in second order, and the "
        "gap in first order. If a row is sampled, it ranks the rows that did not meet the tolerance",
        _of("excess"),
        gap_text,
    ),
    Column(
        "excess band",
        "lower and upper quartile of the excess over the seeds of a sampled row, whose excess and raw gap are medians",
        lambda row: None if row.excess_low is None else (row.excess_low, row.excess_high),
        lambda band: f"{gap_text(band[0])} to\n{gap_text(band[1])}",
        "excess\nband",
    ),
    Column(
        "time",
        "wall time to the raw answer, without certificates and refinement; it ranks the rows that met the tolerance. "
        "It is the fastest of up to three runs within a second, as is that of a model's fit",
        _of("wall_time_s"),
        seconds_text,
    ),
    Column(
        "raw gap",
        "relative duality gap of the solver's own answer, projected onto the feasible set. If no row is sampled, it "
        "ranks the rows that did not meet the tolerance",
        _of("raw_gap"),
        gap_text,
    ),
    Column(
        "refined gap",
        "relative gap after the classical active-set refinement, which finds the optimum from any start; it is not "
        "evidence for the solver and is not ranked",
        _of("refined_gap"),
        gap_text,
    ),
    Column(
        "infeasibility",
        "largest violation of a constraint by the raw answer, absolute",
        _of("infeasibility"),
        gap_text,
        "in-\nfeas.",
    ),
    Column(
        "accuracy",
        "share of the held-out points that the raw answer classifies correctly",
        _of("accuracy"),
        _share,
        "accu-\nracy",
    ),
    Column(
        "balanced accuracy",
        "mean of the accuracies on the held-out points of each class: 0.5 for a constant answer",
        _of("balanced_accuracy"),
        _share,
        "bal.\nacc.",
    ),
    Column(
        "support",
        "agreement of the raw answer's support set with cvxopt's (Jaccard index, 1 = the same)",
        _of("support_agreement"),
        lambda x: f"{x:.2f}",
        "sup-\nport",
    ),
    Column(
        "classical",
        "share of the time that was not spent waiting for a device or its simulator",
        _quantum_only("classical_share"),
        lambda x: f"{100 * x:.0f} %",
        "clas-\nsical",
    ),
    Column("steps", "number of steps; a step is the solver's own unit", _of("steps"), _count),
)

QUANTUM = (
    Column("qubits", "qubits of the largest circuit", _quantum_only("qubits"), _count),
    Column("circuits", "number of circuits that were run", _of_circuit("circuits"), _count, "cir-\ncuits"),
    Column("depth", "depth of the largest circuit, as it was run", _of_circuit("depth"), _count),
    Column("2-qubit", "two-qubit gates of the largest circuit", _of_circuit("two_qubit_gates"), _count, "2-\nqubit"),
    Column("shots", "shots of all circuits together; 0 if distributions were exact", _quantum_only("shots"), _count),
    Column(
        "shot floor",
        "excess of the exact optimum, sampled with all shots of the run (median of several draws)",
        _of("excess_floor"),
        gap_text,
    ),
    Column(
        "excess/floor",
        "excess in units of the shot floor",
        _over("excess", "excess_floor"),
        _ratio,
        "excess/\nfloor",
    ),
    Column(
        "gap/floor",
        "raw gap in units of the raw gap of the same samples",
        _over("raw_gap", "shot_floor"),
        _ratio,
        "gap/\nfloor",
    ),
    Column(
        "over chance",
        "how many times fewer circuits than the better of 'null' and 'control:random', whose outcomes are chance, or "
        "how many times smaller excess; below 5 there is no evidence that the circuits matter",
        _of("margin"),
        margin_text,
        "over\nchance",
    ),
    Column(
        "fidelity",
        "agreement of the read-outs with the exact distributions of their circuits (linear cross-entropy): 1 for a "
        "perfect device, 0 for one that ignores its circuits; it is an estimate, and above 1 is no better than 1",
        _of("fidelity"),
        lambda x: f"{x:.2f}",
        "fide-\nlity",
    ),
    Column(
        "extra: angles",
        "relative gap of the state that is computed classically from the circuit's angles, not measured; not ranked",
        _of("parameter_gap"),
        gap_text,
        "extra:\nangles",
    ),
)


def status_text(row: Row) -> str:
    """Return the status in lower case."""
    return row.status.replace("_", " ").lower()


def limits(tol: float, circuits: bool = True, seeds: int = 1) -> tuple[str, ...]:
    """Return the limitations of a comparison, which the report prints; ``circuits`` adds those of circuits."""
    return _limits(tol, seeds) + (_circuit_limits(seeds) if circuits else ())


def _limits(tol: float, seeds: int) -> tuple[str, ...]:
    draws = (
        "There is one data set, one split into training and held-out rows, and one seed. Differences in accuracy of "
        "one or two points are noise; seeds=5 gives sampled rows error bars (--seeds 5 on the command line)."
    )
    if seeds > 1:
        draws = (
            "There is one data set and one split into training and held-out rows. Differences in accuracy of one or "
            f"two points are noise. A sampled row has the medians of {seeds} seeds and their quartiles, between which "
            "half of the runs lie; they are no confidence interval. Its other figures are those of the run with the "
            "median excess."
        )
    return (
        draws,
        "Times are those of this machine, for problems of this size, with all else that ran on it. Times that differ "
        "by a factor of two or less are a tie, which the ranks show as 3=.",
        f"Every run stops once its certified gap is below {tol:g}. A smaller gap does not make a solver better.",
        "The raw gap is that of the solver's own answer, projected onto the feasible set and certified by this "
        "package, never by the solver. The refined gap is shown because a user of an estimator gets the refined "
        "answer; the refinement is classical and finds the optimum from any start.",
    )


def _circuit_limits(seeds: int) -> tuple[str, ...]:
    """Return the limitations of rows that ran circuits."""
    chance = noise = ""
    if seeds == 1:
        chance = " Each control is run once, so a factor near 5 may be chance."
        noise = " Factors of two or three between the excesses of sampled rows are noise."
    return (
        f"If a row is sampled, rows that did not meet the tolerance are ranked by the excess.{noise} The shot floor is "
        "that of all shots of the run. The same random_state draws the same shots.",
        "A relative gap cannot exceed 2 if the optimum is positive (L2-SVM), so that the gaps of all useless answers "
        "are close to 2; the excess separates them.",
        "The time of a simulator says nothing about the time of hardware.",
        "On the emulator no gate is applied: numpy computes each distribution. The cost of circuits is unknown there, "
        "and emulated rows are ranked among themselves, in brackets.",
        "Quantum circuits ran on simulators without noise unless the device's name says otherwise. The kernel "
        "matrix, the gradient from each read-out, the update of the angles, step control, projection, "
        "certificate and decision function are all computed classically; the circuit supplies a distribution.",
        "The controls use the same loop. 'null' returns uniform counts, 'control:random' one random bit string for "
        "each circuit. Unless a solver needs 5 times fewer circuits than they do, or ends with a 5 times smaller "
        f"excess, there is no evidence that its circuits matter.{chance}",
        "'classical-sampler' draws from the same distribution without any circuit. If the classical sampler does as "
        "well as the quantum device, the circuit contributed nothing that a random-number generator could not.",
        "No quantum advantage is claimed.",
    )
