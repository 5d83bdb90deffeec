"""Large matrices: a fit screens their spectrum in O(n²), and no certificate is read before it is examined."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

import dualflow
from dualflow import SVC, SVDD, SVR, Gram, OneClassSVM, Status, problems, solve
from dualflow.core import psd

N = 700
GIVEN = {"kernel": "precomputed"}


@pytest.fixture
def points():
    X = np.random.default_rng(0).normal(size=(N, 5))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1, -1)


@pytest.fixture
def counted(monkeypatch):
    """The matrices whose spectrum was examined."""
    found, own = [], psd.examine
    monkeypatch.setattr(psd, "examine", lambda Q: found.append(Q) or own(Q))
    return found


def with_spectrum(values, seed=1):
    """A symmetric matrix with these eigenvalues and random eigenvectors, and the eigenvectors."""
    V = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    K = (V * values) @ V.T
    return 0.5 * (K + K.T), V


def slightly_indefinite():
    """A matrix whose only negative eigenvalue, −1e-6 of the largest, no screen finds."""
    return with_spectrum(np.append(np.linspace(1e-4, 1.0, N - 1), -1e-6))[0]


MODELS = [OneClassSVM(nu=0.1, **GIVEN), SVDD(nu=0.1, **GIVEN), SVC(**GIVEN), SVR(**GIVEN)]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fit_factorises_no_matrix_and_its_certificate_does(model, points, counted):
    X, y = points
    model = copy.copy(model).fit(rbf_kernel(X), y)
    assert counted == []
    assert model.certificate_.psd.kind == "checked"
    assert len(counted) == 1
    assert model.certificate_.within(1e-6)
    assert (model.fit_status_, model.solution_.status) == (0, Status.OPTIMAL)
    assert len(counted) == 1


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_what_the_screen_misses_is_withheld_when_it_is_read(model, points, counted):
    K, y = slightly_indefinite(), points[1]
    assert psd.screen(K).kind == "presumed"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = copy.copy(model).fit(K, y)
    with pytest.warns(ConvergenceWarning, match=r"indefinite.*certificate is withheld"):
        certificate = model.certificate_
    assert certificate.psd.kind == "indefinite"
    assert (certificate.gap, certificate.relative_gap, certificate.lower_bound, certificate.rounding) == (None,) * 4
    assert certificate.stationarity < 1e-3
    assert (model.fit_status_, model.solution_.status) == (1, Status.STATIONARY)
    assert model.raw_certificate_.gap is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.certificate_ == certificate  # warned of once


@pytest.mark.parametrize(
    "read", ["fit_status_", "solution_.status", "solution_.certificate", "raw_certificate_", "pickle"]
)
def test_every_way_to_a_certificate_examines_the_matrix(read, points):
    model = OneClassSVM(nu=0.1, **GIVEN).fit(slightly_indefinite())
    if read == "pickle":
        model = pickle.loads(pickle.dumps(model))
        assert model.solution_.certified.psd.kind == "indefinite"
    elif read == "fit_status_":
        assert model.fit_status_ == 1
    elif read == "raw_certificate_":
        assert model.raw_certificate_.gap is None
    elif read == "solution_.status":
        assert model.solution_.status is Status.STATIONARY
    assert model.solution_.certificate.gap is None
    assert "withheld" not in str(model.solution_.certificate)
    assert "indefinite" in str(model.solution_.certificate)


def test_copies_pickles_and_files_of_an_unexamined_model(points, tmp_path):
    model = OneClassSVM(nu=0.1, **GIVEN).fit(rbf_kernel(points[0])).keep_training_data()
    model.save(tmp_path / "model.dualflow")
    others = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), dualflow.load(tmp_path / "model.dualflow")]
    for other in others:
        assert other.certificate_.psd.kind == "checked"
        assert other.fit_status_ == 0
        assert np.array_equal(other.dual_coef_, model.dual_coef_)


def test_several_classes_are_examined_a_pair_at_a_time(points, counted):
    X = points[0]
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = SVC(**GIVEN).fit(rbf_kernel(X), y)
    assert counted == []
    assert [one.psd.kind for one in model.certificates_] == ["checked"] * 3
    assert model.fit_status_ == 0


def test_a_clearly_indefinite_matrix_warns_in_the_fit(points, counted):
    K = rbf_kernel(points[0]) - 0.5 * np.eye(N)
    smallest = np.linalg.eigvalsh(K)[0]
    with pytest.warns(ConvergenceWarning, match="indefinite"):
        model = SVC(**GIVEN).fit(K, points[1])
    found = model.certificate_.psd.smallest_eigenvalue
    assert smallest <= found < 0.8 * smallest  # a Rayleigh quotient: an upper bound
    assert counted == []


@pytest.mark.parametrize("where", ["one direction", "noise", "one entry", "a negative diagonal"])
def test_the_screen_finds(where, points):
    K = rbf_kernel(points[0], gamma=0.1)
    draw = np.random.default_rng(2)
    if where == "one direction":
        v = draw.normal(size=N)
        K -= np.outer(v, v) / N
    elif where == "noise":
        E = 0.05 * draw.normal(size=(N, N))
        K += E + E.T
    elif where == "one entry":
        K[3, 7] = K[7, 3] = 3.0
    else:
        K[5, 5] = -1.0
    found = psd.screen(0.5 * (K + K.T))
    assert found is None or found.kind == "indefinite"


@pytest.mark.parametrize("values", ["smooth", "one", "zero", "huge", "tiny", "overflow"])
def test_the_screen_never_calls_a_semidefinite_matrix_indefinite(values, points):
    X = points[0]
    scale = {"huge": 1e200, "tiny": 1e-200, "overflow": 1e30}.get(values, 1.0)
    K = {"one": np.ones((N, N)), "zero": np.zeros((N, N))}.get(values, rbf_kernel(X[:, :1], gamma=0.01)) * scale
    K = 0.5 * (K + K.T)
    found = psd.screen(K)
    assert found is None or found.kind == "presumed"
    assert psd.examine(K).kind == "checked"


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_a_presumption_that_proves_wrong_ends_in_a_withheld_certificate(C, points, monkeypatch):
    """Even where it is far from right: each solver ends, and what it reached is feasible."""
    monkeypatch.setattr(psd, "screen", lambda Q: psd.SpectrumEvidence("presumed"))
    K = rbf_kernel(points[0]) - 0.9 * np.eye(N)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(C=C, **GIVEN).fit(K, points[1])
        certificate = model.certificate_
    assert (certificate.psd.kind, certificate.gap) == ("indefinite", None)
    assert certificate.infeasibility < 1e-9 * C
    assert model.fit_status_ == 1


def test_certificates_that_are_seen_before_the_solution_are_examined(points):
    problem = problems.one_class(Gram.precomputed(rbf_kernel(points[0])), 0.1)
    kinds = []
    solve(problem, callback=lambda progress: kinds.append(progress.certificate.psd.kind))
    assert set(kinds) == {"checked"}
    assert solve(problem, trajectory=True).certified.psd.kind == "checked"
    assert solve(problem).certified.psd.kind == "presumed"
