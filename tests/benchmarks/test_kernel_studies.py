"""The studies of kernels beside RBF and beside peers: their test, their scale of γ, their counts, their tables."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn import svm

from benchmarks.lib import tables
from benchmarks.lib.tally import circuits_of_aer, states_of_pennylane
from benchmarks.quantum import descent_peers, kernel_accuracy, svm_peers
from benchmarks.quantum.hamiltonian_descent import posed
from dualflow import FidelityKernel, ProjectedKernel, quantum_kernel, solve


def test_the_corrected_test_by_hand():
    """Of 1, 2, 3: mean 2, variance 1; √(1/3 + 1/2) = 0.9129; t = 2.1909 with 2 degrees of freedom."""
    found = kernel_accuracy.corrected(np.array([1.0, 2.0, 3.0]), 0.5)
    assert found == pytest.approx(2 * student.sf(2 / np.sqrt(5 / 6), 2))
    assert found > kernel_accuracy.corrected(np.array([1.0, 2.0, 3.0]), 0.0)
    assert kernel_accuracy.corrected(np.full(3, 0.1), 0.5) == 1.0


def test_gamma_is_measured_against_the_mean_distance():
    X = np.array([[0.0, 0.1], [0.5, 1.0], [1.2, -0.3]])
    K = ProjectedKernel("angle", gamma=1.0 / kernel_accuracy.mean_distance("angle", X))(X, X)
    assert -np.log(K[np.triu_indices(3, 1)]).mean() == pytest.approx(1.0)


@pytest.mark.parametrize("name", kernel_accuracy.SETS)
def test_a_split_shares_nothing_and_scales_by_what_is_trained_on(name):
    A, B, a, b = kernel_accuracy.split(name, 1)
    assert A.shape[0] == len(a) == kernel_accuracy.TRAIN
    assert B.shape[0] == len(b) == kernel_accuracy.TEST
    assert A.shape[1] <= kernel_accuracy.COMPONENTS
    np.testing.assert_allclose(A.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(A.std(axis=0), 1.0)


def test_circuits_are_counted_as_aer_runs_them():
    X = np.random.default_rng(0).uniform(size=(4, 2))
    with circuits_of_aer() as tally:
        quantum_kernel("zz", X, device="aer", shots=50)
    assert tally == {"circuits": 6, "shots": 300, "qubits": 2, "two_qubit_gates": 8}
    with circuits_of_aer() as tally:
        quantum_kernel("zz", X, device="aer")
    assert (tally["circuits"], tally["shots"]) == (6, 0)
    with circuits_of_aer() as tally:
        ProjectedKernel("zz", device="aer", shots=50)(X, X)
    assert (tally["circuits"], tally["shots"]) == (12, 600)
    with circuits_of_aer() as tally:
        quantum_kernel("zz", X)
    assert tally["circuits"] == 0


def test_states_of_pennylane_are_counted():
    import pennylane as qml

    with states_of_pennylane() as tally:
        FidelityKernel(lambda x, wires: qml.AngleEmbedding(x, wires))(np.eye(2), np.eye(2))
    assert tally == {"circuits": 2, "shots": None}


def test_a_gap_is_that_of_the_alpha_that_was_found():
    A, B, a, b = svm_peers.data("moons")
    case = svm_peers.Case(A, a, B, "zz", None)
    K = quantum_kernel("zz", A)
    theirs = svm.SVC(C=svm_peers.C, kernel="precomputed", tol=1e-9).fit(K, a)
    signed = svm_peers.scattered(theirs, len(a))
    good = svm_peers.Fitted(b, signed)
    bad = svm_peers.Fitted(b, 0.5 * signed)
    assert svm_peers.gap_of(K, case, good) < 1e-6
    assert svm_peers.gap_of(K, case, bad) > 1e-2
    assert svm_peers.gap_of(None, case, good) is None
    crooked = K + 0.01 * np.triu(np.ones_like(K), 1)
    assert svm_peers.gap_of(crooked, case, good) is None


def test_our_entrants_find_the_optimum_of_what_they_measured():
    A, B, a, b = svm_peers.data("moons")
    for kind, kernel in (("fidelity", FidelityKernel), ("projected", ProjectedKernel)):
        case = svm_peers.Case(A, a, B, "zz", None)
        columns = svm_peers.measured(lambda c, k=kernel: svm_peers.ours(k, c), kind, _circuit(case), b)
        assert columns["gap"] <= 1e-6
        assert columns["own_gap"] <= 1e-6


def _circuit(case):
    from qiskit.circuit.library import zz_feature_map

    return svm_peers.Case(case.A, case.a, case.B, zz_feature_map(2), case.shots)


def test_pegasos_alpha_is_in_our_units():
    """k + 1, no equality, C n times ours: with steps its gap falls, and twice or half its α is farther away."""
    pytest.importorskip("qiskit_machine_learning", reason="pip install 'dualflow[bench]'")
    from qiskit_machine_learning.algorithms import PegasosQSVC

    A, B, a, b = svm_peers.data("moons")
    K, case = quantum_kernel("zz", A), svm_peers.Case(A, a, B, "zz", None)

    def found(steps):
        model = PegasosQSVC(C=len(a) * svm_peers.C, num_steps=steps, precomputed=True, seed=0).fit(K + 1, a)
        return svm_peers.pegasos_signed(model, a, steps)

    def gap(signed):
        return svm_peers.gap_of(K, case, svm_peers.Fitted(b, signed, penalised=True))

    signed = found(5_000)
    assert gap(signed) < 0.5 * gap(found(100))
    assert min(gap(0.5 * signed), gap(2.0 * signed)) > 1.2 * gap(signed)


def test_descent_entrants_return_alpha_of_the_same_problem():
    problem = posed("no bias", "iris", descent_peers.N, 2.0, descent_peers.SEED).problem
    least = solve(problem, "cvxopt", tol=1e-9).certificate.objective
    entrant = {name: run for name, _, run in descent_peers.ENTRANTS}["hamiltonian-adiabatic, 20 circuits"]
    columns = descent_peers.measured(entrant, problem, least, None)
    assert abs(columns["excess"]) < 1e-2
    assert 0 < columns["circuits"] <= 20
    assert columns["qubits"] == descent_peers.N


def test_the_table_of_accuracies_marks_what_is_told_apart():
    rows = [
        {"case": "moons: rbf", "accuracy": "97.25", "sd": "1.5"},
        {"case": "moons: fidelity zz", "accuracy": "90", "sd": "2"},
        {"case": "iris: rbf", "accuracy": "95", "sd": "3"},
        {"case": "iris: fidelity zz", "accuracy": "94", "sd": "3"},
    ]
    lines = [
        {"what": "moons: fidelity zz", "note": "p = 0.001 after Holm, 20 splits"},
        {"what": "iris: fidelity zz", "note": "p = 1 after Holm, 20 splits: no difference shown"},
        {"what": "quantum kernels", "note": ""},
    ]
    assert tables.accuracies(lines, rows).splitlines() == [
        "| kernel | moons | iris |",
        "| --- | --- | --- |",
        "| rbf | 97.2 ± 1.5 | 95.0 ± 3.0 |",
        "| fidelity zz | 90.0 ± 2.0 * | 94.0 ± 3.0 |",
    ]


def test_the_grid_of_medians_has_a_line_a_place_and_a_column_a_method():
    rows = [
        {"case": "lagos: flow: none", "median": "20", "low": "10", "high": "30"},
        {"case": "lagos: flow: mthree", "median": "not applicable", "low": "", "high": ""},
        {"case": "hanoi: flow: none", "median": "2", "low": "1", "high": "3"},
    ]
    assert tables.grid(rows).splitlines() == [
        "| case | none | mthree |",
        "| --- | --- | --- |",
        "| lagos: flow | 20 (10 … 30) | not applicable |",
        "| hanoi: flow | 2 (1 … 3) |  |",
    ]


def test_the_lines_of_the_peers_say_what_was_not_certified():
    cell = {"gap": 0.1, "accuracy": 50.0, "circuits": 3, "shots": None, "seconds": 1.0}
    lines = svm_peers.verdicts({("theirs", "exact"): [cell, cell | {"gap": None}]})
    assert [line.value for line in lines] == [float("inf"), 50.0, 1.0]
    assert lines[0].note == "circuits 6, shots 0"
    bits = svm_peers.controls_bits("all", 3)
    assert sorted(map(tuple, bits)) == sorted({tuple(row) for row in bits})
    assert len(bits) == 8
