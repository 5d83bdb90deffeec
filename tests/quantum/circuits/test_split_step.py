"""Split-step circuits against dense matrix exponentials, Aer and PennyLane, and QUBOs against f on the grid."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from dualflow import Gram, HamiltonianAdiabatic, HamiltonianDescent, ProblemError, SolverUnavailable, problems, solve
from dualflow.quantum.circuits import AnnealCircuit, QHDCircuit
from dualflow.quantum.circuits.encoding import bit_table
from dualflow.quantum.devices import make_device
from dualflow.quantum.solvers import qubo as qubo_module
from dualflow.quantum.solvers.qubo import box_qubo, sample_annealing, to_qubo

X, Z = np.array([[0, 1], [1, 0.0]]), np.diag([1.0, -1.0])
CIRCUITS = [QHDCircuit(1, 4), QHDCircuit(3, 6), QHDCircuit(5, 9), QHDCircuit(4, 5, bits=2), QHDCircuit(6, 3, 2.0, 3)]
CIRCUITS += [
    AnnealCircuit(1, 3),
    AnnealCircuit(4, 7, 3.0),
    AnnealCircuit(5, 6, 4.0),
    QHDCircuit(6, 4, bits=2),
    QHDCircuit(8, 1, 1.0),
]


def angles(circuit, seed=0):
    theta = np.random.default_rng(seed).normal(size=circuit.n_parameters)
    return theta / np.linalg.norm(theta)


def test_distributions_that_are_kept_take_at_most_4_mib():
    """The emulator keeps distributions for the comparison with what it reads out."""
    computed = []

    class Unitary(AnnealCircuit):
        def _distribution_of(self, theta):
            computed.append(self.n_qubits)
            return np.full(2**self.n_qubits, 0.5**self.n_qubits)

    tracemalloc.start()
    try:
        for qubits in (12, 15, 16, 17, 18):
            circuit = Unitary(qubits, 1)
            batch = np.array([angles(circuit, seed) for seed in range(10)])
            for theta in (*batch, batch[-1]):
                circuit.distribution(theta)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept <= 4.2 * 2**20
    assert computed.count(12) == 10  # the last one was kept


def on(qubits, matrix, n):
    """A matrix on some qubits of n, little-endian, by Kronecker products."""
    out = np.ones((1, 1))
    for k in reversed(range(n)):
        out = np.kron(out, matrix if k in qubits else np.eye(2))
    return out


def ising(theta, n):
    pairs = [(j, k) for j in range(n) for k in range(j + 1, n)]
    terms = [on({k}, Z, n) for k in range(n)] + [on({j}, Z, n) @ on({k}, Z, n) for j, k in pairs]
    return sum(c * term for c, term in zip(theta, terms, strict=True))


def laplacian(bits):
    """−Δ/2 on 2^bits points of the periodic unit interval, by its plane waves, written out."""
    size = 2**bits
    out = np.zeros((size, size), dtype=complex)
    for j in range(-(size // 2), (size + 1) // 2):
        wave = np.exp(2j * np.pi * j * np.arange(size) / size) / np.sqrt(size)
        out += 0.5 * (2 * np.pi * j) ** 2 * np.outer(wave, wave.conj())
    return out


#: Divisor of −Δ/2 by the number of bits: π² for one bit, by hand; the others are checked below.
UNITS = {1: np.pi**2, 2: 66.92602676693018, 3: 372.0249814757818}


def kinetic(circuit):
    n, bits = circuit.n_qubits, circuit.bits
    if circuit.family == "anneal":
        return -sum(on({k}, X, n) for k in range(n))
    registers, one = n // bits, laplacian(bits) / UNITS[bits]
    return sum(np.kron(np.eye(2 ** (n - bits * (r + 1))), np.kron(one, np.eye(2 ** (bits * r))))
               for r in range(registers))  # fmt: skip


def rates(circuit, t):
    if circuit.family == "anneal":
        return 1.0, t / circuit.total_time
    # In Leng's time s, from 0.7 to 1 with ds/dτ ∝ s³: weights 2/s³ and 2s³, so that V has s⁶ of the kinetic term's.
    s = (1 / 0.49 - (1 / 0.49 - 1) * t / circuit.total_time) ** -0.5
    return 1.0, s**6


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_one_variable_responds_to_a_force_as_its_parabola(bits):
    """⟨x⟩ of the ground state of −Δ/2 in the circuit's unit and ½x² and a force; one qubit has no x²."""
    x, force = np.linspace(-1, 1, 2**bits), 1e-4
    psi = np.linalg.eigh(laplacian(bits) / UNITS[bits] + np.diag(0.5 * x**2 + force * x))[1][:, 0]
    assert float(abs(psi) ** 2 @ x) == pytest.approx(-force, rel=1e-6)


def by_dense_steps(circuit, theta):
    """The Strang product with scipy's expm of dense matrices: state vector."""
    K, V = kinetic(circuit), ising(theta, circuit.n_qubits)
    psi, tau = (
        np.full(2**circuit.n_qubits, 2 ** (-circuit.n_qubits / 2), dtype=complex),
        circuit.total_time / circuit.trotter_steps,
    )
    for k in range(circuit.trotter_steps):
        a, v = rates(circuit, (k + 0.5) * tau)
        half = expm(-0.5j * tau * v * V)
        psi = half @ (expm(-1j * tau * a * K) @ (half @ psi))
    return psi


def exactly(circuit, theta):
    """ψ(T) of the time-dependent H itself, by an adaptive Runge-Kutta of eighth order on dense matrices."""
    K, V = kinetic(circuit), ising(theta, circuit.n_qubits)
    psi = np.full(2**circuit.n_qubits, 2 ** (-circuit.n_qubits / 2), dtype=complex)

    def rate(t, psi):
        a, v = circuit.rates(t)
        return -1j * (a * (K @ psi) + v * (V @ psi))

    return solve_ivp(rate, (0, circuit.total_time), psi, method="DOP853", rtol=1e-9, atol=1e-10).y[:, -1]


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_circuit_and_emulator_are_the_dense_product(circuit):
    from qiskit.quantum_info import Statevector

    theta = angles(circuit)
    dense = by_dense_steps(circuit, theta)
    psi = Statevector(circuit.build().assign_parameters(circuit.gate_parameters(theta))).data
    assert abs(np.vdot(dense, psi)) == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_allclose(circuit.distribution(theta), abs(dense) ** 2, atol=1e-11)
    two = circuit.distribution([theta, -theta])
    np.testing.assert_allclose(two, [abs(by_dense_steps(circuit, sign * theta)) ** 2 for sign in (1, -1)], atol=1e-11)


@pytest.mark.parametrize("circuit", CIRCUITS[1:], ids=lambda circuit: circuit.name)
@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit"])
def test_devices_agree_with_the_emulator(circuit, device):
    theta = [angles(circuit, 1), angles(circuit, 2)]
    readout = make_device(device).submit(circuit, theta).result().ordered("little")
    np.testing.assert_allclose(readout.probabilities, circuit.distribution(theta), atol=1e-10)


def test_aer_runs_the_circuits_the_solvers_use():
    for circuit in (HamiltonianDescent().circuit_of(8), HamiltonianAdiabatic().circuit_of(8)):
        theta = angles(circuit, 3)
        np.testing.assert_allclose(
            make_device("aer").submit(circuit, theta).result().probabilities, circuit.distribution(theta), atol=1e-10
        )


@dataclass(frozen=True)
class Soft(QHDCircuit):
    """A family with two time-dependent rates."""

    def rates(self, t):
        return 3.0 / (1 + t**3), t**3


@pytest.mark.parametrize(
    "make",
    [
        lambda steps: AnnealCircuit(3, steps, 3.0),
        pytest.param(lambda steps: AnnealCircuit(8, steps, 2.0), marks=pytest.mark.slow),
        lambda steps: Soft(4, steps, 2.0, 2),
        pytest.param(lambda steps: Soft(8, steps, 2.0), marks=pytest.mark.slow),
    ],
    ids=["anneal_q3", "anneal_q8", "qhd_q4_b2", "qhd_q8"],
)
def test_error_of_the_splitting_falls_with_the_square_of_the_step(make):
    """The total error of midpoint schedule and splitting, against the time-ordered exponential."""
    theta = 3.0 * angles(make(1), 4)
    exact = exactly(make(1), theta)
    errors = []
    for steps in (32, 64, 128):
        psi = by_circuit(make(steps), theta)
        errors.append(np.sqrt(max(0.0, 2 - 2 * abs(np.vdot(exact, psi)))))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (abs(slopes - 2) < 0.15).all(), (errors, slopes)


def by_circuit(circuit, theta):
    """State vector of the built circuit, by Qiskit."""
    from qiskit.quantum_info import Statevector

    return Statevector(circuit.build().assign_parameters(circuit.gate_parameters(theta))).data


@pytest.mark.parametrize("circuit", [*CIRCUITS, QHDCircuit(8, 50)], ids=lambda circuit: circuit.name)
def test_gate_counts(circuit):
    from qiskit import transpile

    built = circuit.build()
    pairs = circuit.n_qubits * (circuit.n_qubits - 1) // 2
    written_out = transpile(built, basis_gates=["h", "rz", "rx", "cx"], optimization_level=0).count_ops()
    assert written_out.get("cx", 0) == circuit.cx_gates
    if circuit.bits == 1:
        assert built.count_ops()["rx"] == circuit.n_qubits * circuit.trotter_steps
        assert built.count_ops().get("rzz", 0) == pairs * (circuit.trotter_steps + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: QHDCircuit(3, 0),
        lambda: QHDCircuit(3, 2.5),
        lambda: QHDCircuit(3, 5, -1.0),
        lambda: QHDCircuit(3, 5, np.nan),
        lambda: QHDCircuit(3, bits=2),
        lambda: QHDCircuit(4, bits=0),
        lambda: AnnealCircuit(0),
        lambda: AnnealCircuit(2, True),
        lambda: QHDCircuit(2).distribution(np.zeros(4)),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(ProblemError):
        call()


# --- QUBOs -------------------------------------------------------------------------------------


def a_quadratic(m, seed=0):
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(m, m + 1))
    lower = rng.uniform(0, 1, m)
    return R @ R.T, rng.normal(size=m), lower, lower + rng.uniform(0.1, 2, m)


def grid(lower, upper, bits):
    """All points of the grid by counting, the first variable fastest."""
    axes = [np.linspace(low, high, 2**bits) for low, high in zip(lower, upper, strict=True)]
    return np.array([[axis[(i >> (bits * k)) % 2**bits] for k, axis in enumerate(axes)]
                     for i in range(2 ** (bits * len(axes)))])  # fmt: skip


@pytest.mark.parametrize(("m", "bits"), [(1, 1), (4, 1), (3, 2), (2, 3)])
def test_energies_are_f_on_the_grid(m, bits):
    A, g, lower, upper = a_quadratic(m)
    qubo = box_qubo(A, g, lower, upper, bits)
    x = grid(lower, upper, bits)
    np.testing.assert_allclose(qubo.decode(bit_table(m * bits)), x, atol=1e-13)
    f = [0.5 * row @ A @ row + g @ row for row in x]
    np.testing.assert_allclose(qubo.energies(), f, atol=1e-12)
    # The Ising form differs by a constant only.
    constant = qubo.energies() - np.diag(ising(qubo.ising(), m * bits))
    np.testing.assert_allclose(constant, constant[0], atol=1e-12)
    h, J, offset = qubo.to_ising()
    spins = 2 * bit_table(m * bits) - 1
    by_spins = [offset + sum(h[k] * s[k] for k in h) + sum(c * s[j] * s[k] for (j, k), c in J.items()) for s in spins]
    np.testing.assert_allclose(by_spins, f, atol=1e-12)
    # The dictionary, summed by hand.
    rows = bit_table(m * bits)
    by_dict = [qubo.offset + sum(c * row[j] * row[k] for (j, k), c in qubo.to_dict().items()) for row in rows]
    np.testing.assert_allclose(by_dict, f, atol=1e-12)


def test_qubo_of_a_problem_is_its_objective_and_the_penalty():
    gram = Gram(np.random.default_rng(1).normal(size=(5, 2)), kernel="rbf", gamma=0.5)
    problem = problems.svc(gram, [1, -1, 1, -1, 1], C=2.0)
    x = grid(np.zeros(5), np.full(5, 2.0), 2)
    for penalty in (None, 3.0):
        weight = problem.diag().mean() if penalty is None else penalty
        f = [problem.objective(row) + 0.5 * weight * (problem.e @ row - problem.d) ** 2 for row in x]
        np.testing.assert_allclose(to_qubo(problem, 2, penalty).energies(), f, atol=1e-12)
    ball = problems.svdd(gram, nu=0.5)  # d = 1
    f = [ball.objective(row) + 0.5 * 3.0 * (row.sum() - 1.0) ** 2 for row in grid(np.zeros(5), np.full(5, 0.4), 1)]
    np.testing.assert_allclose(to_qubo(ball, penalty=3.0).energies(), f, atol=1e-12)
    for bad in (-1.0, np.nan, np.inf, "1", True):
        with pytest.raises(ProblemError, match="penalty="):
            to_qubo(ball, penalty=bad)
    for bad in (0, 1.5, "1", True):
        with pytest.raises(ProblemError, match="bits="):
            to_qubo(ball, bad)
    with pytest.raises(ProblemError, match="finite bounds"):
        to_qubo(problems.svc(gram, [1, -1, 1, -1, 1], C=np.inf))
    free = problems.svc(gram, [1, -1, 1, -1, 1], C=2.0, fit_intercept=False)
    f = [free.objective(row) for row in grid(np.zeros(5), np.full(5, 2.0), 1)]
    np.testing.assert_allclose(to_qubo(free).energies(), f, atol=1e-12)


def test_bqm_of_dimod_has_the_same_energies():
    dimod = pytest.importorskip("dimod", reason="pip install 'dualflow[annealing]'")
    qubo = box_qubo(*a_quadratic(3), 2)
    bqm = qubo.to_dimod()
    assert isinstance(bqm, dimod.BinaryQuadraticModel)
    energies = bqm.energies((bit_table(6).astype(int), range(6)))
    np.testing.assert_allclose(energies, qubo.energies(), atol=1e-12)
    h, J, offset = bqm.to_ising()
    own_h, own_J, own_offset = qubo.to_ising()
    assert own_h == pytest.approx(h)
    assert own_J == pytest.approx({tuple(sorted(pair)): value for pair, value in J.items()})
    assert own_offset == pytest.approx(offset)


def test_simulated_annealing_finds_the_lowest_energy():
    pytest.importorskip("dwave.samplers", reason="pip install 'dualflow[annealing]'")
    qubo = box_qubo(*a_quadratic(8))
    lowest = bit_table(8)[qubo.energies().argmin()]
    means = sample_annealing(qubo, 50, 0)
    np.testing.assert_array_equal(means.round(), lowest)
    np.testing.assert_array_equal(means, sample_annealing(qubo, 50, 0))


def test_without_dimod_the_pip_line_is_given(monkeypatch):
    def gone(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(qubo_module.importlib, "import_module", gone)
    qubo = box_qubo(*a_quadratic(2))
    for call in (qubo.to_dimod, lambda: sample_annealing(qubo, 1, 0)):
        with pytest.raises(SolverUnavailable, match=r"dualflow\[annealing\]"):
            call()


def test_too_many_bits_to_list():
    with pytest.raises(ProblemError, match="20"):
        box_qubo(np.eye(21), np.zeros(21), np.zeros(21), np.ones(21)).energies()


def test_a_run_on_the_emulator_evolves_each_circuit_once(monkeypatch):
    """The comparison of read-outs with their distributions uses the cached distributions."""
    evolve, evolved = QHDCircuit._distribution_of, []

    def counted(circuit, theta):
        evolved.append(theta)
        return evolve(circuit, theta)

    monkeypatch.setattr(QHDCircuit, "_distribution_of", counted)
    problem = problems.svc(Gram([[0.0], [1.0], [2.1], [3.3]], gamma=0.7), [-1, 1, -1, 1], C=3.0)
    found = solve(problem, HamiltonianDescent(device="emulator", shots=50), random_state=7)
    assert found.provenance["fidelity"]["circuits"] == len(evolved) > 0
