"""The circuit of a solver's final state, stored as QPY bytes in a solution or a saved model."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.warn import warn_user
from ...exceptions import FidelityWarning, ProblemError
from ..circuits import ParametricCircuit
from ..circuits.export import QPY_START, qpy_bytes

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

    from ...core.solution import Solution

#: There is a warning if the relative L1 distance of the measured state from the circuit's exceeds this.
MAX_DISTANCE = 0.1
#: Value of ``provenance["final_circuit"]`` if the answer is an average.
OF_AVERAGE = "computed from the answer, an average over circuits; the run did not send it"
#: Value of ``provenance["final_circuit"]`` if the answer is an average, and the circuit is not computed from it.
OF_LAST_STEP = "of the angles after the last step; the answer is the mean of what the later steps measured"
#: Key of the circuit in `Solution.extras`.
FINAL_CIRCUIT = "final_circuit_qpy"


def pack_circuit(circuit: ParametricCircuit, theta: NDArray) -> NDArray:
    """Return the circuit with bound angles as QPY bytes, dtype uint8. Equal circuits have equal bytes."""
    bound = circuit.build().assign_parameters(circuit.gate_parameters(theta))
    bound.name = circuit.name  # Qiskit gives copies numbered names
    return np.frombuffer(qpy_bytes(bound), dtype=np.uint8).copy()


def final_circuit(solution: Solution | Any) -> QuantumCircuit:
    """Return the circuit that prepares the final state of a quantum solver's solution, with bound angles.

    Parameters
    ----------
    solution : Solution
        Of a solver that runs circuits, also from a saved and loaded model.

    Returns
    -------
    qiskit.QuantumCircuit
        Without measurements. If the answer is an average over circuits, as in sampled runs of the solvers
        "hamiltonian-dilation", "hamiltonian-schrodingerisation" and "hamiltonian-lchs", the circuit prepares the
        average. Its angles are computed from it, and the run did not send it. In sampled runs of "variational-flow"
        and "variational-lotka-volterra" the answer is the mean of what the later steps measured, and the circuit has
        the angles after the last step. In both cases ``metadata["origin"]`` says so; otherwise it is missing.

    Warns
    -----
    FidelityWarning
        The measured state differs from the circuit's own by more than 0.1 of its weight. The difference
        ½‖measured − circuit's‖₁ / ‖circuit's‖₁, if known, is ``circuit.metadata["distance_from_measured"]``.

    Raises
    ------
    ProblemError
        The solver ran no circuit, or its final state is not that of one circuit; or the bytes, for example of a model
        file, are not in the format that `pack_circuit` writes. Older formats are refused, because Qiskit's reader of
        them could be made to run code.

    Examples
    --------
    >>> from dualflow import Gram, final_circuit, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> circuit = final_circuit(solve(problem, "variational-flow", device="emulator"))
    >>> circuit.num_qubits, circuit.num_parameters
    (2, 0)
    """
    from qiskit import qpy

    data = solution.extras.get(FINAL_CIRCUIT)
    if data is None:
        name = solution.provenance.get("solver", "its solver")
        reason = solution.provenance.get("final_circuit", "the run ended before one, or the solver runs none")
        raise ProblemError(f"the solution of {name!r} holds no final circuit: {reason}")
    content = np.asarray(data, dtype=np.uint8).tobytes()
    if not content.startswith(QPY_START):
        raise ProblemError(f"the final circuit is not QPY of version {QPY_START[6]}, the one that dualflow writes")
    try:
        circuits = qpy.load(io.BytesIO(content))
    except Exception as error:  # damaged bytes raise errors of nearly any type
        raise ProblemError(f"the final circuit is damaged: {error}") from error
    if len(circuits) != 1:
        raise ProblemError(f"the final circuit must be one circuit, found {len(circuits)}")
    circuit: QuantumCircuit = circuits[0]
    if (origin := solution.provenance.get("final_circuit")) is not None:
        circuit.metadata = {**(circuit.metadata or {}), "origin": origin}
    if origin != OF_AVERAGE and (own := solution.extras.get("parameter_alpha")) is not None:
        own = np.asarray(own)
        distance = float(0.5 * np.abs(solution.raw_alpha - own).sum() / max(np.abs(own).sum(), 1e-300))
        circuit.metadata = {**(circuit.metadata or {}), "distance_from_measured": distance}
        if distance > MAX_DISTANCE:
            warn_user(
                f"the state that was measured differs from that of the final circuit by {distance:.2f} of its weight: "
                "the device did not run this circuit, or noise and shots were too coarse to show it",
                FidelityWarning,
            )
    return circuit
