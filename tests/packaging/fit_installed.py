"""An installed dualflow fits a small SVC by its compiled files, and its certificate is right.

Run by cibuildwheel on each wheel and by .ci/long, from outside the tree; tests/packaging runs it too. Nothing of the
certificate is taken on trust: objective, bound and gap are computed again from α and b by the textbook formulas
(Cortes & Vapnik 1995), with scikit-learn's kernel.
"""

from importlib.machinery import EXTENSION_SUFFIXES

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

import dualflow
from dualflow.core import _bound, _pair_bound, _points, _radial, _sealed, _sigmoid
from dualflow.evolution import _mating
from dualflow.online import _path, _response
from dualflow.working_set import _classes, _coordinates, _from_points, _pairs, _point_pairs, _wishes

C, GAMMA = 10.0, 1.0

for module in (
    *(_bound, _pair_bound, _points, _radial, _sealed, _sigmoid, _mating, _path, _response),
    *(_classes, _coordinates, _from_points, _pairs, _point_pairs, _wishes),
):
    assert module.__file__.endswith(tuple(EXTENSION_SUFFIXES)), f"{module.__name__} is not compiled: {module.__file__}"

X, labels = make_moons(300, noise=0.2, random_state=0)
machine = dualflow.SVC(C=C, gamma=GAMMA, solver="working-set").fit(X, labels)
certificate = machine.certificate_

y = 2.0 * labels - 1
coefficients = np.zeros(len(y))  # yᵢαᵢ
coefficients[machine.support_] = machine.dual_coef_[0]
alpha, K = coefficients * y, rbf_kernel(X, gamma=GAMMA)
regulariser = 0.5 * coefficients @ K @ coefficients
dual = alpha.sum() - regulariser
primal = regulariser + C * np.maximum(0, 1 - y * (K @ coefficients + machine.intercept_[0])).sum()
gap = (primal - dual) / dual

assert alpha.min() >= 0, f"α falls below 0: {alpha.min()}"
assert alpha.max() <= C * (1 + 1e-12), f"α exceeds C: {alpha.max()}"
assert abs(coefficients.sum()) <= 1e-9 * alpha.sum(), f"yᵀα = {coefficients.sum()}"
assert 0 <= certificate.relative_gap <= machine.tol, f"certified relative gap {certificate.relative_gap}"
assert abs(certificate.objective + dual) <= 1e-9 * dual, f"objective {certificate.objective}, computed again {-dual}"
assert certificate.lower_bound <= certificate.objective, f"the bound is above the objective: {certificate}"
assert -1e-12 <= gap <= machine.tol, f"relative gap computed again {gap}"
print(f"dualflow {dualflow.__version__} from {dualflow.__path__[0]}: {certificate}")
