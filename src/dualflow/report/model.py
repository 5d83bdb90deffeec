"""The data of a comparison: settings, sections, rows. Other modules of this package show them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.solution import Solution
from .scores import ModelScore

#: Roles of rows. Controls are never ranked, nor are repairs, whose problem is another one. Emulated rows, in which no
#: gate was applied, are ranked among themselves.
ROLES = ("reference", "classical", "quantum", "emulated", "control", "repair")

#: Times of solvers within this factor of the least are a tie: such differences are chance.
TIE_FACTOR = 2.0


@dataclass(frozen=True)
class Row:
    """One solver, on one device, on one problem: numbers, or the reason why there are none.

    Attributes
    ----------
    problem, solver : str
    role : {"reference", "classical", "quantum", "emulated", "control", "repair"}
    device : str or None
        None for classical solvers.
    shots_per_circuit : int or None
        None where there is no device, or where it returned exact distributions.
    status : str
        Name of the `Status` of the raw answer; "DOES NOT APPLY", "NOT INSTALLED", "FAILED" or "NOT RUN" if the row has
        no numbers.
    reason : str or None
        Why the row has no numbers.
    note : str or None
        A remark on a row that has numbers.
    rank : int or None
        Rank among the solvers of the section, or among its emulated rows. Rows that met the tolerance come first, by
        `wall_time_s`; then the others, by `excess` if a row of the section is sampled, else by `raw_gap`. None for
        controls and rows without a gap.
    raw_gap : float or None
        Relative gap of the projection of the solver's own answer.
    refined_gap : float or None
        Relative gap after the classical active-set refinement of the same answer. The refinement finds the optimum
        from any start, so this gap is not evidence for the solver.
    infeasibility : float or None
        Largest violation of a bound or the equality by the raw answer, absolute.
    accuracy : float or None
        Fraction of held-out points that the raw answer classifies correctly.
    support_agreement : float or None
        Jaccard index of the support sets of the raw answer and of the reference.
    wall_time_s : float or None
        Seconds to the raw answer, without certificates and refinement.
    classical_share : float or None
        Fraction of `wall_time_s` that was not spent waiting for a device or its simulator.
    refine_time_s : float or None
        Seconds of the refinement.
    steps : int or None
    qubits, depth, two_qubit_gates : int or None
        Size of the largest circuit, as it was run.
    circuits, shots : int or None
        Over the whole run.
    shot_floor : float or None
        Relative gap of the *exact* optimum, sampled with the number of shots of the whole run: median over seeds.
    excess : float or None
        (f − f*)/|f*| of the raw answer's projection; f* is that of the refined reference. It ranks the rows of a
        section with sampled rows. The error of shots is second order in the objective, and first order in the certified
        gap. If Q is indefinite the optimum is unknown, and f* is the best objective that any row of the section found.
    excess_floor : float or None
        Excess of the same samples as `shot_floor`; `excess` is compared with it.
    margin : float or None
        How many times fewer circuits a quantum row needed, or how many times closer to the optimum it ended, than the
        better of the same solver's rows on the devices "null" and "control:random". Below 5 it is not evidence.
    fidelity : float or None
        Slope of measured against exact distributions of the circuits (``provenance["fidelity"]``); 1 for a perfect
        device.
    parameter_gap : float or None
        Relative gap of `parameter_alpha`, which is computed classically from the circuit's angles. Never ranked.
    raw_objective : float or None
        f of the raw answer's projection, absolute; for a repair, on the original kernel.
    repair : str or None
        How the indefinite kernel of a row of role "repair" was repaired: "clip", "flip" or "shift".
    balanced_accuracy : float or None
        Mean of the accuracies on the held-out points of each class.
    seeds : int
        Runs behind the row. With several, `raw_gap` and `excess` are medians over them, and all other figures are those
        of the run whose excess is the median (of two, the lower one).
    gap_low, gap_high, excess_low, excess_high : float or None
        Quartiles of `raw_gap` and `excess` over the seeds; None for a single run.
    tie : int or None
        Rank of the fastest of the rows with which the row ties: all met the tolerance, within `TIE_FACTOR` times the
        time of the fastest. None without a tie.
    solution : Solution or None
        The whole answer.
    """

    problem: str
    solver: str
    role: str
    device: str | None = None
    shots_per_circuit: int | None = None
    status: str = "NOT RUN"
    reason: str | None = None
    note: str | None = None
    rank: int | None = None
    raw_gap: float | None = None
    refined_gap: float | None = None
    infeasibility: float | None = None
    accuracy: float | None = None
    support_agreement: float | None = None
    wall_time_s: float | None = None
    classical_share: float | None = None
    refine_time_s: float | None = None
    steps: int | None = None
    qubits: int | None = None
    circuits: int | None = None
    depth: int | None = None
    two_qubit_gates: int | None = None
    shots: int | None = None
    shot_floor: float | None = None
    excess: float | None = None
    excess_floor: float | None = None
    margin: float | None = None
    parameter_gap: float | None = None
    fidelity: float | None = None
    raw_objective: float | None = None
    repair: str | None = None
    balanced_accuracy: float | None = None
    seeds: int = 1
    gap_low: float | None = None
    gap_high: float | None = None
    excess_low: float | None = None
    excess_high: float | None = None
    tie: int | None = None
    solution: Solution | None = field(default=None, repr=False, compare=False)

    @property
    def ran(self) -> bool:
        """Whether the row has numbers."""
        return self.reason is None

    def met(self, tol: float) -> bool:
        """Return whether the certified gap of the raw answer is at most ``tol``; how far below is chance."""
        return self.raw_gap is not None and self.raw_gap <= tol

    @property
    def place(self) -> str:
        """The rank as text, in brackets for an emulated row; "4=" if rows tie from rank 4 on."""
        if self.tie is not None:
            return f"{self.tie}="
        return "–" if self.rank is None else f"({self.rank})" if self.role == "emulated" else str(self.rank)

    @property
    def variant(self) -> str:
        """Device and role as text; empty for a classical solver."""
        if self.role == "reference":
            return "reference"
        if self.repair is not None:
            return f"repair: {self.repair}"
        if self.device is None:
            return ""
        sampled = "" if self.shots_per_circuit or not self.ran else ", exact"
        if self.role == "control":
            return f"control: {self.device.removeprefix('control:')}{sampled}"
        return f"{self.device}{sampled}"


@dataclass(frozen=True)
class Section:
    """One problem and its rows: those that met the tolerance, then the others by rank, then those without numbers.

    Attributes
    ----------
    problem, title : str
    n : int
        Number of variables.
    kind : str
        Shape of the feasible set.
    tol : float
        Relative gap at which every run stopped.
    reference : Solution or None
        CVXOPT's answer to the problem; None if there is none, for the reason in `reference_note`.
    rows : tuple of Row
    """

    problem: str
    title: str
    n: int
    kind: str
    tol: float
    reference: Solution | None
    reference_note: str | None
    rows: tuple[Row, ...]

    @property
    def by_excess(self) -> bool:
        """Whether the rows are ranked by excess, and not by raw gap."""
        return ranks_by_excess(self.rows)

    @property
    def ranking(self) -> list[Row]:
        """The ranked rows, best first."""
        ranked = (row for row in self.rows if row.rank is not None and row.role != "emulated")
        return sorted(ranked, key=lambda row: row.rank or 0)


@dataclass(frozen=True)
class Results:
    """The data of a `Comparison`."""

    sections: tuple[Section, ...]
    settings: dict[str, Any]
    versions: dict[str, str]
    interrupted: bool = False
    models: tuple[ModelScore, ...] = ()
    scoring: str = "balanced_accuracy"

    @property
    def rows(self) -> list[Row]:
        """The rows of all sections."""
        return [row for section in self.sections for row in section.rows]


def ranks_by_excess(rows: Iterable[Row]) -> bool:
    """Return whether rows are ranked by excess: one of them is sampled, and its excess is known.

    Certified gaps of sampled rows saturate (that of an L2-SVM is at most 2), so that they separate good states from
    noise poorly.
    """
    return any(row.shots_per_circuit and row.ran and row.excess is not None for row in rows)
