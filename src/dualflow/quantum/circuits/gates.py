"""Names of gates in other packages."""

__all__ = ["PENNYLANE"]

#: Qiskit gate -> PennyLane operation; what is not here is refused, never skipped.
PENNYLANE = {
    "ry": "RY",
    "cx": "CNOT",
    "rx": "RX",
    "rz": "RZ",
    "h": "Hadamard",
    "x": "PauliX",
    "cz": "CZ",
    "rzz": "IsingZZ",
}
