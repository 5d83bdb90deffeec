"""The quantum rooms, the only ones that import qiskit or pennylane, and only when a circuit is run."""
