"""`record_circuits`: keep the circuits that runs send, with bound angles, and write them as OpenQASM 3 and QPY."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...persistence.files import replacing
from ..circuits import ParametricCircuit
from ..circuits.export import elementary, qasm_bytes, qpy_bytes

if TYPE_CHECKING:
    from qiskit import QuantumCircuit


@dataclass(frozen=True)
class CircuitRecord:
    """The circuits that were sent while `record_circuits` was open, in order.

    Examples
    --------
    >>> from dualflow import Gram, problems, record_circuits, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> with record_circuits() as record:
    ...     solution = solve(problem, "variational-flow", device="emulator", shots=100, max_steps=3, random_state=0)
    >>> len(record) == solution.cost.circuits, record[0].num_parameters, record[0].metadata["shots"]
    (True, 0, 100)
    """

    _sent: list[tuple[ParametricCircuit, NDArray, int | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._sent)

    def __iter__(self) -> Iterator[QuantumCircuit]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> QuantumCircuit:
        """Return circuit k as a `QuantumCircuit` without measurements and without free parameters.

        ``metadata`` has the circuit's name as ``circuit``, the solver's angles ``theta``, and the ``shots`` that were
        requested, None for exact distributions.
        """
        family, theta, shots = self._sent[k]
        found = family.build().assign_parameters(family.gate_parameters(theta))
        found.name = family.name
        found.metadata = {"circuit": family.name, "theta": [float(angle) for angle in theta], "shots": shots}
        return found

    def save(self, folder: str | Path) -> list[Path]:
        """Write each circuit as ``<k>.qasm`` (OpenQASM 3) and ``<k>.qpy``, and a ``manifest.json``; return the paths.

        The manifest has a line for each circuit: its name, angles θ, shots, qubits and files. QPY is of version 13,
        which every Qiskit 2 reads; OpenQASM 3 leaves a global phase out. Gates that Qiskit composes of others are
        written out in elementary ones.

        Parameters
        ----------
        folder : str or Path
            Made if it does not exist; files of these names are replaced.
        """
        made: dict[str, bytes] = {}
        lines: list[str] = []
        for k, circuit in enumerate(self):
            name, about = f"{k:0{len(str(len(self)))}}", circuit.metadata
            gates = elementary(circuit)
            gates.name, gates.metadata = circuit.name, about
            made |= {f"{name}.qasm": qasm_bytes(gates), f"{name}.qpy": qpy_bytes(gates)}
            lines.append(json.dumps(about | {"qubits": circuit.num_qubits, "files": [f"{name}.qasm", f"{name}.qpy"]}))
        made["manifest.json"] = ("[\n" + ",\n".join(lines) + "\n]\n").encode()
        paths = {Path(folder) / name: data for name, data in made.items()}
        for path, data in paths.items():
            with replacing(path) as file:
                file.write(data)
        return list(paths)


_OPEN: ContextVar[CircuitRecord | None] = ContextVar("circuit_record", default=None)


@contextmanager
def record_circuits() -> Iterator[CircuitRecord]:
    """Record the circuits that solvers and quantum kernels send meanwhile, in this thread.

    Circuits of every batch are included: steps, gradients, calibrations, checks, and those whose results come from a
    journal. A quantum kernel on the emulator computes states and sends none. Nothing else changes; a run has the same
    result. Runs in other processes are not recorded. A record takes 8 bytes an angle; circuits are built when they are
    read.

    Yields
    ------
    CircuitRecord
        Grows as circuits are sent.

    See Also
    --------
    circuit : The circuit of a solver before a run.
    final_circuit : The circuit of a run's answer.

    Examples
    --------
    >>> import tempfile
    >>> from dualflow import FidelityKernel, record_circuits
    >>> X = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    >>> with record_circuits() as record:
    ...     K = FidelityKernel("zz", device="aer", shots=100)(X, X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in record.save(folder)][:3]
    ['0.qasm', '0.qpy', '1.qasm']
    """
    record = CircuitRecord()
    token = _OPEN.set(record)
    try:
        yield record
    finally:
        _OPEN.reset(token)


def keep(circuit: ParametricCircuit, theta: ArrayLike, shots: int | None) -> None:
    """Add the circuits of a batch to the open record, if there is one."""
    record = _OPEN.get()
    if record is None:
        return
    rows = np.array(np.atleast_2d(theta), dtype=float)
    record._sent.extend((circuit, row, shots) for row in rows)
