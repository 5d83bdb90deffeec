"""Tests that a cascade's certificate is that of all rows in one place, for every engine, limit and status."""

import os
import pickle
import time
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LIBSVM

from dualflow import CascadeSVC, EngineError, FitError, Gram, ProblemError, Status, certify, problems
from dualflow.cascade import engines, row_groups
from dualflow.cascade.model import reduced, share_of
from dualflow.core.bounds import dual_bound
from dualflow.core.runtime import clock

X, Y = make_classification(700, 6, n_informative=4, flip_y=0.05, class_sep=0.8, random_state=3)
MODELS = {
    "hinge": {"C": 2.0},
    "no bias": {"fit_intercept": False},
    "penalised": {"fit_intercept": "penalised", "C": 5.0},
    "linear": {"kernel": "linear", "C": 0.3},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "squared hinge": {"loss": "squared_hinge", "C": 3.0},
    "squared hinge, no bias": {"loss": "squared_hinge", "fit_intercept": False},
}


def joint(model, X, y, weight=None):
    """Return the problem of all rows in one place, of two classes, and the α of a fitted model."""
    gram = Gram(X, model.kernel, gamma=model.gamma, degree=model.degree, coef0=model.coef0)
    sign = np.where(y == model.classes_[1], 1, -1)
    problem = problems.svc(
        gram, sign, model.C, loss=model.loss, fit_intercept=model.fit_intercept, sample_weight=weight
    )
    alpha = np.zeros(len(X))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    if model.loss == "squared_hinge":
        alpha /= alpha.sum()
    return problem, alpha


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("partitioner", ["random", "clusters", "given"])
def test_its_certificate_is_that_of_all_rows_in_one_place(name, partitioner):
    model = CascadeSVC(partitions=5, partitioner=partitioner, random_state=0, tol=1e-4, **MODELS[name]).fit(X, Y)
    problem, alpha = joint(model, X, Y)
    ours, theirs = model.certificate_, certify(problem, alpha)
    assert ours.within(1e-4)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-10)
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-10)
    assert ours.bias == pytest.approx(theirs.bias, rel=1e-7, abs=1e-9)
    assert theirs.infeasibility < 1e-10
    assert [status.name for status in model.statuses_] == ["OPTIMAL"]


@pytest.mark.parametrize("name", [name for name, options in MODELS.items() if "kernel" not in options])
def test_float32_does_not_change_the_bound(name, monkeypatch):
    """Parts compare most of their rows in float32, where its error bound says that they add nothing to the bound."""
    from dualflow.cascade import tasks
    from dualflow.core import mixed_precision

    made = []

    def counted(gram, Z, weights):
        made.append(mixed_precision.rough_sums_of_new(gram, Z, weights))
        return made[-1]

    monkeypatch.setattr(mixed_precision, "MIN_MULTIPLICATIONS", 0)
    monkeypatch.setattr(tasks, "rough_sums_of_new", counted)
    model = CascadeSVC(partitions=5, random_state=0, tol=1e-4, **MODELS[name]).fit(X, Y)
    assert made
    assert all(one is not None for one in made)
    ours, theirs = model.certificate_, certify(*joint(model, X, Y))
    assert ours.lower_bound == pytest.approx(theirs.lower_bound, rel=1e-12)
    assert ours.objective == pytest.approx(theirs.objective, rel=1e-12)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_certificate_is_exact_before_the_end_too(steps):
    with pytest.warns(ConvergenceWarning, match="step limit"):
        model = CascadeSVC(partitions=8, max_invaders=2, max_steps=steps, random_state=0, tol=1e-9).fit(X, Y)
    ours, theirs = model.certificate_, certify(*joint(model, X, Y))
    assert ours.relative_gap == pytest.approx(theirs.relative_gap, rel=1e-9)
    assert ours.relative_gap > 1e-4
    assert model.fit_status_ == 1
    assert model.n_iter_.tolist() == [steps]
    assert all(row.invaders <= 16 for row in model.rounds_)


def test_decisions_are_libsvms():
    peer = LIBSVM(tol=1e-6).fit(X, Y)
    model = CascadeSVC(partitions=6, tol=1e-8, random_state=1).fit(X, Y)
    assert np.abs(model.decision_function(X) - peer.decision_function(X)).max() < 1e-3
    assert model._support_gram.gamma == pytest.approx(peer._gamma, rel=1e-12)


def test_data_far_from_the_origin_keep_their_digits():
    moved = CascadeSVC(kernel="linear", partitions=4, random_state=0, tol=1e-6).fit(X + 1e6, Y)
    here = CascadeSVC(kernel="linear", partitions=4, random_state=0, tol=1e-6).fit(X, Y)
    assert moved.certificate_.objective == pytest.approx(here.certificate_.objective, rel=1e-6)
    assert np.abs(moved.decision_function(X + 1e6) - here.decision_function(X)).max() < 1e-3


def test_several_classes_and_weights():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    weight = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.5)
    options = {"class_weight": "balanced", "C": 4.0}
    model = CascadeSVC(partitions=4, random_state=0, tol=1e-8, **options).fit(X, names, weight)
    peer = LIBSVM(tol=1e-7, **options).fit(X, names, weight)
    assert np.abs(model.decision_function(X) - peer.decision_function(X)).max() < 1e-3
    assert (model.n_support_ == peer.n_support_).all()
    assert np.array_equal(model.support_vectors_, X[model.support_])
    assert not (weight[model.support_] == 0).any()
    assert len(model.certificates_) == 3
    assert {row.pair for row in model.rounds_} == {0, 1, 2}


def test_parts_of_one_class_contribute_rows():
    order = np.argsort(Y, kind="stable")
    model = CascadeSVC(partitions=6, partitioner="given", tol=1e-5).fit(X[order], Y[order])
    assert model.certificate_.within(1e-5)
    assert certify(*joint(model, X[order], Y[order])).within(1e-5)


def test_few_rows_and_many_parts():
    model = CascadeSVC(kernel="linear", C=10, partitions=50).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    assert model.predict([[0.4], [2.2]]).tolist() == ["a", "b"]
    assert model.intercept_ == pytest.approx([-3.0], abs=0.01)


# --- the bound part by part --------------------------------------------------------------------


@pytest.mark.parametrize("width", [0.0, 1e-3, 0.1, 10.0])
def test_shares_sum_to_the_bound(width):
    rng = np.random.default_rng(5)
    problem = problems.svc(Gram(X), np.where(Y == 1, 1, -1), C=2.0)
    alpha = problem.project(rng.uniform(0, 2, problem.n) * (rng.random(problem.n) < 0.3))
    Qa = problem.matvec(alpha)
    whole, (low, high) = dual_bound(problem, alpha, Qa)
    h, window = Qa - problem.p, (low - width, high + width)
    parts = np.array_split(rng.permutation(problem.n), 7)
    shares = [share_of(h[J], problem.e[J], problem.upper[J], window) for J in parts]
    bound, interval, inside = reduced(shares, window, float(alpha @ Qa), "equality")
    assert bound == pytest.approx(whole, rel=1e-12)
    assert interval == pytest.approx((low, high), abs=1e-12)
    assert inside or width == 0
    assert sum(len(share.h) for share in shares) < problem.n or width == 10.0


def test_a_window_beside_the_best_multiplier_gives_a_bound_all_the_same():
    problem = problems.svc(Gram(X), np.where(Y == 1, 1, -1), C=2.0)
    alpha = problem.project(np.full(problem.n, 0.1))
    Qa = problem.matvec(alpha)
    whole, (low, _) = dual_bound(problem, alpha, Qa)
    window = (low - 3.0, low - 1.0)
    share = share_of(Qa - problem.p, problem.e, problem.upper, window)
    bound, interval, inside = reduced([share], window, float(alpha @ Qa), "equality")
    assert not inside
    assert interval == (window[1], window[1])
    at = float(-0.5 * alpha @ Qa + np.minimum(0, problem.upper * (Qa - 1 - window[1] * problem.e)).sum())
    assert bound == pytest.approx(at, rel=1e-12)
    assert bound < whole


# --- where the rows are --------------------------------------------------------------------------


def test_a_memory_map_stays_in_its_file(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r"), np.load(tmp_path / "y.npy", mmap_mode="r")
    here = CascadeSVC(partitions=4, random_state=0).fit(X, Y)
    there = CascadeSVC(partitions=4, random_state=0).fit(*mapped)
    assert np.array_equal(here.dual_coef_, there.dual_coef_)
    half = CascadeSVC(partitions=4, partitioner="given").fit(mapped[0][100:400], mapped[1][100:400])
    same = CascadeSVC(partitions=4, partitioner="given").fit(X[100:400], Y[100:400])
    assert np.array_equal(half.dual_coef_, same.dual_coef_)
    assert np.array_equal(half.support_, same.support_)
    from dualflow.cascade.partitioning import parts_of

    parts = parts_of(mapped[0][100:400], mapped[1], None, 3, "given", np.random.default_rng(0))
    assert all(len(pickle.dumps(part)) < 1000 for part in parts)  # descriptions, not rows


def test_row_groups_of_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{k}": X[:, k] for k in range(X.shape[1])} | {"label": Y, "w": np.full(len(Y), 2.0)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "data.parquet", row_group_size=200)
    model = CascadeSVC().fit(row_groups(tmp_path / "data.parquet", target="label", weight="w"))
    same = CascadeSVC(C=2.0, partitioner="given", partitions=4).fit(X, Y)
    assert model.certificate_.objective == pytest.approx(same.certificate_.objective, rel=1e-2)
    assert np.array_equal(model.support_vectors_, X[model.support_])
    with pytest.raises(ProblemError, match="has no column"):
        CascadeSVC().fit(row_groups(tmp_path / "data.parquet", target="lable"))
    with pytest.raises(ProblemError, match="cannot be read as parquet"):
        row_groups(tmp_path / "none.parquet", target="label")


class Shifting:
    """A part that returns other rows at each reading."""

    def __init__(self):
        self.times = 0

    def load(self):
        self.times += 1
        return X[:100], Y[:100] + 5 * (self.times > 1)


class Fixed:
    def __init__(self, *columns):
        self.columns = columns

    def load(self):
        return self.columns


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([Shifting()], "must not change"),
        ([Fixed(X, Y), Fixed(X[:, :3], Y)], "features"),
        ([Fixed(X, Y[:5])], "labels"),
        ([Fixed(X, Y), Fixed(X * np.inf, Y)], "part 1: X contains NaN or infinity"),
        ([Fixed(X, np.where(Y == 1, np.nan, 0.0))], "part 0: y contains NaN"),
        ([Fixed(X, Y, np.full(len(Y), np.nan))], "part 0: sample_weight"),
        ([Fixed(X, Y), Fixed(X, Y.astype(str))], "some parts hold numbers"),
        ([Fixed(X, np.zeros(len(Y)))], "single class"),
        ([Fixed(X[:0], Y[:0])], "no rows"),
    ],
)
def test_invalid_parts_are_refused(parts, says):
    with np.errstate(invalid="ignore"), pytest.raises(ProblemError, match=says):
        CascadeSVC().fit(parts)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "ray"}, "engine='ray' is not one of"),
        ({"kernel": "sigmoid"}, "kernel='sigmoid'"),
        ({"kernel": "poly", "coef0": -1.0}, "coef0=-1.0"),
        ({"kernel": "poly", "degree": 2.5}, "degree=2.5"),
        ({"C": np.inf}, "C=inf"),
        ({"partitioner": "chance"}, "partitioner='chance'"),
        ({"partitions": 0}, "partitions=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"fit_intercept": "no"}, "fit_intercept='no'"),
    ],
)
def test_invalid_parameters_are_refused(options, says):
    with pytest.raises(ProblemError, match=says):
        CascadeSVC(**options).fit(X, Y)


def test_a_model_pickles():
    model = CascadeSVC(partitions=3, random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    with pytest.raises(AttributeError, match="certificates_"):
        _ = model.solutions_


# --- engines -----------------------------------------------------------------------------------


def same(one, other):
    """Return whether two models are equal to the bit."""
    names = ("support_", "dual_coef_", "intercept_", "n_iter_")
    alike = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    return alike and one.certificate_.gap == other.certificate_.gap


def test_parts_without_rows_and_many_classes():
    there = CascadeSVC().fit([Fixed(X[:0], Y[:0]), Fixed(X, Y), Fixed(X[:0], Y[:0].astype(object))])
    assert same(there, CascadeSVC(partitions=1, partitioner="given").fit(X, Y))
    names = np.array([f"class {k:02}" for k in range(25)], dtype=object)
    model = CascadeSVC(partitions=2, random_state=0).fit(np.repeat(np.eye(25), 4, axis=0), np.repeat(names, 4))
    assert model.predict(np.eye(25)).tolist() == names.tolist() == model.classes_.tolist()


class Deadly:
    """A part whose reading ends the process a given number of times."""

    def __init__(self, folder, times, k):
        self.folder, self.times, self.k, self.pid = str(folder), times, k, os.getpid()

    def load(self):
        for turn in range(self.times):
            if os.getpid() != self.pid and not os.path.exists(f"{self.folder}/{turn}"):
                open(f"{self.folder}/{turn}", "x").close()
                os._exit(1)
        return X[self.k :: 3], Y[self.k :: 3]


def test_joblib_gives_the_same_bits_and_its_processes_may_die(tmp_path):
    parts = [Fixed(X[k::3], Y[k::3]) for k in range(3)]
    here = CascadeSVC().fit(parts)
    there = CascadeSVC(engine="joblib", n_jobs=2).fit([Deadly(tmp_path, 1, 0), *parts[1:]])
    assert len(list(tmp_path.iterdir())) == 1
    assert same(here, there)
    assert here.rounds_[-1].sent == here.rounds_[-1].received == 0
    # Survivors are sent to each of two processes once a round; other data are small.
    for row in there.rounds_[1:]:
        assert 0 < row.sent + row.received <= 3 * row.survivors * 8 * (X.shape[1] + 1)


def test_processes_that_die_every_time_are_an_error(monkeypatch):
    engine = engines.Joblib([Fixed(X, Y)], 1)
    closed = []

    class Dies:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            closed.append(self)

        def __call__(self, calls):
            raise BrokenProcessPool("gone")

    engine.close()
    engine._parallel, engine._new_pool = Dies(), Dies
    with pytest.raises(EngineError, match=r"died 4 times in one round.*gone"):
        engine.run(None, [None], None)
    assert len(closed) == 4


# --- limits and checkpoints ----------------------------------------------------------------------


def test_a_callback_may_end_it():
    seen = []
    with pytest.warns(ConvergenceWarning, match="callback"):
        model = CascadeSVC(partitions=8, random_state=0, tol=1e-9, callback=lambda row: seen.append(row) or True).fit(
            X, Y
        )
    assert model.rounds_ == seen
    assert len(seen) == 1
    assert model.statuses_ == [Status.STOPPED]
    assert model.certificate_.relative_gap == seen[0].relative_gap


def test_a_time_limit_gives_a_certified_model_or_none(monkeypatch):
    unfitted = CascadeSVC(partitions=8, random_state=0, tol=1e-9, time_limit=1e-6)
    with pytest.raises(FitError, match=r"time_limit=1e-06 was over before a round"):
        unfitted.fit(X, Y)
    assert not unfitted.__sklearn_is_fitted__()

    def over(row):  # from the end of the first round on
        monkeypatch.setattr(
            clock, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 1e6, process_time=time.process_time)
        )

    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = CascadeSVC(partitions=8, random_state=0, tol=1e-9, time_limit=1e5, callback=over).fit(X, Y)
    monkeypatch.undo()
    assert certify(*joint(model, X, Y)).relative_gap == pytest.approx(model.certificate_.relative_gap, rel=1e-6)
    assert model.n_iter_.tolist() == [1]


class Interrupting:
    """Rows that raise KeyboardInterrupt at the n-th reading."""

    def __init__(self, n, k=0):
        self.left, self.k = n, k

    def load(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return X[self.k :: 2], Y[self.k :: 2]


def test_ctrl_c_is_raised_or_keeps_the_best_model_there_is():
    with pytest.warns(ConvergenceWarning, match="Ctrl-C"):  # readings: survey, own solve, first round, second round
        model = CascadeSVC(tol=1e-9, max_invaders=5, on_interrupt="keep").fit([Interrupting(4), Interrupting(0, 1)])
    assert model.statuses_ == [Status.INTERRUPTED]
    assert model.certificate_.relative_gap == model.rounds_[0].relative_gap
    for reads, on_interrupt in ((2, "keep"), (2, "raise"), (4, "raise")):
        unfitted = CascadeSVC(tol=1e-9, max_invaders=5, on_interrupt=on_interrupt)
        with pytest.raises(KeyboardInterrupt):
            unfitted.fit([Interrupting(reads), Interrupting(0, 1)])
        assert not unfitted.__sklearn_is_fitted__()


def test_a_checkpoint_resumes_to_the_same_bits(tmp_path):
    options = {"partitions": 8, "random_state": 0, "tol": 1e-7, "max_invaders": 1}
    whole = CascadeSVC(**options).fit(X, Y)
    assert whole.n_iter_[0] > 3
    with pytest.warns(ConvergenceWarning):
        CascadeSVC(**options, max_steps=2, checkpoint=tmp_path / "run.npz").fit(X, Y)
    resumed = CascadeSVC(**options, checkpoint=tmp_path / "run.npz").fit(X, Y)
    assert same(whole, resumed)
    assert resumed.rounds_[0].step == 3
    # A finished run is only certified again.
    again = CascadeSVC(**options, checkpoint=tmp_path / "run.npz").fit(X, Y)
    assert again.certificate_.relative_gap == pytest.approx(whole.certificate_.relative_gap, rel=1e-6)
    assert len(again.rounds_) == 1
    assert again.n_iter_ == whole.n_iter_


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    CascadeSVC(partitions=3, random_state=0, checkpoint=path).fit(X, Y)
    with pytest.raises(ProblemError, match=r"its C is 1\.0"):
        CascadeSVC(C=2.0, partitions=3, random_state=0, checkpoint=path).fit(X, Y)
    with pytest.raises(ProblemError, match="its data is 'digest"):
        CascadeSVC(partitions=3, random_state=0, checkpoint=path).fit(X + 1e-3, Y)
    with pytest.raises(ProblemError, match="its seed is 0"):
        CascadeSVC(partitions=3, random_state=1, checkpoint=path).fit(X, Y)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ProblemError, match="damaged"):
        CascadeSVC(partitions=3, random_state=0, checkpoint=path).fit(X, Y)


def test_a_checkpoint_with_rows_that_are_not_there_is_refused(tmp_path):
    from dualflow.cascade.checkpoint import RoundsState
    from dualflow.cascade.records import PairState
    from dualflow.driver import checkpoint

    path, options = tmp_path / "run.npz", {"partitions": 3, "random_state": 0}
    with pytest.warns(ConvergenceWarning):
        CascadeSVC(**options, checkpoint=path, max_steps=1, tol=1e-9).fit(X, Y)
    header, _ = checkpoint._read(path)
    sound = checkpoint.load(path, header["key"], RoundsState)
    pair = sound.state.pairs["0"]
    for rows, part, says in (
        (pair.row + 10_000, pair.part, "does not hold the rows"),
        (pair.row, pair.part + 5, "not one of a cascade"),
        (pair.row[::-1], pair.part, "not one of a cascade"),
    ):
        state = PairState(part, rows, pair.alpha, pair.steps, pair.width, pair.own_tol, pair.closed)
        checkpoint.save(checkpoint.Saved(path, RoundsState({"0": state}), 1, 0.0, {}), header["key"])
        with pytest.raises(ProblemError, match=says):
            CascadeSVC(**options, checkpoint=path, tol=1e-9).fit(X, Y)


class Moving:
    """A part whose points change from its third reading on, with the same labels."""

    def __init__(self):
        self.times = 0

    def load(self):
        self.times += 1
        moved = X[::2].copy()
        if self.times > 2:
            moved += 0.5
        return moved, Y[::2]


def test_a_part_whose_points_change_between_two_reads_is_an_error_that_says_so():
    with pytest.raises(ProblemError, match=r"X: a part changed between two reads.*part 0 gives other rows"):
        CascadeSVC(random_state=0).fit([Moving(), Fixed(X[1::2], Y[1::2])])


@pytest.mark.parametrize("engine", [None, "joblib"])
def test_a_part_in_another_order_gets_no_certificate(engine):
    """Its own survey and sweep are consistent, but rows and multipliers belong to different points."""
    with pytest.raises(ProblemError, match=r"part changed between two reads.*part 1 gives other rows"):
        CascadeSVC(engine=engine).fit([Fixed(X[::2], Y[::2]), Shuffled(X[1::2], Y[1::2])])


class Shuffled(Fixed):
    """Rows in another order at each reading."""

    def load(self):
        points, labels = self.columns
        order = np.random.default_rng(int.from_bytes(os.urandom(4), "little")).permutation(len(labels))
        return points[order], labels[order]


def test_the_columns_of_parts_must_have_the_same_names():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    names = [f"c{k}" for k in range(X.shape[1])]
    frame = pandas.DataFrame(X, columns=names)
    parts = [Fixed(frame[::2], Y[::2]), Fixed(frame[1::2], Y[1::2])]
    model = CascadeSVC().fit(parts)
    assert model.feature_names_in_.tolist() == names
    assert same(model, CascadeSVC().fit([Fixed(X[::2], Y[::2]), Fixed(X[1::2], Y[1::2])]))
    parts[1] = Fixed(frame[1::2][[names[1], names[0], *names[2:]]], Y[1::2])
    with pytest.raises(ProblemError, match=r"part 1: column 0 of X is 'c1', but 'c0' in part 0"):
        CascadeSVC().fit(parts)


def test_frames_with_bool_and_nullable_columns():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    whole = np.column_stack([X[:, :2], X[:, 0] > 0, np.rint(X[:, 1]), X[:, 1] > 0.5])
    frame = pandas.DataFrame(whole, columns=list("abcde")).astype(
        {"c": bool, "d": "Int64", "e": "boolean", "b": "Float64"}
    )
    labels = pandas.Series(Y).astype("Int64")
    model = CascadeSVC().fit([Fixed(frame[:300], labels[:300]), Fixed(frame[300:], labels[300:])])
    assert same(model, CascadeSVC().fit([Fixed(whole[:300], Y[:300]), Fixed(whole[300:], Y[300:])]))
    frame.loc[5, "d"] = pandas.NA
    with pytest.raises(ProblemError, match="part 0: X contains NaN"):
        CascadeSVC().fit([Fixed(frame, labels)])
    words = frame.assign(d="text")
    with pytest.raises(ProblemError, match=r"part 0: X does not hold numbers: see the columns 'd'"):
        CascadeSVC().fit([Fixed(words, labels)])
    weight = pandas.Series(np.ones(len(Y))).astype("Float64")
    weight[3] = pandas.NA
    with pytest.raises(ProblemError, match="part 0: sample_weight contains NaN"):
        CascadeSVC().fit([Fixed(whole, Y, weight)])


@pytest.mark.parametrize("missing", [None, float("nan"), "pandas.NA"])
def test_a_label_that_is_missing_is_named(missing):
    words = np.where(Y == 1, "yes", "no").astype(object)
    words[7] = pytest.importorskip("pandas", reason="pip install pandas").NA if missing == "pandas.NA" else missing
    with pytest.raises(ProblemError, match=r"part 1: y has no label in row 7 \(1 of 700 rows\)"):
        CascadeSVC().fit([Fixed(X, np.where(Y == 1, "yes", "no")), Fixed(X, words)])
    words[7] = 3
    with pytest.raises(ProblemError, match=r"part 0: y holds text beside \['int'\]"):
        CascadeSVC().fit([Fixed(X, words)])


def test_sparse_parts_are_read_dense_if_they_fit():
    sparse = pytest.importorskip("scipy.sparse")
    parts = [Fixed(sparse.csr_array(X[k::2]), Y[k::2]) for k in range(2)]
    assert same(CascadeSVC().fit(parts), CascadeSVC().fit([Fixed(X[k::2], Y[k::2]) for k in range(2)]))
    wide = sparse.csr_array((np.ones(len(Y)), (np.arange(len(Y)), np.arange(len(Y)))), shape=(len(Y), 1 << 20))
    with pytest.raises(ProblemError, match=r"part 0: X is sparse.*700 x 1048576.*TruncatedSVD"):
        CascadeSVC().fit([Fixed(wide, Y)])


def test_the_certificate_of_all_parts_counts_what_float64_rounds_away_in_each():
    model = CascadeSVC(partitions=3, random_state=0).fit(X, Y)
    found = model.certificate_
    assert 0 < found.rounding < 1e-9 * abs(found.objective)
    assert found.within(model.tol)
