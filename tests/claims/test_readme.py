"""The README's Python runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons

README = Path(__file__).parents[2] / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(60, noise=0.05, random_state=0)
    X16, y16 = make_moons(16, noise=0.1, random_state=1)
    names = {"X": X, "y": 2 * y - 1, "Z": X[:5], "X16": X16, "y16": y16, "any_alpha": np.ones(60)}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["clf"].certificate_.relative_gap <= 1e-6
    assert names["solution"].raw_certificate.relative_gap <= 1e-6
    assert names["model"].certificate_.relative_gap <= 1e-9
    assert len(names["model"].ids_) == 58
    assert (tmp_path / "run.npz").exists()


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", ".ci/run", ".ci/long"])
def test_the_usual_files_are_there(name):
    assert (README.parent / name).read_text(encoding="utf-8").strip()
