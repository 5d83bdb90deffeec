"""What circuits take, over n: `python docs/resource_table.py` writes the tables.

They are docs/reference/resources.md; the docstring of each quantum solver gets the sentence that comes from its table.

Points are two moons; circuits depend on how many there are, `hhl`'s on their kernel too.
"""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version
from pathlib import Path
from textwrap import fill

from sklearn.datasets import make_moons

from dualflow import DualProblem, Gram, Kind, ResourceTable, problems, resources
from dualflow.quantum.circuits import clifford_t, surface_code
from dualflow.solvers import SOLVERS

PAGE = Path(__file__).parent / "reference" / "resources.md"
#: The paragraph of a docstring begins with this, and stands before its parameters.
MARK = "Counted (docs/reference/resources.md, 10 000 shots a circuit): "
SIZES = (4, 8, 16, 32, 64, 128, 256)
#: Solvers whose page has another size as its largest, since it takes Qiskit long to write their circuits out.
FEWER = {
    "hamiltonian-schrodingerisation": SIZES[:5],
    "hamiltonian-lchs": SIZES[:5],
    "hamiltonian-descent": SIZES[1:4],
    "hamiltonian-adiabatic": SIZES[1:4],
    "quantum-interior-point": SIZES[:5],
}
#: Solvers that take kernels of low rank only.
LOW_RANK = ("quantum-interior-point",)
#: Options that have a table of their own.
VARIANTS = {"variational-flow": ({"ansatz": "hardware-efficient"},)}

INTRO = """# What circuits take

The tables are made by `python docs/resource_table.py`. `dualflow.resources(problem, solver)` makes one for your own
problem, and `dualflow.estimate` predicts a run on hardware ([hardware](../how-to/hardware.md)).

**Counted**: the largest circuit of a run, built, and written out in CX, RZ, √X and X with every qubit next to every
other, not optimised (Qiskit {qiskit}); circuits and shots of a whole run with 10 000 shots a circuit, by the solver's
own rules. With a fixed number of shots a circuit, the answer for a larger n is noisier.

**Model**, where the table says so: CX, depth, rotations and circuits each as a constant and a power of n through the
three largest sizes counted, qubits as a multiple of log₂ n. None of these was run.

**Model at every size**: *T*, the T gates of a shot. A rotation takes 3 log₂(1/ε) of them (Ross and Selinger, Quantum
Inf. Comput. 16, 901 (2016)), ε = {error:g} over the rotations of the circuit. *Physical qubits* and *time*: a surface
code after Litinski (Quantum 3, 128 (2019)), physical error rate {physical:g}, code cycle {cycle:g} µs, one T gate
after another, one distillation block, at most a probability {failure:g} that a shot fails by its tiles; all shots
one after another on one machine. The steps of a solver are sequential; the shots of a step could run in parallel.

No quantum advantage is claimed, and these tables show why: `working-set` solves n = 10 000 in seconds.
"""


def posed(name: str) -> DualProblem:
    """Two moons as a problem that a solver takes: with a linear kernel where it needs a low rank, else a radial one."""
    X, t = make_moons(64, noise=0.1, random_state=0)
    kinds, kernel = SOLVERS.find(name).kinds, "linear" if name in LOW_RANK else "rbf"
    gram, y = Gram(X, kernel), 2.0 * t - 1
    if Kind.BOX_EQUALITY in kinds:
        return problems.svc(gram, y, C=10.0)
    if Kind.SIMPLEX in kinds:
        return problems.svc(gram, y, C=10.0, loss="squared_hinge")
    return problems.least_squares(gram, y, C=10.0)


def names() -> list[str]:
    """All quantum solvers, in the order of the catalogue."""
    return [name for name in SOLVERS.targets if SOLVERS.find(name).quantum]


def table(name: str, **options: object) -> ResourceTable:
    """Of a solver with its default options, and 10 000 shots."""
    return resources(posed(name), name, sizes=FEWER.get(name, SIZES), **options)


def section(name: str) -> str:
    """A solver's part of the page."""
    parts = [f"## {name}", "", *_shown(table(name))]
    for options in VARIANTS.get(name, ()):
        said = ", ".join(f'{option}="{value}"' for option, value in options.items())
        parts += ["", f"With `{said}`:", "", *_shown(table(name, **options))]
    return "\n".join(parts)


def _shown(found: ResourceTable) -> list[str]:
    lines = [found.header(), ("---",) * len(found.header()), *found.cells()]
    return [found.sentence(), "", *(f"| {' | '.join(line)} |" for line in lines)]


def page() -> str:
    """The whole of it."""
    intro = INTRO.format(
        qiskit=".".join(version("qiskit").split(".")[:2]),
        error=clifford_t.SYNTHESIS_ERROR,
        physical=surface_code.PHYSICAL_ERROR,
        cycle=1e6 * surface_code.CYCLE_S,
        failure=surface_code.MAX_FAILURE_PROBABILITY,
    )
    return "\n".join([intro, *(section(name) + "\n" for name in names())])


def sentence(text: str, name: str) -> str:
    """The first sentence of a solver's part of a page."""
    found = re.search(rf"^## {re.escape(name)}\n\n(.+)$", text, flags=re.MULTILINE)
    if found is None:
        raise SystemExit(f"{PAGE.name} has no part on {name}; run python docs/resource_table.py")
    return found[1]


def source_of(name: str) -> Path:
    """The file of a solver's class."""
    return Path(inspect.getfile(SOLVERS.find(name)))


def with_sentence(source: str, said: str) -> str:
    """Return a solver's file with the sentence in the docstring of its class, the last one with parameters."""
    paragraph = fill(MARK + said, 120, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    without = re.sub(rf"    {re.escape(MARK)}.*?\n\n", "", source, flags=re.DOTALL)
    # The solver's class is the last one with parameters: what it steps comes before it.
    made, count = re.subn(
        r"(?s)(.*)(\n    Parameters\n    -{10}\n)", lambda at: f"{at[1]}\n{paragraph}\n{at[2]}", without, count=1
    )
    if count != 1:
        raise SystemExit("a solver's class has no section of parameters")
    return made


if __name__ == "__main__":
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    for name in names():
        path = source_of(name)
        path.write_text(with_sentence(path.read_text(encoding="utf-8"), sentence(text, name)), encoding="utf-8")
