"""`circuit`: the circuit that a solver would send for a problem, before any run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.problem import DualProblem
from ..core.workspace import Workspace, isolated_copy
from ..exceptions import ProblemError, SolverMismatch
from ..solvers import Solver
from ..solvers.registry import make_solver

#: Value of ``angles`` for those of the first circuit of a run.
FIRST = "first"


def circuit(
    problem: DualProblem,
    solver: str | Solver[Any, Any],
    *,
    angles: ArrayLike | str | None = None,
    random_state: int = 0,
    **options: Any,
) -> Any:
    """Return the largest circuit that `solve` with the same arguments would send to a device; sends nothing.

    Parameters
    ----------
    problem : DualProblem
    solver : str or Solver
        A solver that runs circuits, by name with its options as further keywords, or an instance.
    angles : array of shape (P,), or "first", optional
        The solver's angles θ to bind. "first" binds those of the first circuit of a run, which the emulator computes.
        By default the parameters stay free.
    random_state : int, default=0
        Seed of the run whose first angles are bound.
    **options
        Options of a solver given by name.

    Returns
    -------
    qiskit.QuantumCircuit
        Without measurements, as it is before a device compiles it. ``metadata`` has the ``circuit``'s name, the
        ``solver`` and, if they are bound, the angles ``theta``.

    Raises
    ------
    ProblemError
        The solver runs no circuits, ``angles`` has another shape, or no batch of the run's start is of this circuit.
    SolverMismatch, SolverUnavailable, TypeError
        As from `solve`.

    See Also
    --------
    record_circuits : All circuits of a run, as OpenQASM 3 and QPY.
    final_circuit : The circuit of a run's final state.
    estimate : What all circuits of a run cost on a device.

    Notes
    -----
    A solver works with angles θ, a circuit is drawn with the parameters of its gates. In "hardware-efficient" circuits
    and most others they are equal, and drawn as ``theta``. In the families "tree", "ancilla", "lchs" and
    "schrodingerised" a multiplexed rotation becomes single RY or RZ gates between CX, whose parameters are drawn as
    ``phi``. For c control qubits
    φ_k = 2^−c Σ_j (−1)^(j·gray(k)) θ_j, gray(k) = k xor (k >> 1), with the inner product of bits (Möttönen, Vartiainen,
    Bergholm, Salomaa, PRL 93, 130502 (2004), eq. 3). The families' ``gate_parameters(theta)`` compute it
    (`quantum.circuits`), and circuits/README.md lists the families.

    Examples
    --------
    >>> from dualflow import Gram, circuit, problems
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> found = circuit(problem, "variational-flow")
    >>> found.num_qubits, [parameter.name for parameter in found.parameters]
    (2, ['phi_0', 'phi_1', 'phi_2'])
    >>> circuit(problem, "variational-flow", angles="first").num_parameters
    0
    """
    from ..quantum.solvers.base import CircuitSolver

    if not isinstance(problem, DualProblem):
        way = "; that of a fitted model is model.solution_.problem" if hasattr(problem, "get_params") else ""
        raise ProblemError(f"problem must be a DualProblem, found {type(problem).__name__}{way}")
    engine = make_solver(solver, options)
    if not isinstance(engine, CircuitSolver):
        raise ProblemError(f"solver={engine.name!r} runs no circuits, so that there is none to show")
    device = _recording_device()
    rehearsed: Any = engine.rehearsed(device)
    own = isolated_copy(problem.frozen_copy())
    if (reason := rehearsed.mismatch(own)) is not None:
        raise SolverMismatch(reason)
    context = rehearsed.open(own, Workspace(own))
    started = isinstance(angles, str) and angles == FIRST
    if isinstance(angles, str) and not started:
        raise ProblemError(f"angles={angles!r} must be an array, {FIRST!r}, or None")
    state = rehearsed.start(context, np.random.default_rng(random_state)) if started else None
    if started and not device.angles:
        state = rehearsed.step(context, state)
    family = rehearsed.circuit(context, state)
    found = family.build().copy()
    found.name = family.name
    found.metadata = {"solver": engine.name, "circuit": family.name}
    if angles is None:
        return found
    theta = np.atleast_1d(device.first(family) if started else family.check_parameters(angles))
    if np.ndim(theta) != 1:
        raise ProblemError(f"angles has shape {np.shape(theta)}; one circuit takes ({family.n_parameters},)")
    found = found.assign_parameters(family.gate_parameters(theta))
    found.name = family.name
    found.metadata |= {"theta": [float(angle) for angle in theta]}
    return found


def _recording_device() -> Any:
    """Return a device for dry runs that records the first angles of each circuit."""
    from ..quantum.devices.rehearsal import RehearsalDevice

    class RecordingDevice(RehearsalDevice):
        """Records the angles of all batches."""

        def __init__(self) -> None:
            super().__init__()
            self.angles: list[tuple[Any, NDArray]] = []

        def _submit(self, circuit: Any, values: NDArray, shots: int | None, tag: str, seed: int | None) -> Any:
            self.angles.append((circuit, np.atleast_2d(values)))
            return super()._submit(circuit, values, shots, tag, seed)

        def first(self, family: Any) -> NDArray:
            """Return the angles of the first batch's first circuit of a family, shape (P,)."""
            for circuit, values in self.angles:
                if circuit == family:
                    return np.array(values[0])
            raise ProblemError(
                f"the start of the run sends no circuit {family.name!r}; give angles=None for its free parameters"
            )

    return RecordingDevice()
