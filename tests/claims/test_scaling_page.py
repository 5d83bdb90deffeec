"""The page on scaling: its tables are those of what is kept, and the model says what was measured."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def model():
    spec = importlib.util.spec_from_file_location("scaling_model", DOCS / "scaling_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_rows_that_are_kept(model):
    text = model.PAGE.read_text(encoding="utf-8")
    assert model.written(text) == text, "run python docs/scaling_model.py"
    with pytest.raises(SystemExit, match="has no table 'measured'"):
        model.written("no marks")


def test_what_was_held_out_is_predicted(model):
    found = model.held_out(model.read())
    assert {name for name, *_ in found} >= {"classification"}
    for _, _, what, said, was in found:
        assert 0.5 < said / was < 2.0, what


def test_a_law_that_is_known_is_found(model):
    rows = [
        {
            "n": str(n),
            "support_vectors": str(0.1 * n**0.9),
            "first_points": str(0.2 * n**0.9),
            "rounds": "2",
            "sweeps": str(2 * n * 0.1 * n**0.9 * 20),
            "solves": str(2 * 0.02 * n**1.8 * 20),
            "solve_cpu_s": str(3e-9 * 2 * 0.02 * n**1.8 * 20),
            "cpu_s": str(3e-9 * 2 * 0.02 * n**1.8 * 20 + 2e-10 * 2 * n * 0.1 * n**0.9 * 20),
        }
        for n in (1000, 3000, 9000)
    ]
    found = model.Model(rows, 20)
    assert found.survivors == pytest.approx((0.1, 0.9))
    assert (found.sweep, found.solve) == pytest.approx((2e-10, 3e-9))
    here, there = found.at(1e6), found.at(1e6, workers=10)
    assert (
        here["parts_s"] == pytest.approx(10 * there["parts_s"]) == pytest.approx(2e-10 * 2 * 1e6 * 0.1 * 1e6**0.9 * 20)
    )
    assert here["alone_s"] == there["alone_s"]
    assert there["moved_gb"] / here["moved_gb"] == pytest.approx(7.0)
    assert [model.lasts(x) for x in (1.0, 300.0, 7e3, 3e5, 1e9)] == ["1 s", "5 min", "120 min", "3.5 days", "32 years"]
