"""Names of gates in PennyLane."""

__all__ = ["PENNYLANE"]

#: PennyLane operations by the names of Qiskit gates; circuits with other gates raise an error.
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
