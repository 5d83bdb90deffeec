"""The page on quantum solvers: a section for each, what every one of them says, and its figures from what is kept."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import dualflow
from dualflow.solvers.registry import solver_class

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "quantum.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE))
QUANTUM = [info.name for info in dualflow.list_solvers() if info.quantum]
SOLVERS = ("descent", "adiabatic")
SAYS = ("Encoding", "Read-out", "Classically", "Literature")


def test_every_quantum_solver_has_its_section_and_nobody_else():
    general, *names = SECTIONS
    assert general == "What holds for all"
    assert sorted(names) == sorted(QUANTUM)


@pytest.mark.parametrize("name", QUANTUM)
def test_a_section_says_what_an_expert_asks_for(name):
    text = SECTIONS[name]
    assert [head for head in re.findall(r"^\*\*(.+?)\.\*\*", text, flags=re.MULTILINE) if head in SAYS] == [*SAYS]
    # Somebody can be looked up: an arXiv number, a journal with volume and page, or a conference.
    literature = text.split("**Literature.**")[1]
    assert re.search(r"arXiv:\d{4}\.\d{4,5}|quant-ph/\d{7}|[A-Z][\w.]* \d+, \d+", literature)
    assert re.search(r"ε²|widths of the box", text.split("**Read-out.**")[1].split("**Classically.**")[0])


@pytest.mark.parametrize("name", QUANTUM)
def test_a_study_is_called_one(name):
    study = solver_class(name).maturity == "study"
    assert study == ("(a study)" in solver_class(name).summary())
    assert study == SECTIONS[name].startswith("A study. ")


def test_links_lead_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", PAGE):
        assert (DOCS / "explanation" / target).exists(), target


def test_figures_of_the_box_solvers_are_those_of_the_run_that_is_kept():
    kept = DOCS.parent / "benchmarks" / "results" / "quantum" / "hamiltonian_descent.csv"
    with kept.open(newline="", encoding="utf-8") as file:
        lines = {(line["what"], line["measure"]): line for line in csv.DictReader(file)}
    said = " ".join(SECTIONS["hamiltonian-descent"].split())
    for measure, before in (
        ("circuits, as a share of the best corner's", "a third of the corner's circuits in"),
        ("the mean field's evaluations, as a share of the circuits", "no more evaluations than the circuit in"),
    ):
        found = []
        for n in (8, 16):
            descent, adiabatic = (lines[f"hamiltonian-{x}, n = {n}, blocks of 8", measure] for x in SOLVERS)
            found.append(f"{descent['good']} and {adiabatic['good']} of {descent['cells']}")
        assert re.search(f"{before} {found[0]}, and in {found[1]}", said), found
        summary = " ".join(dualflow.HamiltonianDescent.__doc__.split())
        assert all(one.split(" and ")[0] in summary for one in found)


def test_what_it_says_of_reading_out():
    """The expected distance of counts from their distribution: at most √(n/N), and near it where that is uniform."""
    rng, n, shots = np.random.default_rng(0), 256, 10_000
    assert "at most √(n/N), 0.16 for n = 256" in " ".join(PAGE.split())
    assert round(np.sqrt(n / shots), 2) == 0.16
    for mu in (np.full(n, 1 / n), rng.dirichlet(np.full(n, 0.1))):
        found = np.abs(rng.multinomial(shots, mu, size=200) / shots - mu).sum(axis=1)
        assert found.mean() <= np.sqrt(n / shots)
    assert np.abs(rng.multinomial(shots, np.full(n, 1 / n), size=200) / shots - 1 / n).sum(axis=1).mean() > 0.12
