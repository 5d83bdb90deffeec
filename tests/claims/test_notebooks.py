"""Every notebook runs from top to bottom, by its own assertions, and says its question and its limits."""

import re
from itertools import pairwise
from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.manager import KernelManager

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


#: Notebooks that take 15 s to minutes; tests of the rooms check what they show on smaller data.
SLOW = {
    "amplitude_encoding_euler",
    "bauckhage_figure_1",
    "beginners_2_ecosystem",
    "beginners_4_which_solver",
    "beginners_5_quantum_simulator",
    "beginners_6_hardware_without_fear",
    "beginners_7_write_a_solver",
    "carleman_convergence",
    "grover_worst_violator",
    "gradient_variance",
    "mean_field_copies",
    "papers",
    "pareto_front",
    "schrodingerisation_lchs",
    "shots_noise_depth",
    "variational_flow",
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_says_its_question_and_its_limits(path):
    cells = nbformat.read(path, as_version=4).cells
    for words in ("# ", "**Question.**", "**Measured**:", "**Control"):
        assert words in cells[0].source, f"{path.name} begins without {words!r}"
    for words in ("## What holds, and what does not", "**Holds**:", "Next: "):
        assert words in cells[-1].source, f"{path.name} ends without {words!r}"
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}, which is missing"


def test_the_index_has_the_notebooks_in_their_order():
    index = (NOTEBOOKS[0].parents[1] / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    order = re.findall(r"^\| `(\w+)` \|", index, flags=re.MULTILINE)
    assert sorted(order) == [path.stem for path in NOTEBOOKS]
    for name, after in pairwise(order):
        last = nbformat.read(NOTEBOOKS[0].with_name(f"{name}.ipynb"), as_version=4).cells[-1].source
        assert f"Next: [{after}]({after}.ipynb)" in last, f"{name} does not name {after} as the next notebook"


@pytest.fixture(scope="module")
def kernel():
    """One process for all notebooks: it imports NumPy, Matplotlib and the rest once, two seconds of each otherwise."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in NOTEBOOKS],
)
def test_notebook_runs(path, kernel):
    notebook = nbformat.read(path, as_version=4)
    # No name of the notebook before it: what one uses, it has imported.
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -s -f"))
    client = nbclient.NotebookClient(notebook, km=kernel, timeout=240)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
    assert any(cell.get("outputs") for cell in notebook.cells)
