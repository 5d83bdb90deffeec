"""Every installed classical solver drives the estimators by its name, refined and raw."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import SVC, SVDD, Kind, SolverMismatch

X, Y = make_moons(32, noise=0.15, random_state=3)
SOLVERS = [info for info in dualflow.list_solvers() if info.install is None and not info.quantum]
MODELS = {
    Kind.BOX_EQUALITY: SVC(gamma=1.0),
    Kind.BOX: SVC(gamma=1.0, fit_intercept=False),
    Kind.SIMPLEX: SVC(gamma=1.0, loss="squared_hinge"),
    Kind.CAPPED_SIMPLEX: SVDD(gamma=1.0, nu=0.2),
    Kind.ORTHANT_EQUALITY: SVC(gamma=1.0, C=np.inf),
}


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("info", SOLVERS, ids=lambda info: info.name)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_by_name(info, kind):
    model = MODELS[kind].set_params(solver=info.name, refine=True)
    if kind.value not in info.kinds:
        with pytest.raises(SolverMismatch, match=info.name):
            model.fit(X, Y)
        return
    refined = model.fit(X, Y).decision_function(X)
    assert model.solution_.provenance["solver"] == info.name
    assert model.solution_.problem.kind is kind
    assert model.certificate_.relative_gap < 1e-9
    reference = MODELS[kind].set_params(solver="cvxopt").fit(X, Y).decision_function(X)
    np.testing.assert_allclose(refined, reference, rtol=0, atol=1e-6 * np.abs(reference).max())
    raw = MODELS[kind].set_params(solver=info.name, refine=False).fit(X, Y)
    assert not raw.solution_.refined
    expected = 1e-2 if info.accuracy == "sampled" else 1e-3
    assert raw.certificate_.relative_gap < expected
    assert (np.sign(raw.decision_function(X)) == np.sign(reference))[np.abs(reference) > 0.2].all()
