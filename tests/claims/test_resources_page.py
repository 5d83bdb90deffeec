"""The page on resources, and the sentences in the solvers' docstrings, are what counting gives."""

import importlib.util
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from dualflow.solvers import SOLVERS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "resources.md").read_text(encoding="utf-8")
QUANTUM = [name for name in SOLVERS.targets if SOLVERS.find(name).quantum]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e\d+)?")


def numbers_of(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("resource_table", DOCS / "resource_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", QUANTUM)
def test_a_solver_s_part_of_the_page_is_the_one_that_is_made(maker, name):
    made_with = re.search(r"Qiskit (\d+\.\d+)", PAGE)[1]
    if not version("qiskit").startswith(f"{made_with}."):
        pytest.skip(f"the page was made with Qiskit {made_with}; others write circuits out in other gates")
    made, said = maker.section(name).strip(), re.search(rf"^## {name}\n.*?(?=^## |\Z)", PAGE, re.M | re.S)[0].strip()
    if name in ("hhl", "quantum-interior-point"):
        # Its exponentials are synthesised from dense matrices: which gates cancel hangs on last bits of a processor.
        assert numbers_of(made) == pytest.approx(numbers_of(said), rel=1e-3)
        made, said = NUMBER.sub("#", made), NUMBER.sub("#", said)
    assert made == said, "run python docs/resource_table.py"


@pytest.mark.parametrize("name", QUANTUM)
def test_the_sentence_of_a_docstring_is_that_of_the_page(maker, name):
    source = maker.source_of(name).read_text(encoding="utf-8")
    said = maker.sentence(PAGE, name)
    assert maker.with_sentence(source, said) == source, "run python docs/resource_table.py"
    assert said in " ".join(SOLVERS.find(name).__doc__.split())
    # A figure that somebody changes in either is seen.
    assert maker.with_sentence(source.replace("a circuit at n = ", "a circuit at n = 1"), said) == source
    assert maker.with_sentence(source, said.replace(" CX", "0 CX", 1)) != source


def test_a_page_without_a_solver_and_a_class_without_parameters_are_errors(maker):
    with pytest.raises(SystemExit, match="no part on nobody"):
        maker.sentence(PAGE, "nobody")
    with pytest.raises(SystemExit, match="no section of parameters"):
        maker.with_sentence("class A: pass", "x")


def test_models_are_labelled():
    rows = [line for line in PAGE.splitlines() if re.match(r"\| [\d,]+ \|", line)]
    assert len(rows) > 60
    for row in rows:
        n, label = (cell.strip() for cell in row.split("|")[1:3])
        assert label == ("model" if int(n.replace(",", "")) >= 1000 else "counted")
