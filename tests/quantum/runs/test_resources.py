"""Growth of circuits with n: counts against closed forms, models against the values of their papers."""

import math

import numpy as np
import pytest
from qiskit import transpile
from sklearn.datasets import make_moons

from dualflow import Gram, Kind, ProblemError, SolverMismatch, problems, resources, solve
from dualflow.planning.resources import Growth, ResourceRow, resized
from dualflow.quantum.circuits import HardwareEfficientCircuit, QHDCircuit, TreeCircuit
from dualflow.quantum.circuits.clifford_t import logical_counts, t_count
from dualflow.quantum.circuits.surface_code import footprint

X, T = make_moons(20, noise=0.1, random_state=0)
Y = 2.0 * T - 1
SIMPLEX = problems.svc(Gram(X), Y, C=10.0, loss="squared_hinge")
HINGE = problems.svc(Gram(X), Y, C=10.0)


def test_counts_of_the_tree_match_its_closed_form():
    table = resources(SIMPLEX, "variational-flow", sizes=(2, 4, 8, 16, 32), large=(1024,))
    for row in table.counted:
        assert (row.qubits, row.cx) == (math.log2(row.n), row.n - 2)
        assert (row.rotations, row.t_gates) == (row.n - 1, 0)
        assert (row.circuits, row.shots) == (41, 410_000)
    (model,) = [row for row in table.rows if not row.counted]
    assert not model.counted
    assert (model.qubits, model.cx, model.rotations) == pytest.approx((10, 1022, 1023))
    assert (model.circuits, model.shots) == (41, 410_000)
    true = logical_counts(TreeCircuit(10))  # a larger circuit that can still be built agrees with the model
    assert (model.cx, model.rotations) == pytest.approx((true.cx, true.rotations))
    assert model.depth == pytest.approx(true.depth, rel=0.25)


def test_circuits_and_shots_are_those_of_a_run():
    table = resources(HINGE, "hamiltonian-dilation", sizes=(8,), large=(), shots=50, steps=7)
    cost = solve(resized(HINGE, 8), "hamiltonian-dilation", device="emulator", shots=50, steps=7, tol=1e-300).cost
    assert (table.rows[0].circuits, table.rows[0].shots) == (cost.circuits, cost.shots) == (8, 400)
    blocks = resources(HINGE, "hamiltonian-descent", sizes=(8, 16), large=(32,), shots=10, trotter_steps=2)
    assert [row.circuits for row in blocks.rows] == [24, 40, pytest.approx(40 * 40 / 24)]


def test_qiskit_s_own_count_of_gates_is_the_same():
    for circuit in (HardwareEfficientCircuit(4, 3), QHDCircuit(4, 3)):
        plain = transpile(circuit.build(), basis_gates=["cx", "u"], optimization_level=0)
        assert logical_counts(circuit).cx == plain.count_ops()["cx"]


def test_multiples_of_an_eighth_turn_are_clifford_and_t_gates():
    from dataclasses import dataclass
    from typing import ClassVar

    from qiskit import QuantumCircuit

    from dualflow.quantum.circuits import ParametricCircuit

    @dataclass(frozen=True)
    class Few(ParametricCircuit):
        family: ClassVar[str] = "few"
        n_parameters = 1

        def _build(self):
            (theta,) = self.parameters("theta")
            circuit = QuantumCircuit(2)
            circuit.t(0)
            circuit.tdg(1)
            circuit.s(0)
            circuit.h(1)
            circuit.rz(0.3, 0)
            circuit.rz(theta, 1)
            circuit.cx(0, 1)
            return circuit

    found = logical_counts(Few(2))
    assert (found.t_gates, found.rotations, found.cx, found.qubits) == (2, 2, 1, 2)


def test_t_counts_follow_ross_and_selinger():
    assert t_count(0, 7) == 7
    # One rotation to 2^-10 takes 30 T; a thousand that share the error take log₂ 1000 · 3 more each.
    assert t_count(1, error=2.0**-10) == 30
    assert t_count(1024, error=2.0**-10) == 1024 * 60


def test_the_surface_code_is_litinski_s():
    # "A classically intractable 100-qubit computation with a T count of 10^8, at 10^-4 and 1 µs": 55 000 qubits, 4 h.
    machine = footprint(100, 1e8, 1e-4, 1e-6)
    assert machine.distance == 13
    assert machine.physical_qubits == pytest.approx(55_000, rel=0.01)
    assert machine.seconds_a_shot / 3600 == pytest.approx(4, rel=0.01)
    worse = footprint(100, 1e8, 1e-3)
    assert worse.distance > machine.distance
    assert worse.physical_qubits > machine.physical_qubits
    assert footprint(10, 1e30, 1e-3) is None  # no distillation of the model is that good


def row(n, cx):
    return ResourceRow(n, True, 1, cx, 1, 1, 0, 1, None, None, None)


@pytest.mark.parametrize(
    ("cx", "at_100", "power"),
    [
        (lambda n: 8, 8, 0),
        (lambda n: 2 + 4 * n, 402, 1),
        (lambda n: 7 + 3 * n**2, 30_007, 2),
        (lambda n: 50 if n == 4 else n**1.5, 1000, 1.5),  # falls first: through the last two
    ],
)
def test_growth_is_found(cx, at_100, power):
    found = Growth.through([row(n, cx(n)) for n in (4, 8, 16)], "cx")
    assert found.at(100) == pytest.approx(at_100)
    assert found.power == pytest.approx(power)


@pytest.mark.parametrize(
    "posed",
    [SIMPLEX, HINGE, problems.svdd(Gram(X), nu=0.3), problems.svr(Gram(X), X[:, 0]), problems.svdd(Gram(X))],
    ids=lambda problem: problem.kind.value,
)
@pytest.mark.parametrize("n", [3, 20, 64])
def test_a_resized_problem_is_of_the_same_kind_and_feasible(posed, n):
    other = resized(posed, n)
    assert (other.n, other.kind) == (n, posed.kind)
    if posed.kind is Kind.CAPPED_SIMPLEX:
        assert other.upper.sum() == pytest.approx(posed.upper.sum())
    assert np.isfinite(other.dense()).all()


def test_solvers_that_must_run_are_counted_up_to_the_feasible_size():
    table = resources(problems.least_squares(Gram(X), Y, C=10.0), "hhl", sizes=(4, 8, 32), large=())
    assert [row.n for row in table.rows] == [4, 8]
    assert [row.circuits for row in table.rows] == [2, 2]
    assert table.rows[-1].shots is None
    assert table.rows[-1].seconds is None


def test_the_sentence_of_a_table_is_its_last_counted_row():
    table = resources(SIMPLEX, "variational-flow", sizes=(4, 8, 16), large=(1000,))
    text = str(table)
    assert text.splitlines()[0] == "variational-flow, simplex"
    assert len(text.splitlines()) == 6
    assert text.count("counted") == 3
    assert text.count("model") == 1
    assert table.sentence() == (
        "4 qubits, 14 CX and depth 74 a circuit at n = 16, CX growing as n; 41 circuits a run, the same at every n; "
        "by the model, 480 T gates a shot."
    )


@pytest.mark.parametrize(
    ("problem", "solver", "options", "error", "match"),
    [
        (SIMPLEX, "smo", {}, ProblemError, "runs no circuits"),
        (HINGE, "variational-flow", {}, SolverMismatch, "does not solve"),
        (SIMPLEX, "variational-flow", {"sizes": (0, 4)}, ProblemError, "sizes=0"),
        (HINGE, "hamiltonian-descent", {"sizes": (512,)}, ProblemError, "at most 128"),
    ],
)
def test_bad_arguments(problem, solver, options, error, match):
    with pytest.raises(error, match=match):
        resources(problem, solver, **options)
