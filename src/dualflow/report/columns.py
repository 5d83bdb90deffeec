"""The columns of a comparison: header, what the figure is, and how it is written. Shared by terminal and HTML."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.evidence import margin_text
from .model import Row

__all__ = ["QUANTUM", "RESULTS", "Column", "gap_text", "limits", "seconds_text", "status_text"]

MISSING = "–"
#: In the place of what circuits cost, where their distributions were computed and no gate was applied.
EMULATED = "emulated"


@dataclass(frozen=True)
class Column:
    """``value`` reads a row, ``text`` writes a figure that is not None; ``meaning`` is the reader's legend."""

    header: str
    meaning: str
    value: Callable[[Row], Any]
    text: Callable[[Any], str]
    narrow: str = ""  # header where room is short

    def cell(self, row: Row) -> str:
        """The figure as it is shown."""
        value = self.value(row)
        return MISSING if value is None else self.text(value)


def gap_text(gap: float) -> str:
    """Two significant digits, scientific."""
    return "∞" if math.isinf(gap) else "0" if gap == 0 else f"{gap:.1e}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


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
    """A figure of a row in units of its floor."""

    def ratio(row: Row) -> float | None:
        value, unit = getattr(row, figure), getattr(row, floor)
        return None if value is None or not unit else value / unit

    return ratio


def _quantum_only(name: str) -> Callable[[Row], Any]:
    return lambda row: getattr(row, name) if row.device is not None else None


def _of_circuit(name: str) -> Callable[[Row], Any]:
    """A figure of circuits as they were run, which an emulated row has none of."""
    return lambda row: EMULATED if row.role == "emulated" and row.ran else _quantum_only(name)(row)


def _of(name: str) -> Callable[[Row], Any]:
    return lambda row: getattr(row, name)


RESULTS = (
    Column(
        "excess",
        "(f − f*)/|f*| of the raw answer, f* cvxopt's optimum: second order in the shot noise, the gap is first order; "
        "it ranks beyond the tolerance where a row is sampled",
        _of("excess"),
        gap_text,
    ),
    Column(
        "raw gap",
        "relative duality gap of the solver's answer, projected; it ranks beyond the tolerance where no row is sampled",
        _of("raw_gap"),
        gap_text,
    ),
    Column(
        "refined gap",
        "relative gap after the classical active-set refinement; it finds the optimum from any start, so it is no "
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
        "accuracy", "held-out points classified rightly by the raw answer", _of("accuracy"), _percent, "accu-\nracy"
    ),
    Column(
        "support",
        "agreement of the raw answer's support set with cvxopt's (Jaccard index, 1 = the same)",
        _of("support_agreement"),
        lambda x: f"{x:.2f}",
        "sup-\nport",
    ),
    Column(
        "time",
        "wall time to the raw answer, certificates and refinement apart; it ranks rows within the tolerance. "
        "Of three short runs the quickest",
        _of("wall_time_s"),
        seconds_text,
    ),
    Column(
        "classical",
        "share of that time not spent waiting for a device or its simulator",
        _of("classical_share"),
        lambda x: f"{100 * x:.0f} %",
        "clas-\nsical",
    ),
    Column("steps", "steps of the driver's loop; a step is the solver's own unit", _of("steps"), _count),
)

QUANTUM = (
    Column("qubits", "of the largest circuit", _quantum_only("qubits"), _count),
    Column("circuits", "run in all", _of_circuit("circuits"), _count, "cir-\ncuits"),
    Column("depth", "of the largest circuit, as it was run", _of_circuit("depth"), _count),
    Column("2-qubit", "two-qubit gates of the largest circuit", _of_circuit("two_qubit_gates"), _count, "2-\nqubit"),
    Column("shots", "over all circuits; 0 where distributions were exact", _quantum_only("shots"), _count),
    Column(
        "shot floor",
        "excess of the exact optimum itself, sampled with all the shots of the run (median of several draws)",
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
        "evidence",
        "times fewer circuits, or times nearer (by excess), than the better of 'null' and 'control:random'; below 5 "
        "there is no evidence that the circuits matter",
        _of("margin"),
        margin_text,
        "evi-\ndence",
    ),
    Column(
        "fidelity",
        "of the read-outs to the distributions of their circuits (linear cross-entropy): 1 for the right device, 0 for "
        "one that ignores its circuits",
        _of("fidelity"),
        lambda x: f"{x:.2f}",
        "fide-\nlity",
    ),
    Column(
        "extra: angles",
        "relative gap of the state computed classically from the circuit's angles, not measured; an extra",
        _of("parameter_gap"),
        gap_text,
        "extra:\nangles",
    ),
)


def status_text(row: Row) -> str:
    """The status in small letters."""
    return row.status.replace("_", " ").lower()


def limits(tol: float) -> tuple[str, ...]:
    """What a reader must know before believing a table; the report prints all of it."""
    return (
        "Rows that met the tolerance are ranked by time, the others by the raw gap, or, where a row is sampled, by the "
        "excess: of what the solver itself delivered, projected onto the feasible set and certified by this package, "
        "never by the solver. The refined gap stands beside it because a user of an estimator gets the refined answer; "
        "the refinement is classical and finds the optimum from any start.",
        f"Every run stops once its certified gap is below {tol:g}: a gap below that says by how much a solver "
        "overshot, not that it is better. Times within a factor of two of one another are luck.",
        "One data set, one subsample, one seed. Differences in accuracy of a point or two are noise, and so are "
        "factors of two or three between the excesses of sampled rows. The shot floor is that of all shots of the run. "
        "The same random_state draws the same shots: an error bar needs a comparison for each of several seeds.",
        "A relative gap cannot exceed 2 where the optimum is positive (L2-SVM), so useless answers crowd there; "
        "the excess keeps them apart.",
        "Where the device is the emulator no gate is applied: numpy computes each distribution, what circuits would "
        "cost is not known to it, and its rows are ranked among themselves, in brackets.",
        "Times are of this machine, for problems of this size, and shared with whatever else it was doing. "
        "A simulator's time says nothing about hardware, in either direction.",
        "Quantum circuits ran on simulators without noise unless the device's name says otherwise. The kernel "
        "matrix, the gradient from each read-out, the update of the angles, step control, projection, "
        "certificate and decision function are all computed classically; the circuit supplies a distribution.",
        "The controls use the same loop. 'null' returns uniform counts, 'control:random' one random bit string a "
        "circuit: a solver that does not need 5 times fewer circuits, or end 5 times nearer, shows no evidence that "
        "its circuits matter. One run each; a margin near 5 is a matter of luck.",
        "'classical-sampler' draws from the same distribution without any circuit. Where the classical sampler does "
        "as well as the quantum device, the circuit contributed nothing a random-number generator could not.",
        "No quantum advantage is claimed.",
    )
