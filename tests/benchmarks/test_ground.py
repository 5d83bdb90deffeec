"""The verdicts of `benchmarks.classical.ground`: no cell is lost, whatever became of its fit."""

import sys

import pytest

from benchmarks.classical import ground


def cell_of(monkeypatch, capsys, ours, theirs):
    """The exit code and text of a run over one cell, with these seconds for ours and for the peer."""
    results = {"dualflow": ours, "scikit-learn": theirs}
    monkeypatch.setattr(ground, "models", lambda cell: {name: name for name in results})
    monkeypatch.setattr(ground, "timed", lambda model, X, y, limit: results[model])
    monkeypatch.setattr(sys, "argv", ["ground", "--some", "1", "--limit", "10"])
    return ground.main(), capsys.readouterr().out


@pytest.mark.parametrize("ours", [(float("nan"), float("nan"), "an error"), (12.0, float("nan"), "past the limit")])
def test_a_fit_without_a_result_counts_as_the_limit(monkeypatch, capsys, ours):
    code, text = cell_of(monkeypatch, capsys, ours, (5.0, float("nan"), ""))
    assert code == 1
    assert "FAIL (must) ground: ratio to the faster peer 0.5 ×" in text
    assert "FAIL (must) ground: cells past the limit that a peer ends in 1," in text


def test_a_fast_certified_cell_passes(monkeypatch, capsys):
    code, text = cell_of(monkeypatch, capsys, (1.0, 1e-12, ""), (5.0, float("nan"), ""))
    assert code == 0, text
    assert "PASS (must) ground: geometric mean of the ratios 5 ×" in text


def test_cells_follow_from_the_seed_and_stay_in_the_space():
    cells = ground.drawn(3, 50)
    assert cells == ground.drawn(3, 50) != ground.drawn(4, 50)
    assert all(ground.MIN_POINTS <= c.n <= ground.MAX_POINTS and c.n * c.d <= ground.MAX_NUMBERS for c in cells)
