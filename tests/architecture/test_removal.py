"""Removing a solver touches its file, a line of the catalogue and its circuit family, and nothing else."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dualflow
from dualflow.solvers.registry import solver_names

SOURCE = Path(dualflow.__file__).parent
ROOT = Path(__file__).parents[2]
#: Where the files of `hhl` are, all of that name.
FILES = ["quantum/circuits/hhl.py", "quantum/solvers/hhl.py"]
#: The solver that is made of its circuits, and goes with it.
BUILT_ON_IT = "quantum-interior-point"

USE = """
import importlib, json, pkgutil
import dualflow
from dualflow.quantum.circuits.export import families

def walk(package):
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(info.name)

walk(dualflow)
rows = dualflow.list_solvers()
problem = dualflow.problems.svdd(dualflow.Gram([[0.0], [1.0], [3.0]]))
print(json.dumps({
    "where": dualflow.__file__,
    "solvers": [row.name for row in rows],
    "not installed": [row.install for row in rows if row.install],
    "public": [name for name in dualflow.__all__ if not hasattr(dualflow, name)],
    "families": [family.family for family in families()],
    "gaps": [
        dualflow.solve(problem, "smo").certificate.relative_gap,
        dualflow.solve(problem, "variational-flow", device="emulator").certificate.relative_gap,
    ],
}))
"""


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """A copy of the source tree in which `hhl`, and what is built on it, never was."""
    tree = tmp_path_factory.mktemp("tree")
    package = tree / "src" / "dualflow"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert sorted(str(path.relative_to(package)) for path in package.rglob("hhl.py")) == FILES
    for name in [*FILES, f"quantum/solvers/{BUILT_ON_IT.replace('-', '_')}.py"]:
        (package / name).unlink()
    catalogue = package / "catalogue.py"
    line = rf'^    "(hhl|{BUILT_ON_IT})": .*\n'
    text, lines = re.subn(line, "", catalogue.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert lines == 2
    catalogue.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def test_nothing_else_names_it(without):
    named = [path.name for path in without.rglob("*.py") if re.search("hhl", path.read_text(encoding="utf-8"), re.I)]
    assert named == []


@pytest.mark.slow
def test_all_the_rest_works(without):
    if any(importlib.util.find_spec(name) is None for name in ("qiskit", "qiskit_aer", "pennylane")):
        pytest.skip("the quantum rooms need qiskit, qiskit-aer and pennylane")
    code = subprocess.run(
        [sys.executable, "-c", USE],
        env=os.environ | {"PYTHONPATH": str(without / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert code.returncode == 0, code.stderr
    found = json.loads(code.stdout)
    assert found["where"].startswith(str(without))
    assert found["solvers"] == [name for name in solver_names() if name not in ("hhl", BUILT_ON_IT)]
    assert found["public"] == []
    assert found["not installed"] == [row.install for row in dualflow.list_solvers() if row.install]
    assert "hhl" not in found["families"]
    assert len(found["families"]) > 5
    assert max(found["gaps"]) <= 1e-6


def test_the_floors_hold(without):
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed; it comes with pip install 'dualflow[dev]'")
    code = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports; "
    code += "sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=without, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
