"""The benchmark of probabilities: its verdicts, and its measure of calibration."""

import numpy as np
import pytest

from benchmarks.classical import probabilities


def lines(loss, seconds):
    """Two tables: our log loss and scikit-learn's 0.5, and the seconds of its five folds."""
    found = []
    for table in ("a", "b"):
        for entrant in (*probabilities.entrants(1.0), "isotonic", "venn-abers"):
            is_ours, is_folds = entrant == probabilities.OURS, entrant == probabilities.FOLDS
            own = loss if is_ours else 0.5
            found.append(
                {
                    "table": table,
                    "entrant": entrant,
                    "log_loss": own,
                    "calibration_error": own,
                    "seconds": 1.0 if is_ours else seconds if is_folds else 2.0,
                }
            )
    return found


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lines(0.4, 21.0), [True, True, True]),
        (lines(0.6, 21.0), [False, False, True]),
        (lines(0.5, 19.0), [True, True, False]),
    ],
)
def test_verdicts(found, expected):
    assert [verdict.passed for verdict in probabilities.judge(found) if verdict.kind == "must"] == expected


def test_calibration_error():
    p = np.array([[0.8, 0.2]] * 10)
    right = np.array([0] * 8 + [1] * 2)
    assert probabilities.calibration_error(p, right) == pytest.approx(0.0)
    assert probabilities.calibration_error(p, 1 - right) == pytest.approx(0.6)


@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_a_table_has_a_row_for_each_entrant(tmp_path):
    class Options:
        csv = None

    table = probabilities.Rows("classical/probabilities_rows", Options())
    X = np.random.default_rng(0).normal(size=(60, 2))
    probabilities.run(table, "small", X, (X[:, 0] > 0).astype(int), 1)
    assert [line["entrant"] for line in table.lines] == [
        "sigmoid", "isotonic", "venn-abers", "SVC(probability=True)", "5 folds of SVC", "5 folds of dualflow's SVC",
    ]  # fmt: skip
    assert all(np.isfinite(line["seconds"]) for line in table.lines)
