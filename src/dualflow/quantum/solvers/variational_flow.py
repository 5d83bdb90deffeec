"""The solver `variational-flow`: the simplex flow in the angles of a parametrised quantum state (McLachlan), hybrid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from ...core.options import Number, option
from ...core.problem import DualProblem, Kind
from ...core.runtime.threads import cached_property
from ...core.workspace import Workspace
from ..circuits import ParametricCircuit
from ..runs.laboratory import Account, Ledger
from .ansatz import ANSAETZE, Ansatz, Tangents, ansatz_mismatch, make_ansatz, normalised
from .own_circuit import NameOrCircuit, own_circuit
from .variational import SEMI_IMPLICIT, AngleFlow, AngleState, Pace, VariationalSolver

#: Ridge of every linear system, in units of each diagonal entry.
RIDGE_EXACT = 1e-11
#: Ridge with 1000 shots, in units of the mean diagonal entry; it falls as shots^−½.
RIDGE_SAMPLED = 1e-3
#: Most variables for which a step solves the system of all variables, with the whole Q in memory.
MAX_DENSE_STEP = 4096
#: For larger problems, a step uses the block of Q of this many variables of largest weight. A system of 1024 takes
#: 0.05 s, where the gradient of 65 536 variables takes 1 s.
MAX_COUPLED = 1024
#: Singular values of the tangents below this share of the largest are round-off.
MIN_SHARE_SINGULAR = 1e-9


@dataclass(frozen=True)
class SimplexState(AngleState):
    """The state of `AngleState` with the measured ``distributions``.

    Their shape is (k, 2^q) for the k circuits of a step, the circuit at θ first, or (2^q,) for that at θ alone.
    """

    distributions: NDArray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class SimplexFlow(AngleFlow[SimplexState]):
    """The simplex flow in the angles of an ansatz."""

    ansatz: Ansatz
    #: f's gradient at the last distributions, by their bytes, for problems whose gradient takes seconds.
    last_gradients: dict[bytes, NDArray] = field(default_factory=dict)

    # A step that shows less than a quarter of its predicted fall of f was predicted from noise in the tangents.
    pace: ClassVar[Pace] = Pace(steps=40, growth=1.8, longest=100.0, averaging=0.6, part=4, promise=0.25)

    @property
    def circuit(self) -> ParametricCircuit:
        return self.ansatz.circuit

    @cached_property
    def circuits_a_step(self) -> int:
        return self.ansatz.circuits_a_step(self.exact)

    @property
    def readouts_a_step(self) -> int:
        return 1 + self.ansatz.repeats

    @property
    def has_one_point(self) -> bool:
        return self.workspace.n == 1

    @cached_property
    def longest(self) -> float:
        # The time scale is 1 over the mean |Fᵢ − ⟨F⟩| at the uniform distribution.
        problem = self.workspace
        F = problem.gradient(np.full(problem.n, problem.d / problem.n))
        return self.pace.longest / (float(np.abs(F - F.mean()).mean()) or 1.0)

    def first_state(self, rng: np.random.Generator, warm: NDArray | None) -> SimplexState:
        problem, ansatz = self.workspace, self.ansatz
        theta = ansatz.start(None if warm is None else np.maximum(warm, 0.0), rng)
        theta = ansatz.move(theta, np.zeros_like(theta), self.exact)
        largest = max(float(problem.diag().max()), float(np.ptp(problem.p)))
        h = 1.0 / (problem.d * largest) if largest > 0 else 1.0
        account, nothing = Account.opened(rng), np.empty(0)
        state = SimplexState(theta, h, account, self.plan.final is None, nothing, resting=self.has_one_point)
        return self.measure(state, self.plan.first)

    def measure(self, state: SimplexState, shots: int | None, final: bool = False) -> SimplexState:
        ansatz = self.ansatz
        bindings = ansatz.angles(state.theta) if final else ansatz.bindings(state.theta, self.exact)
        found, account = self.lab.measure(state.account, self.circuit, bindings, shots)
        mu = ansatz.measured(found)
        if not final:
            normalised(mu)  # raises now if only padding was measured
        alpha = self.workspace.d * mu
        return replace(state, distributions=found, measured=alpha, shots_behind=shots or 0, account=account)

    def trial(self, state: SimplexState, share: float) -> tuple[SimplexState, float]:
        problem, ansatz, shots = self.workspace, self.ansatz, state.shots_behind or None
        if problem.n > MAX_DENSE_STEP:
            pi, F = self._gradient(state.distributions)
            step, fall = coupled_step(problem, ansatz, state.distributions, F - pi @ F, state.h)
        else:
            step, fall = semi_implicit_step(problem, ansatz, state.distributions, state.h, shots)
        theta = ansatz.move(state.theta, self.clipped(share * step), self.exact)
        return replace(state, theta=theta, steps=state.steps + 1), fall

    def _gradient(self, distributions: NDArray) -> tuple[NDArray, NDArray]:
        """Return the measured π and ∇f at d·π; those of the last two distributions are kept."""
        pi, key, problem = self.ansatz.measured_normalised(distributions), distributions.tobytes(), self.workspace
        if key not in self.last_gradients:
            while len(self.last_gradients) > 1:
                self.last_gradients.pop(next(iter(self.last_gradients)))
            self.last_gradients[key] = problem.gradient(problem.d * pi)
        return pi, self.last_gradients[key]

    def objective(self, state: SimplexState) -> float:
        if (problem := self.workspace).n > MAX_DENSE_STEP:
            pi, F = self._gradient(state.distributions)
            return 0.5 * problem.d * float(pi @ (F - problem.p))
        return self.workspace.objective(self.workspace.d * self.ansatz.measured_normalised(state.distributions))

    def variance(self, state: SimplexState) -> float:
        return sampling_variance(self.workspace, self.ansatz, state.distributions)

    def rate(self, ledger: Ledger, state: SimplexState, y: NDArray) -> NDArray:
        found = ledger.measure(self.circuit, self.ansatz.bindings(y, True), None)
        return faithful_rate(self.workspace, self.ansatz, found)


def semi_implicit_step(
    problem: DualProblem, ansatz: Ansatz, distributions: NDArray, h: float, shots: int | None
) -> tuple[NDArray, float]:
    """Return a linearised implicit Euler step of length h, and the fall of f that it predicts.

    It solves (dPᵀ [diag((1/h + ½ max(E, 0))/μ) + d·Q] dP + ridge) δ = −dPᵀE, E = F − ⟨F⟩. The term in E is the
    derivative of the flow's own factor −½E of ψ. Without it, variables on their way to weight 0 keep the steps short
    (at n = 64 four times as many steps).

    Parameters
    ----------
    distributions : array of shape (2^q,) or (k, 2^q)
        Those of `Ansatz.bindings` at the present angles.
    h : float
        Step length in units of flow time.
    shots : int or None
        Shots of each distribution; 1/shots is added to μ in the weights.

    Returns
    -------
    step : array of shape (P,)
        Not clipped; 0 for fixed angles.
    fall : float ≥ 0
        ½ δᵀb in units of f.
    """
    E = _centred(problem, ansatz, distributions)
    mu, dP = ansatz.tangents(distributions, shots)
    with np.errstate(over="ignore"):  # an outcome of a device may be exactly 0; its tangents are 0 too
        weights = (1.0 / h + 0.5 * np.maximum(E, 0.0)) / (mu + (1.0 / shots if shots else ansatz.least_mass))
    weights = np.minimum(weights, np.finfo(float).max)
    b = -(dP.T @ E)
    ridge = RIDGE_SAMPLED * np.sqrt(1000.0 / shots) if shots else RIDGE_EXACT
    # With at least as many angles as variables the tangents are linearly dependent; fewer are independent in general.
    solve = _shortest_step if dP.shape[1] >= dP.shape[0] else _direct_step
    step = solve(problem, dP, weights, E, ridge)
    return ansatz.spread(step), max(0.0, 0.5 * problem.d * float(step @ b))


def coupled_step(
    problem: DualProblem, ansatz: Ansatz, distributions: NDArray, E: NDArray, h: float, coupled: int = MAX_COUPLED
) -> tuple[NDArray, float]:
    """Return the step and the fall of `semi_implicit_step` for many variables and exact distributions.

    The tangents of the tree span all changes v of μ with Σv = 0, so that v can be computed in place of δ, with the same
    system [diag(weights) + d·Q] v = −E − λ1. Q enters by its diagonal, and between the ``coupled`` variables of the
    largest weight by its block: all others carry little weight together, once the flow has found the support vectors.
    A step that this makes too long is rejected, since f does not fall. Memory is O(n + coupled²).
    """
    mu = ansatz.measured_normalised(distributions)
    with np.errstate(over="ignore"):
        weights = (1.0 / h + 0.5 * np.maximum(E, 0.0)) / (mu + ansatz.least_mass)
    diagonal = np.minimum(weights, np.finfo(float).max) + problem.d * problem.diag()
    force, balance = E / diagonal, 1.0 / diagonal
    largest = np.sort(np.argpartition(-mu, coupled - 1)[:coupled]) if coupled < problem.n else np.arange(problem.n)
    block = problem.d * problem.block(largest, largest)
    block[np.diag_indices_from(block)] = diagonal[largest]
    inverse = _inverse(block)
    force[largest], balance[largest] = inverse @ E[largest], inverse.sum(axis=1)
    v = balance * (force.sum() / balance.sum()) - force
    return ansatz.angle_change(mu, v), max(0.0, -0.5 * problem.d * float(v @ E))


def faithful_rate(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> NDArray:
    """Return θ̇ of shape (P,) from exact distributions: the shortest least-squares solution of dP θ̇ = −μ∘E.

    The residual is measured in the metric 1/μ.
    """
    E = _centred(problem, ansatz, distributions)
    mu, dP = ansatz.tangents(distributions, None)
    root = np.sqrt(mu + ansatz.least_mass)
    dense = dP if isinstance(dP, np.ndarray) else dP.toarray()
    rate, *_ = scipy.linalg.lstsq(dense / root[:, None], -root * E, cond=MIN_SHARE_SINGULAR, lapack_driver="gelsd")
    return ansatz.spread(rate)


def sampling_variance(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> float:
    """Return V = ½ d² (Σ Qᵢᵢμᵢ − μᵀQμ): V/S is the mean excess of f from S shots of the state."""
    pi = ansatz.measured_normalised(distributions)
    return max(0.0, 0.5 * problem.d**2 * float(problem.diag() @ pi - pi @ problem.matvec(pi)))


def _centred(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> NDArray:
    """Return E = F − πᵀF for the measured distribution π, shape (n,)."""
    pi = ansatz.measured_normalised(distributions)
    F = problem.gradient(problem.d * pi)
    centred: NDArray = F - pi @ F
    return centred


def _direct_step(problem: DualProblem, dP: Tangents, weights: NDArray, E: NDArray, ridge: float) -> NDArray:
    """Return δ for independent tangents, from the system in the free angles."""
    metric = dP.T @ (dP * weights[:, None])
    M = problem.d * (dP.T @ (problem.dense() @ dP)) + (metric.toarray() if scipy.sparse.issparse(metric) else metric)
    if ridge > RIDGE_EXACT:
        M[np.diag_indices_from(M)] += ridge * np.trace(M) / max(len(M), 1)
    return _solve(M, -(dP.T @ E))


def _shortest_step(problem: DualProblem, dP: NDArray, weights: NDArray, E: NDArray, ridge: float) -> NDArray:
    """Return δ = dPᵀz for dependent tangents, with (dP dPᵀ + ε B⁻¹) z = −B⁻¹E, B = diag(weights) + d·Q.

    It is the δ of the P × P system, but has no component in its null space, where that system adds up round-off.
    """
    B = problem.d * problem.dense()
    B[np.diag_indices_from(B)] += weights
    S = dP @ dP.T
    if not S.any():  # the outcomes are uniform at all angles, and no direction lowers f
        return np.zeros(dP.shape[1])
    inverse = _inverse(B)
    epsilon = ridge * float(np.sum(B * S)) / dP.shape[1]
    # 1ᵀdP = 0, so that a constant in E does not change the step; this one makes z orthogonal to 1, where S is singular.
    force = inverse @ E
    balance = inverse.sum(axis=1)
    force -= balance * (force.sum() / balance.sum())
    return dP.T @ _solve(S + epsilon * inverse, -force)


def _inverse(B: NDArray) -> NDArray:
    """Return B⁻¹ of a positive definite B, by its Cholesky factor after scaling to a unit diagonal."""
    scale = 1.0 / np.sqrt(B.diagonal())
    factor = scipy.linalg.cho_factor(B * scale * scale[:, None], check_finite=False)
    inverse: NDArray = scipy.linalg.cho_solve(factor, np.eye(len(B)), check_finite=False)
    return inverse * scale * scale[:, None]


def _solve(M: NDArray, b: NDArray) -> NDArray:
    """Return M⁻¹b for M positive semidefinite, scaled to a unit diagonal.

    Angles of variables with nearly no weight have tiny diagonal entries.
    """
    scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), np.finfo(float).tiny))
    unit = M * scale * scale[:, None]
    unit[np.diag_indices(len(b))] += RIDGE_EXACT
    # LAPACK's own call: scipy's wrappers take five times as long for 15 angles.
    solution: NDArray
    _, solution, failure = scipy.linalg.lapack.dposv(unit, b * scale)
    if failure:  # round-off can leave it indefinite
        solution = np.linalg.lstsq(unit, b * scale, rcond=None)[0]
    return solution * scale


@dataclass(frozen=True)
class VariationalFlow(VariationalSolver[SimplexFlow, SimplexState]):
    """Natural-gradient flow of a quantum state over the simplex, one batch of circuits a step; hybrid.

    A circuit prepares ψ(θ), real, on ⌈log₂ n⌉ qubits; its outcomes have the distribution μ(θ) = ψ². Everything else is
    classical: F = ∇f(dμ) = dQμ − p, E = F − μᵀF, the tangents dP = ∂μ/∂θ, and the step

        (dPᵀ [diag((1/h + ½ max(E, 0))/(μ + μ₀)) + d·Q] dP + ridge) δ = −dPᵀE.

    With shots μ₀ is 1/shots, and the ridge 0.001 √(1000/shots) times the mean of the diagonal. From exact distributions
    μ₀ is the least mass of the ansatz, at most 1e-20, and the ridge 1e-11 of the diagonal. Above 4096 variables Q
    enters by its diagonal and the block of the 1024 largest weights. This is a linearised implicit Euler step of
    A θ̇ = b, with A = dPᵀ diag(1/μ) dP the full Fisher matrix and b = −dPᵀE: the replicator μ̇ = −μ∘E of Helmke and
    Moore (Bauckhage eq. 3), that is, imaginary time ψ̇ = −½Eψ by McLachlan's principle, wherever the ansatz can follow
    it. Q is applied classically in O(n²) a step, and the system is solved classically in O(P³): no speed-up over
    classical solvers is claimed.

    ansatz="tree": n − 1 angles for n unknowns, one circuit a step (the tangents follow from the distribution itself);
    a classical parametrisation of the simplex, run on qubits. ansatz="hardware-efficient": layers of RY and CX, the
    tangents by the parameter-shift rule, 2P + 1 circuits a step in one batch (P more with shots, for the gradient).
    With fewer angles than points the ansatz may not contain the optimum: f ends above it, and the certificate bounds by
    how much.

    A circuit of the user, on as many qubits or more, is decomposed into h, x, cx, cz, rx, ry, rz. Each rotation's
    angle must be an affine function of the parameters, such as a multiple of one or a sum of them. A parameter may
    occur in many gates: each of the R rotations is shifted by itself, and the chain rule adds up their derivatives.
    This takes 2R + 1 circuits a step, is exact, and runs on any device (R more with shots). The run starts at random
    angles and ends at the minimum of f over the circuit's distributions. Outcome i = Σ_k bit_k 2^k (qubit or wire k)
    counts for point i mod n.

    From exact distributions a step is accepted only if f falls (then h doubles, otherwise h/4), and α is that of the
    final state. With counts every step is accepted, h grows from the first step on, and the last three quarters of the
    steps are damped. α is then the mean of the distributions measured in the second half of the steps, in which most of
    their noise cancels, since each step undoes a part of the last read-out's noise. μ(θ), computed from the final
    angles, is the classical by-product ``extras["parameter_alpha"]``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 8 qubits, 254 CX and depth 1,494 a circuit at n =
    256, CX growing as n; 41 circuits a run, the same at every n; by the model, 11,220 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Shots of each circuit; None requests exact distributions. "adaptive" begins with 100 and takes half as many
        again whenever their noise in f is above a quarter of the fall that the step predicts, until ``shot_budget`` is
        spent.
    ansatz : {"tree", "hardware-efficient"}, qiskit.QuantumCircuit, or PennyLane function or QNode
        A QuantumCircuit must have parameters and no measurements. A function applies operations for weights, or for
        (weights, wires); its measurements at the end are ignored.
    layers : int ≥ 0, optional
        Layers of the hardware-efficient ansatz, which has (layers + 1)·q angles. By default about 1.25 n angles.
    angles : int or tuple of int, optional
        Shape of the weights of a PennyLane function.
    qubits : int, optional
        Number of wires of a PennyLane function that takes wires; by default those of a QNode's device.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow to a tolerance of 1e-9 from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots : int, optional
        Shots of one more circuit of the final state; it enters the mean with the weight of its shots. By default none,
        with "adaptive" 10 000.
    steps : int, optional
        With shots: number of steps, 40 by default; with "adaptive" the budget alone ends the run.
    shot_budget : int, optional
        With shots: largest number of shots of the run, final ones included; with "adaptive" by default those of 40
        steps of 10 000 a circuit.
    mitigation, journal
        See `QuantumSolver`.
    time_step, t_end : float, optional
        For "lsoda", in units of flow time; by default 1 and no end.

    Raises
    ------
    ProblemError
        An option is out of range; an ansatz other than the tree is given a warm start; or a circuit has an operation
        that is no unitary gate, or an angle that is no affine function of the parameters.
    SolverMismatch
        Raised by `open`: a circuit has fewer outcomes than the problem has variables.
    DeviceError, SolverUnavailable
        Raised by `open`: the device is not known, lacks a capability that the options need, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "variational-flow", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)

    With a circuit of the user as the ansatz:

    >>> from qiskit.circuit.library import real_amplitudes
    >>> solution = solve(problem, "variational-flow", device="emulator", ansatz=real_amplitudes(2), tol=1e-4)
    >>> round(solution.certificate.radius, 2), solution.provenance["angles"]
    (1.5, 8)
    """

    ansatz: Any = option("tree", NameOrCircuit(words=tuple(ANSAETZE)))  # noqa: RUF009 - frozen
    layers: int | None = option(None, Number(at_least=0, whole=True, none=True))
    angles: int | tuple[int, ...] | None = field(default=None, repr=False)
    qubits: int | None = field(default=None, repr=False)

    state_type: ClassVar[type] = SimplexState

    name: ClassVar[str] = "variational-flow"
    reaches: ClassVar[str] = "exact; with 10 000 shots a circuit within 3 × the floor of all in 39 of 40 problems"
    kinds = frozenset({Kind.SIMPLEX})
    max_n: ClassVar[int | None] = 2**16

    def __post_init__(self) -> None:
        # A circuit is decomposed once, into plain data that can be compared, pickled and written to a file.
        own = {"ansatz": own_circuit(self.ansatz, self.angles, self.qubits), "angles": None, "qubits": None}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        super().__post_init__()
        make_ansatz(self.ansatz, 2, self.layers)  # raises if ``layers`` goes with another ansatz

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem) or ansatz_mismatch(self.name, self.ansatz, problem.n, self.layers)
        needed = {"ansatz": "tree", "shots": None, "integrator": SEMI_IMPLICIT}
        wrong = [name for name, value in needed.items() if getattr(self, name) != value]
        if reason is None and problem.n > MAX_DENSE_STEP and wrong:
            return (
                f"{self.name!r} with {wrong[0]}={getattr(self, wrong[0])!r} takes at most {MAX_DENSE_STEP} variables, "
                f"the problem has {problem.n}; set {wrong[0]}={needed[wrong[0]]!r}, or try 'quantum-invasion'"
            )
        return reason

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        if self.ansatz == "tree":
            return None
        kept = ("shots", "final_shots", "steps", "shot_budget", "mitigation")
        return self.name, {name: getattr(self, name) for name in kept} | {"ansatz": "tree"}

    def open(self, problem: DualProblem, workspace: Workspace) -> SimplexFlow:
        if problem.n <= MAX_DENSE_STEP:
            workspace.dense()
        ansatz = make_ansatz(self.ansatz, problem.n, self.layers)
        lab = self.laboratory(problem)
        return self._within_budget(SimplexFlow(workspace, lab, ansatz=ansatz, **self._flow_options()))

    def extras(self, context: SimplexFlow, state: SimplexState) -> dict[str, NDArray]:
        """Return the extras; ``parameter_alpha`` is d·μ(θ), computed from the angles and not measured."""
        ansatz = context.ansatz
        mu = ansatz.measured(context.circuit.distribution(ansatz.angles(state.theta)))
        return super().extras(context, state) | {"parameter_alpha": context.workspace.d * mu}

    def final_angles(self, context: SimplexFlow, state: SimplexState) -> NDArray:
        return context.ansatz.angles(state.theta)

    def is_noise_dominated(self, context: SimplexFlow, state: SimplexState) -> bool:
        found = np.atleast_2d(state.distributions)[0]
        angles = context.ansatz.angles(state.theta)
        return context.lab.is_noise_dominated(state.account, context.circuit, angles, found, state.shots_behind or None)

    def provenance(self, context: SimplexFlow, state: SimplexState) -> dict[str, Any]:
        ansatz = self.ansatz if isinstance(self.ansatz, str) else repr(self.ansatz)
        about = {"ansatz": ansatz, "padding": context.ansatz.padding, "angles": context.ansatz.n_angles}
        return super().provenance(context, state) | about
