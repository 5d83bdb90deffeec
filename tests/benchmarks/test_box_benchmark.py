"""The study of the box solvers: what stands in the circuit's place reads its angles, and its verdicts count right."""

from argparse import Namespace

import numpy as np
import pytest

from benchmarks.lib.claims import Rows
from benchmarks.quantum import hamiltonian_descent as study
from dualflow.quantum.circuits import AnnealCircuit


def table():
    return Rows("quantum/study", Namespace(csv=None), ())


def test_a_mean_field_is_the_fixed_point_of_its_angles():
    circuit, rng = AnnealCircuit(4), np.random.default_rng(0)
    theta = 0.3 * rng.normal(size=circuit.n_parameters)
    found = study.MeanField().submit(circuit, theta).result().ordered("little").probabilities.ravel()
    bits = (np.arange(16)[:, None] >> np.arange(4)) & 1
    x = found @ (1.0 - 2.0 * bits)
    J = np.zeros((4, 4))
    J[np.triu_indices(4, 1)] = theta[4:]
    local = theta[:4] + (J + J.T) @ x
    np.testing.assert_allclose(x, -local / np.hypot(local, 1.0 / study.FIELD_PER_CURVATURE), atol=1e-10)
    product = np.prod(np.where(bits, 0.5 * (1 - x), 0.5 * (1 + x)), axis=1)
    np.testing.assert_allclose(found, product, atol=1e-12)


def test_a_cell_has_a_row_for_all_that_stands_in_the_circuit_s_place():
    rows = table()
    study.run(rows, (8, 8, 1, 1e-3, "SVDD", 0.5, "iris"))
    found = {(row["solver"], row["run"]): row for row in rows.lines}
    assert len(found) == len(rows.lines) == 2 * 2 + len(study.CONTROLS) + 1
    for solver in study.SOLVERS:
        assert 0 < found[solver, study.RIGHT]["circuits_1e_3"] <= 5
    assert found["both", "mean field"]["circuits_1e_3"] <= 5
    assert found["both", "control:corner"]["circuits_1e_3"] > 5
    assert found["both", "null"]["circuits_1e_3"] is None


@pytest.mark.parametrize(("own", "corner", "good"), [(3, 9, 1), (4, 9, 0), (30, None, 1), (None, None, 0)])
def test_verdicts(own, corner, good):
    rows = table()
    for solver, run, circuits in (
        *((solver, study.RIGHT, own) for solver in study.SOLVERS),
        ("both", "control:corner", corner),
        ("both", "mean field", 5),
    ):
        about = {"cell": "a", "n": 8, "block": 8, "wanted": 1e-3, "solver": solver, "run": run}
        rows.add("a", **about, at_bound=0.25, circuits_1e_3=circuits)
        rows.add("b", **about | {"cell": "b"}, at_bound=0.5, circuits_1e_3=None)  # at corners: not counted
        rows.add("c", **about | {"cell": "c"}, at_bound=0.25, circuits_1e_3=0)  # nor where nothing is needed
    level, third, mean = study.verdicts(rows)[:3]
    assert (third.good, third.cells, third.kind) == (good, 1, "shown")
    assert level.good == (own is not None)
    assert mean.good == (own is None or own >= 5)


def test_its_points_are_half_of_either_class():
    for name in study.DATA:
        X, y = study.load(name, 8, 3)
        assert (X.shape[0], y.sum(), set(y)) == (8, 0.0, {1.0, -1.0})
        assert not np.array_equal(X, study.load(name, 8, 4)[0])
