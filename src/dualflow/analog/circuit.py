"""Circuits of the flows: scales, conductances and drawn faults of a dual problem.

Units: αᵢ is a voltage, `FULL_SCALE_V` volts for the largest α allowed (d on the simplex, max uᵢ in a box). The fitness
g = p − Qα is a voltage too, `FULL_SCALE_V` volts for S, its largest single term. The time constant RC of the
integrators is `TIME_CONSTANT_S`, so that one second of the circuit is 1/(RC·S) of the flow's time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.options import OneOf
from ..core.problem import DualProblem
from ..flows.gradient import equality_multiplier, interior_point, weights
from .parts import FULL_SCALE_V, LOG_SCALE_V, TIME_CONSTANT_S, Parts
from .text import DrawnFaults, NetlistPlan, netlist_text
from .trace import Trace

FLOW_RULE = OneOf(words=("gradient", "lotka-volterra"))
CONTROL_RULE = OneOf(words=("shuffled",), none=True)
#: Terms of the fitness below this share of the largest one get no resistor, which would have 10 TΩ.
MIN_SHARE_TERM = 1e-9


@dataclass(frozen=True, eq=False)
class Circuit:
    """A flow as a circuit, which writes its netlist and converts its voltages.

    It is made by `build`. Its nodes, i = 1 … n, are ``x<i>``, a capacitor; ``a<i>``, its αᵢ behind a buffer; ``n<i>``,
    an inverted copy of αᵢ; ``f<i>``, the fitness; and ``u``, the multiplier.

    Attributes
    ----------
    problem : DualProblem
    flow : str
    parts : Parts
    unit : float
        The α that `FULL_SCALE_V` volts represent.
    fitness_unit : float
        S, the fitness that `FULL_SCALE_V` volts represent.
    resistors, amplifiers, cells : int
        Number of these parts.

    Examples
    --------
    >>> from dualflow import Gram, problems
    >>> from dualflow.analog import build
    >>> circuit = build(problems.svdd(Gram([[1.0], [2.0], [4.0]], "linear")))
    >>> circuit.resistors, circuit.amplifiers, circuit.cells
    (20, 7, 6)
    >>> circuit.unit, circuit.fitness_unit, round(circuit.flow_time(1.0))  # of a second of the circuit
    (1.0, 32.0, 312)
    """

    problem: DualProblem = field(repr=False)
    flow: str
    parts: Parts
    unit: float
    fitness_unit: float
    live: NDArray = field(repr=False)
    plan: NetlistPlan = field(repr=False)
    drawn: DrawnFaults = field(repr=False)

    @property
    def resistors(self) -> int:
        return self.plan.counts[0]

    @property
    def amplifiers(self) -> int:
        return self.plan.counts[1]

    @property
    def cells(self) -> int:
        return self.plan.counts[2]

    def flow_time(self, seconds: float) -> float:
        """Return the time of the flow after ``seconds`` of the circuit."""
        return float(seconds) / (TIME_CONSTANT_S * self.fitness_unit)

    def seconds(self, t: float) -> float:
        """Return the seconds of the circuit for the time ``t`` of the flow."""
        return float(t) * TIME_CONSTANT_S * self.fitness_unit

    def netlist(self, seconds: float, held: NDArray | None = None, noise_seed: int = 0) -> str:
        """Return the netlist as text, with a simulation of ``seconds`` of the circuit.

        Parameters
        ----------
        seconds : float > 0
        held : array of shape (m,), optional
            Volts on the capacitors at the start (`Trace.held`); by default those of the flow's start.
        noise_seed : int ≥ 0
            Seed of the noise's samples; without effect if the parts have no noise.

        Examples
        --------
        >>> from dualflow import Gram, problems
        >>> from dualflow.analog import build
        >>> text = build(problems.svdd(Gram([[1.0], [2.0], [4.0]], "linear"))).netlist(1e-2)
        >>> print(text.splitlines()[0])
        * gradient flow of an SVDD dual (simplex), 3 variables, multiplier cells, ideal parts
        >>> [line for line in text.splitlines() if line.startswith("Rq1_")]  # Q = 2K: 2, 4, 8 of at most 32
        ['Rq1_1 a1 s1 160000.0', 'Rq1_2 a2 s1 80000.0', 'Rq1_3 a3 s1 40000.0']
        """
        if held is None:
            held = self.start()
        return netlist_text(self.plan, self.drawn, self.parts, seconds, held, noise_seed)

    def read(self, table: NDArray) -> Trace:
        """Return a `Trace` from columns of time in s and of the nodes of `columns` in V."""
        m = len(self.live)
        alpha = np.zeros((len(table), self.problem.n))
        alpha[:, self.live] = table[:, 1 : m + 1] * (self.unit / FULL_SCALE_V)
        multiplier = (
            table[:, -1] * (self.fitness_unit / FULL_SCALE_V) if self.plan.e is not None else np.zeros(len(table))
        )
        held = table[:, m + 1 :]
        seconds = table[:, 0]
        return Trace(seconds, seconds / (TIME_CONSTANT_S * self.fitness_unit), alpha, multiplier, held)

    def start(self) -> NDArray:
        """Return the volts on the capacitors at the flow's start, the interior point."""
        problem, alpha = self.problem, interior_point(self.problem)
        return self.at(alpha, equality_multiplier(problem, weights(problem, alpha), -problem.gradient(alpha)))

    @property
    def columns(self) -> list[str]:
        """Nodes whose voltages are read: those of α, of the capacitors, and of the multiplier."""
        index = range(1, len(self.live) + 1)
        tail = [] if self.plan.e is None else ["u"]
        return [f"a{i}" for i in index] + [f"x{i}" for i in index] + tail

    def at(self, alpha: NDArray, multiplier: float = 0.0) -> NDArray:
        """Return the volts on the capacitors for an α of shape (n,) inside its bounds, and for ν or λ."""
        volts = alpha[self.live] * (FULL_SCALE_V / self.unit)
        if self.parts.cells == "translinear":
            caps = self.plan.caps
            with np.errstate(divide="ignore", invalid="ignore"):
                odds = np.where(np.isfinite(caps), volts / (caps - volts), volts / FULL_SCALE_V)
                volts = LOG_SCALE_V * np.log(np.clip(odds, 1e-30, 1e30))
        return np.append(volts, [] if self.plan.e is None else [multiplier * (FULL_SCALE_V / self.fitness_unit)])


def build(
    problem: DualProblem,
    flow: str = "gradient",
    parts: Parts | None = None,
    *,
    tau: float = 1.0,
    seed: int = 0,
    control: str | None = None,
) -> Circuit:
    """Return the circuit of a flow.

    Each variable has a capacitor, which its cell charges. Conductances |Qᵢⱼ| add up the fitness gᵢ = pᵢ − ΣQᵢⱼαⱼ at the
    input of an amplifier, from αⱼ if Qᵢⱼ > 0 and from its inverted copy if Qᵢⱼ < 0. The multiplier ν is the voltage at
    which the currents of all cells sum to 0 (Kirchhoff's law; a follower-aggregation circuit, Mead 1989), with a
    current that moves eᵀα to d. For Lotka-Volterra the multiplier λ is the voltage of one more capacitor.

    Parameters
    ----------
    problem : DualProblem
        Its upper bounds must be finite; on the simplex the equality bounds α.
    flow : {"gradient", "lotka-volterra"}
    parts : Parts, optional
        Ideal multiplier cells by default.
    tau : float > 0
        Time scale of λ (Lotka-Volterra only).
    seed : int ≥ 0
        Seed of the parts' faults, and of the control's permutation.
    control : {"shuffled"}, optional
        A control with the same conductances at permuted places: the diagonal entries of Q are permuted, and the
        off-diagonal ones, so that Q stays symmetric.

    Returns
    -------
    Circuit

    Raises
    ------
    ProblemError
        ``flow`` or ``control`` is not one of these words.

    Examples
    --------
    >>> from dualflow import Gram, problems
    >>> from dualflow.analog import Parts, build
    >>> problem = problems.svc(Gram([[0.0], [2.0]], "linear"), [-1, 1], loss="squared_hinge")
    >>> build(problem, "lotka-volterra", Parts(cells="translinear", tolerance=0.01), seed=3).resistors
    14
    """
    FLOW_RULE.check("flow", flow)
    CONTROL_RULE.check("control", control)
    parts = Parts() if parts is None else parts
    live = np.flatnonzero(problem.effective_upper > 0)
    Q, p = problem.dense()[np.ix_(live, live)], problem.p[live]
    if control is not None:
        Q = _shuffled(Q, np.random.default_rng([seed, 1]))
    upper = problem.effective_upper[live]
    unit = float(upper.max(initial=0.0)) or 1.0
    fitness = np.abs(Q) * np.where(np.isfinite(upper), upper, unit)
    S = max(float(fitness.max(initial=0.0)), float(np.abs(p).max(initial=0.0))) or 1.0
    e = None if problem.e is None else problem.e[live]
    capped = np.isfinite(problem.upper[live])
    plan = NetlistPlan(
        title=f"{flow} flow of {_article(problem.model)} dual ({problem.kind.value}), {problem.n} variables",
        conductances=_without_tiny(Q * (unit / S)),
        prices=_without_tiny(p / S),
        e=e,
        target=FULL_SCALE_V * problem.d / unit,
        caps=np.where(capped, FULL_SCALE_V * upper / unit, np.inf),
        # λ̇ = −(eᵀα − d)/τ in volts and seconds: the capacitor of λ over that of the integrators.
        slowness=tau * S * S / unit if flow == "lotka-volterra" and e is not None else None,
    )
    return Circuit(problem, flow, parts, unit, S, live, plan, DrawnFaults.of(len(live), parts, seed))


def _without_tiny(values: NDArray) -> NDArray:
    """Return the values with 0 for entries too small for a resistor."""
    return np.where(np.abs(values) >= MIN_SHARE_TERM * np.abs(values).max(initial=0.0), values, 0.0)


def _shuffled(Q: NDArray, rng: np.random.Generator) -> NDArray:
    """Return a symmetric matrix with the entries of Q at permuted places."""
    i, j = np.triu_indices(len(Q), 1)
    out = np.diag(rng.permutation(np.diag(Q)))
    out[i, j] = out[j, i] = rng.permutation(Q[i, j])
    return out


def _article(model: str) -> str:
    """Return the model's name with its article."""
    name = {"svdd": "SVDD", "squared_hinge": "L2-SVM", "hinge": "SVM"}.get(model, model or "unnamed")
    return f"{'an' if name[0] in 'aeiouLS' else 'a'} {name}"
