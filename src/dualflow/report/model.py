"""A comparison as data: settings, sections, rows. Showing it is the neighbours' business."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..core.solution import Solution

__all__ = ["ROLES", "Results", "Row", "Section", "ranks_by_excess"]

#: What a row is there for. Controls are shown and never ranked; so are repairs, whose problem is another one.
#: Emulated rows, where no gate was applied, are ranked apart.
ROLES = ("reference", "classical", "quantum", "emulated", "control", "repair")


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
        Name of the solver's own `Status` (that of the raw answer); "DOES NOT APPLY", "NOT INSTALLED", "FAILED" or
        "NOT RUN" where there are no numbers.
    reason : str or None
        Why there are no numbers.
    note : str or None
        What else a reader should know of a row that has numbers.
    rank : int or None
        Place among the solvers of the section, or among its emulated rows: those that met the tolerance by
        `wall_time_s`, behind them the others by `excess` where a row of the section is sampled, else by `raw_gap`.
        None for controls and rows without a gap.
    raw_gap : float or None
        Relative gap of the projection of the solver's own answer.
    refined_gap : float or None
        Relative gap after the classical active-set refinement of that same answer. It finds the optimum from any
        start, so it says nothing about the solver.
    infeasibility : float or None
        Largest violation of a bound or the equality by the raw answer, absolute.
    accuracy : float or None
        Fraction of held-out points classified rightly by the raw answer.
    support_agreement : float or None
        Jaccard index of the raw answer's support set and the reference's.
    wall_time_s : float or None
        Seconds to the raw answer, certificates and refinement apart.
    classical_share : float or None
        Fraction of it not spent waiting for a device or its simulator.
    refine_time_s : float or None
        Seconds of the refinement.
    steps : int or None
    qubits, depth, two_qubit_gates : int or None
        Of the largest circuit, as it was run.
    circuits, shots : int or None
        Over the whole run.
    shot_floor : float or None
        Relative gap of the *exact* optimum sampled with as many shots as the whole run took: median over seeds.
    excess : float or None
        (f − f*)/|f*| of the raw answer's projection, f* the refined reference's. It ranks sampled rows, and all beside
        them. What shots cost in the objective
        itself is second order in their noise; in the certified gap it is first order. Where Q is indefinite f* is the
        best objective that any row of the section found: nobody knows the optimum.
    excess_floor : float or None
        The excess of the same samples as `shot_floor`: what `excess` is held against.
    margin : float or None
        How many times fewer circuits a quantum row needed, or how many times nearer it ended, than the same solver on
        the devices "null" and "control:random": against the better of them. Below 5 it is no evidence.
    fidelity : float or None
        Slope of the measured to the circuits' own distributions (``provenance["fidelity"]``): 1 for the right device.
    parameter_gap : float or None
        Relative gap of `parameter_alpha`, what the classical side knows of the circuit's angles. An extra, never
        ranked.
    raw_objective : float or None
        f of the raw answer's projection, absolute; of a repair's answer, with the kernel as it was.
    repair : str or None
        What was done to an indefinite kernel before a row of role "repair" was solved: "clip", "flip" or "shift".
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
    solution: Solution | None = field(default=None, repr=False, compare=False)

    @property
    def ran(self) -> bool:
        """Whether the row has numbers."""
        return self.reason is None

    def met(self, tol: float) -> bool:
        """Whether the raw answer is certified to lie within ``tol``: how far within is a matter of luck."""
        return self.raw_gap is not None and self.raw_gap <= tol

    @property
    def place(self) -> str:
        """The rank as it is shown: in brackets where it is among emulated rows."""
        return "–" if self.rank is None else f"({self.rank})" if self.role == "emulated" else str(self.rank)

    @property
    def variant(self) -> str:
        """Device and role in words; empty for a classical solver."""
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
    """One problem: its rows, those that met the tolerance first, then the best, then the rows without numbers.

    Attributes
    ----------
    problem, title : str
    n : int
        Variables of the problem.
    kind : str
        Shape of its feasible set.
    tol : float
        The relative gap that every run was asked for.
    reference : Solution or None
        CVXOPT's answer to this very problem; None if it has none, and `reference_note` says why.
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

    @property
    def rows(self) -> list[Row]:
        """The rows of all sections."""
        return [row for section in self.sections for row in section.rows]


def ranks_by_excess(rows: Iterable[Row]) -> bool:
    """Whether rows are ranked by excess: one of them is sampled, and its excess is known.

    Certified gaps of sampled rows saturate (no L2-SVM's is above 2), so that they tell good states from noise badly.
    """
    return any(row.shots_per_circuit and row.ran and row.excess is not None for row in rows)
