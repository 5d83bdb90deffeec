"""Species where they are, as large as their α; links of the right sign, bounded and the strongest."""

import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dualflow import SVC, SVDD, SVR, CascadeSVC, EcosystemDisplay, Gram, ProblemError, problems, solve


@pytest.fixture(scope="module")
def moons():
    return make_moons(40, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def solution(moons):
    X, t = moons
    return solve(problems.svc(Gram(X, gamma=1.0), 2.0 * t - 1, C=10.0))


def axes():
    return Figure(layout="constrained").subplots()


def legend_of(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def test_survivors_are_where_they_are_and_as_large_as_their_weight(solution, moons):
    display = EcosystemDisplay.from_solution(solution, ax=axes())
    X, _ = moons
    sigma, alpha = solution.problem.sigma, solution.alpha
    for points, sign in zip(display.survivors_, (-1, 1), strict=True):
        mine = np.intersect1d(solution.support, np.flatnonzero(sigma == sign))
        np.testing.assert_array_equal(np.asarray(points.get_offsets()), X[mine])
        sizes = points.get_sizes()
        assert np.corrcoef(sizes, alpha[mine])[0, 1] > 1 - 1e-9
        assert sizes.min() > display.extinct_.get_sizes().max()
    assert len(display.extinct_.get_offsets()) == 40 - len(solution.support)
    assert display.ax_.get_title() == f"hinge: {len(solution.support)} of 40 survive"
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("first feature", "second feature")


def test_links_are_the_strongest_of_either_sign(solution):
    display = EcosystemDisplay.from_solution(solution, ax=axes(), max_links=12)
    Q, alpha = solution.problem.dense(), solution.alpha
    J = np.sort(solution.support)
    pairs = [(i, j) for k, i in enumerate(J) for j in J[k + 1 :]]
    for sign, drawn, links in zip((1, -1), display.pairs_, display.links_, strict=True):
        press = {(i, j): abs(Q[i, j]) * alpha[i] * alpha[j] for i, j in pairs if sign * Q[i, j] > 1e-12}
        strongest = sorted(press, key=press.get)[-6:]
        assert {tuple(sorted(pair)) for pair in drawn.tolist()} == {(int(i), int(j)) for i, j in strongest}
        segments = np.array(links.get_segments())
        np.testing.assert_array_equal(segments, display.positions_[drawn])
        name = "competition, $Q_{ij}>0$" if sign > 0 else "mutualism, $Q_{ij}<0$"
        assert f"{name}: 6 of {len(press)}" in legend_of(display)
    widths = display.links_[0].get_linewidths()
    assert (np.diff(widths) <= 0).all()
    competing, helping = (tuple(links.get_color()[0]) for links in display.links_)
    assert competing != helping


def test_competition_is_within_a_class_and_mutualism_between(solution):
    display = EcosystemDisplay.from_solution(solution, ax=axes())
    sigma = solution.problem.sigma
    same, other = (sigma[pairs] for pairs in display.pairs_)  # a radial kernel's values are positive
    assert (same[:, 0] == same[:, 1]).all()
    assert (other[:, 0] != other[:, 1]).all()


def test_a_description_only_competes(moons):
    X, _ = moons
    display = EcosystemDisplay.from_estimator(SVDD(nu=0.2).fit(X), ax=axes())
    assert len(display.pairs_[1]) == 0
    assert "mutualism, $Q_{ij}<0$: 0" in legend_of(display)
    assert len(display.survivors_) == 1
    assert not any("class" in text for text in legend_of(display))


def test_text_labels_and_columns(moons):
    import pandas as pd

    X, t = moons
    frame = pd.DataFrame(X, columns=["width", "height"])
    model = SVC(gamma=1.0).fit(frame, np.where(t, "upper", "lower"))
    display = EcosystemDisplay.from_estimator(model, ax=axes())
    assert legend_of(display)[0].startswith("lower: ")
    assert legend_of(display)[1].startswith("upper: ")
    assert display.ax_.get_xlabel() == "width"
    assert legend_of(EcosystemDisplay.from_estimator(SVC().fit(X, t), ax=axes()))[0].startswith("class 0: ")


def test_a_regression_stands_at_its_targets():
    x = np.linspace(0, 6, 20)
    model = SVR(C=10).fit(x[:, None], np.sin(x))
    display = EcosystemDisplay.from_estimator(model, ax=axes())
    np.testing.assert_allclose(display.positions_, np.tile(np.column_stack([x, np.sin(x)]), (2, 1)), atol=1e-12)
    gone = len(display.extinct_.get_offsets())
    rows = np.unique(model.solution_.problem.idx[model.solution_.support])
    assert gone == 2 * (20 - len(rows))
    assert any("above the tube" in text for text in legend_of(display))


def test_more_features_are_principal_components(moons):
    X, y = load_iris(return_X_y=True)
    two = y < 2
    model = SVC().fit(X[two], y[two])
    for fitted in (model, SVC().fit(sp.csr_matrix(X[two]), y[two])):
        display = EcosystemDisplay.from_estimator(fitted, ax=axes())
        centred = X[two] - X[two].mean(axis=0)
        U, s, _ = np.linalg.svd(centred, full_matrices=False)
        np.testing.assert_allclose(np.abs(display.positions_), np.abs(U[:, :2] * s[:2]), atol=1e-7)
        assert "% of variance" in display.ax_.get_xlabel()


@pytest.mark.parametrize("n", [30, 420])
def test_a_kernel_alone_has_coordinates(n):
    X, t = make_moons(n, noise=0.1, random_state=0)
    K = Gram(X, gamma=1.0).full()
    display = EcosystemDisplay.from_estimator(SVC(kernel="precomputed").fit(K, t), ax=axes())
    H = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(H @ K @ H)
    expected = vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])
    np.testing.assert_allclose(np.abs(display.positions_), np.abs(expected), atol=1e-6)
    assert display.ax_.get_xlabel() == "1st coordinate in feature space"


def test_two_points_one_feature_and_no_survivor():
    two = solve(problems.svc(Gram([[0.0], [1.0]], "linear"), [-1, 1]))
    display = EcosystemDisplay.from_solution(two, ax=axes())
    assert np.isfinite(display.positions_).all()
    flat = SVR().fit([[0.0], [1.0], [2.0]], [1.0, 1.0, 1.0])
    display = EcosystemDisplay.from_estimator(flat, ax=axes())
    assert display.survivors_ == []
    assert [len(pairs) for pairs in display.pairs_] == [0, 0]
    display.figure_.draw_without_rendering()


def test_thousands_of_points_have_bounded_links():
    X, t = make_moons(3000, noise=0.4, random_state=0)
    model = SVC(C=0.01).fit(X, t)
    assert len(model.support_) > 500
    display = EcosystemDisplay.from_estimator(model, ax=axes(), max_links=20)
    assert [len(pairs) for pairs in display.pairs_] == [10, 10]
    assert any("of the 500 largest" in text for text in legend_of(display))
    assert not EcosystemDisplay.from_estimator(model, ax=axes(), max_links=0).pairs_[0].size


def test_an_indefinite_kernel_has_links_of_its_signs(moons):
    X, t = moons
    found = solve(problems.svc(Gram(X, "sigmoid", gamma=1.0, coef0=-1.0), 2.0 * t - 1), "smo")
    display = EcosystemDisplay.from_solution(found, ax=axes())
    Q = found.problem.dense()
    for sign, pairs in zip((1, -1), display.pairs_, strict=True):
        assert (sign * Q[pairs[:, 0], pairs[:, 1]] > 0).all()


def test_raw_and_refined_are_told_apart():
    X, _ = make_moons(8, noise=0.1, random_state=0)
    ball = problems.svdd(Gram(X, gamma=0.5))
    found = solve(ball, "variational-flow", device="emulator", shots=200, max_steps=3, refine=True)
    refined = EcosystemDisplay.from_solution(found, ax=axes())
    raw = EcosystemDisplay.from_solution(found, raw=True, ax=axes())
    title, said = refined.ax_.get_title().split("\n", 1)
    assert title == f"svdd, refined: {len(found.support)} of 8 survive"
    assert said.split() == found.raw_summary().split()
    assert raw.ax_.get_title().startswith("svdd, raw: ")
    np.testing.assert_array_equal(raw.alpha, found.raw_alpha)
    np.testing.assert_array_equal(refined.alpha, found.alpha)


def test_what_cannot_be_drawn_is_told(moons):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ProblemError, match=r"3 solutions.*from_solution\(model\.solutions_\[0\]\)"):
        EcosystemDisplay.from_estimator(SVC().fit(X, y))
    with pytest.raises(ProblemError, match="give its model"):
        EcosystemDisplay.from_estimator(make_pipeline(SVC()))
    with pytest.raises(NotFittedError):
        EcosystemDisplay.from_estimator(SVC())
    with pytest.raises(ProblemError, match="CascadeSVC has no solutions_"):
        EcosystemDisplay.from_estimator(CascadeSVC().fit(*moons))
    with pytest.raises(ProblemError, match="found int"):
        EcosystemDisplay.from_solution(3)
    model = SVC().fit(*moons)
    for wrong in (-1, 2.5, True):
        with pytest.raises(ProblemError, match="max_links"):
            EcosystemDisplay.from_estimator(model, max_links=wrong)


def test_the_legend_covers_no_data(solution):
    display = EcosystemDisplay.from_solution(solution, ax=axes())
    display.figure_.draw_without_rendering()
    assert not display.legend_.get_window_extent().overlaps(display.ax_.get_window_extent())
    assert EcosystemDisplay.from_solution(solution, ax=axes(), legend=False).legend_ is None


def test_of_many_variables_a_sample_is_drawn():
    X = np.random.default_rng(0).normal(size=(9000, 3))
    y = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, 1.0, -1.0)
    solution = solve(problems.svc(Gram(X, "linear"), y, C=1.0), "gradient-flow")
    display = EcosystemDisplay.from_solution(solution, ax=axes())
    drawn, counts = display.drawn_, [len(one.get_offsets()) for one in (*display.survivors_, display.extinct_)]
    assert 5000 <= len(drawn) == sum(counts) <= 5000 + 2 * 40
    assert np.isin(np.concatenate(display.pairs_).ravel(), drawn).all()
    assert f"{len(drawn)} of 9000 are drawn" in legend_of(display)
    assert sum(counts[:2]) == np.isin(solution.support, drawn).sum()
    assert display.ax_.get_title() == f"hinge: {len(solution.support)} of 9000 survive"
