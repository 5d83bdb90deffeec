"""Properties of all streams: hypothesis searches for data and sequences of calls that violate them."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.exceptions import ConvergenceWarning

from dualflow import EcoSVC, IncrementalSVC, IncrementalSVDD, IncrementalSVR, load, solve
from tests.fuzz import soak, streams
from tests.fuzz.streams import TOL, Kernel, StruckError

QUICK = settings(
    derandomize=True,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
C = st.floats(-4, 7).map(lambda power: 10.0**power)
KERNELS = st.sampled_from(
    [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.5}, {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 1.0}]
)


@st.composite
def data(draw, least=4, most=24):
    """Points with duplicates and contradictions, in units of 1e-8 to 1e6, and labels of both classes."""
    seed, n, m = draw(st.integers(0, 2**32 - 1)), draw(st.integers(least, most)), draw(st.integers(1, 4))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) if draw(st.booleans()) else rng.integers(-2, 3, size=(n, m)).astype(float)
    X = X[rng.integers(0, n, size=n)] if draw(st.booleans()) else X
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    return X * 10.0 ** draw(st.integers(-8, 6)), y


def scaled(parameters, X):
    """Kernel parameters for the scale of the data, so that polynomials are of numbers of size 1."""
    size = float(np.abs(X).max()) or 1.0
    return parameters | ({"gamma": parameters["gamma"] / size**2} if "gamma" in parameters else {})


def cost(C, parameters, X):
    """C in the unit of the data, where the kernel has one: with C k(x, x) above 1e7 float64 has not the digits."""
    size = float(np.abs(X).max()) or 1.0
    return C / size**2 if parameters["kernel"] == "linear" else C


def optimal(model):
    """Whether a state is certified."""
    return all(certificate.within(TOL) for certificate in model.certificates_)


def objective(model):
    return model.solution_.certificate.objective


@QUICK
@given(data(), C, KERNELS, st.integers(0, 2**16))
def test_to_forget_is_never_to_have_learned(made, C, parameters, seed):
    X, y = made
    gone = np.random.default_rng(seed).permutation(len(X))[: len(X) // 2]
    stay = np.setdiff1d(np.arange(len(X)), gone)
    assume(len(np.unique(y[stay])) == 2)
    model = IncrementalSVC(C=cost(C, parameters, X), **scaled(parameters, X))
    other = IncrementalSVC(C=cost(C, parameters, X), **scaled(parameters, X)).partial_fit(
        X[stay], y[stay], classes=[-1, 1], ids=stay
    )
    model.partial_fit(X, y, classes=[-1, 1]).forget(gone)
    assert optimal(model)
    assert optimal(other)
    assert objective(model) == pytest.approx(objective(other), rel=2 * TOL)
    model.forget(gone[:0], purge=True)
    np.testing.assert_array_equal(model.ids_, stay)


@QUICK
@given(data(), C, KERNELS, st.integers(0, 2**16))
def test_any_order_is_the_batch_solution(made, C, parameters, seed):
    X, y = made
    order = np.random.default_rng(seed).permutation(len(X))
    model = IncrementalSVC(C=cost(C, parameters, X), **scaled(parameters, X))
    for part in np.array_split(order, 3):
        model.partial_fit(X[part], y[part], classes=[-1, 1], ids=part)
    batch = solve(model.solution_.problem, refine=True)
    assert optimal(model)
    assert objective(model) == pytest.approx(batch.certificate.objective, rel=2 * TOL)


@QUICK
@given(data(), C, st.floats(0, 0.5), KERNELS)
def test_regression_in_any_order_is_optimal(made, C, epsilon, parameters):
    X, y = made
    target = np.sin(np.arange(len(X))) + y
    model = IncrementalSVR(C=cost(C, parameters, X), epsilon=epsilon, **scaled(parameters, X)).fit(X[:3], target[:3])
    model.partial_fit(X[3:], target[3:])
    assert optimal(model)
    assert optimal(model.forget([0, 3]))


@QUICK
@given(data(), st.one_of(st.none(), st.floats(0.01, 1.0)), KERNELS)
def test_balls_are_optimal_after_learning_and_forgetting(made, nu, parameters):
    X, _ = made
    model = IncrementalSVDD(nu=nu, **scaled(parameters, X)).fit(X[:2]).partial_fit(X[2:])
    assert optimal(model)
    assert optimal(model.forget([0, 2]))


@QUICK
@given(data(), C, KERNELS)
def test_communities_that_forget_no_point_are_optimal(made, C, parameters):
    X, y = made
    model = EcoSVC(C=cost(C, parameters, X), n_init=5, reserve=np.inf, **scaled(parameters, X)).fit(X, y)
    assert model.certify(X, y).within(TOL)


@QUICK
@given(data(), C, KERNELS)
def test_what_is_read_back_goes_on_to_the_same_bits(made, C, parameters):
    X, y = made
    half = len(X) // 2
    model = IncrementalSVC(C=cost(C, parameters, X), **scaled(parameters, X)).partial_fit(
        X[:half], y[:half], classes=[-1, 1]
    )
    other = streams.again(model)
    for each in (model, other):
        each.partial_fit(X[half:], y[half:])
    assert streams.state(model) == streams.state(other)


@QUICK
@given(data(), st.floats(-3, 3).map(lambda power: 10.0**power), st.integers(-1, 1))
def test_a_linear_stream_does_not_notice_where_the_origin_is(made, C, side):
    X, y = made
    X = X / (float(np.abs(X).max()) or 1.0)
    here = IncrementalSVC(C=C, kernel="linear").fit(X, y)
    there = IncrementalSVC(C=C, kernel="linear").fit(X + side * 1e6, y)
    assert optimal(there)
    assert objective(there) == pytest.approx(objective(here), rel=1e-3)  # the points themselves are rounded to 1e-10


class Stream(RuleBasedStateMachine):
    """Learning, forgetting, files and kernels that raise, against the batch solver after every step."""

    @initialize(made=data(12, 40), C=C, name=st.sampled_from(["linear", "rbf"]), called=st.booleans())
    def begin(self, made, C, name, called):
        self.X, self.y = made
        gamma = 0.5 / (float(np.abs(self.X).max()) or 1.0) ** 2
        self.kernel = Kernel(name, gamma)
        C = cost(C, {"kernel": name}, self.X)
        self.model = IncrementalSVC(C=C, kernel=self.kernel if called else name, gamma=gamma)
        self.called, self.fresh, self.known = called, list(range(len(self.X))), set()

    def learn(self, rows):
        self.model.partial_fit(self.X[rows], self.y[rows], classes=[-1, 1], ids=rows)
        self.known |= set(rows)
        self.fresh = [k for k in self.fresh if k not in self.known]

    @precondition(lambda self: self.fresh)
    @rule(count=st.sampled_from([1, 1, 3, 10]))
    def learn_some(self, count):
        self.learn(self.fresh[:count])

    @precondition(lambda self: self.known)
    @rule(which=st.randoms(use_true_random=False), purge=st.booleans())
    def forget_some(self, which, purge):
        gone = which.sample(sorted(self.known), which.randint(1, len(self.known)))
        self.model.forget(gone, purge=purge)
        self.known -= set(gone)
        self.fresh += gone  # to be learned again, later

    @precondition(lambda self: self.known and not self.called)
    @rule()
    def save_and_load(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(path := Path(folder) / "stream")
            other = load(path)
        assert streams.state(other) == streams.state(self.model)
        self.model = other

    @precondition(lambda self: self.fresh and self.called)
    @rule(fuse=st.integers(1, 8))
    def crash(self, fuse):
        before = streams.state(self.model) if self.known else None
        self.kernel.fuse = fuse
        try:
            self.learn(self.fresh[:5])
            self.kernel.fuse = 0
        except StruckError:
            assert before is None or streams.state(self.model) == before

    @invariant()
    def is_the_batch_solution(self):
        if not getattr(self, "known", None):
            return
        np.testing.assert_array_equal(self.model.ids_, sorted(self.known))
        certificate = self.model.certificate_
        assert certificate.within(TOL)
        best = solve(self.model.solution_.problem, refine=True).certificate
        assert certificate.objective == pytest.approx(best.objective, rel=2 * TOL, abs=1e-300)


Stream.TestCase.settings = settings(
    derandomize=True, deadline=None, max_examples=10, stateful_step_count=10, suppress_health_check=list(HealthCheck)
)
TestStream = Stream.TestCase


def test_random_lives_are_never_silently_wrong():
    # The last five: one certificate decided on the warning, and another, with other digits, was shown; NaN weights;
    # the file of a stream whose only free point is the kernel's origin was refused; a bias was
    # another α's; what was left of g on the margin was taken for 0.
    for seed, k in [*((7, k) for k in range(20)), (777, 539), (999, 4141), (999, 3118), (32, 440), (34, 1311)]:
        life = streams.live(seed, k)
        assert not life.wrong, f"{life.what}: {life.wrong}"


@pytest.fixture(autouse=True)
def no_warning():
    """On these data, which have their digits, no state has to be excused."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        yield


@pytest.mark.parametrize("seconds", [1.5, pytest.param(4.0, marks=pytest.mark.slow)])
def test_an_endless_stream_takes_no_more_memory(seconds):
    _, memory, sound = soak.soak(seconds, 0)
    assert sound
    assert memory.max() <= 2e5  # bytes; all that was met would soon be more
