"""The page on hardware: its Python runs where it needs no account, and its table is what estimates say."""

import re
from pathlib import Path

import pytest
from sklearn.datasets import make_moons

from dualflow import Gram, estimate, problems
from dualflow.planning.estimate import duration_text
from dualflow.quantum.devices import Price
from dualflow.quantum.devices.emulator import EmulatorDevice

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hardware.md"


class ByTheFormula(EmulatorDevice):
    """2 s a job and 250 µs a shot."""

    name, remote = "formula", True

    def _submit(self, *_):
        raise AssertionError("an estimate sent a job")

    def price(self, circuit, circuits, shots):
        return Price(2.0 + 250e-6 * circuits * shots)


def test_the_python_that_needs_no_account_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (names["forecast"].circuits, names["forecast"].shots, names["forecast"].fixed) == (41, 410_000, True)
    assert names["rehearsal"].cost.circuits == 6 + 2


def test_its_table_is_what_estimates_say():
    rows = re.findall(
        r"^\| `([\w-]+)`(?:, `ansatz=\"([\w-]+)\"`)? \| (\d+) \| ([\d,]+) \| (.+) \|$", PAGE.read_text(), re.M
    )
    assert len(rows) == 5
    for solver, ansatz, n, circuits, time in rows:
        X, t = make_moons(int(n), noise=0.1, random_state=1)
        posed = problems.svc(Gram(X), 2.0 * t - 1, C=10.0, loss="squared_hinge")
        found = estimate(posed, solver, ByTheFormula(), shots=10_000, **({"ansatz": ansatz} if ansatz else {}))
        assert (f"{found.circuits:,}", duration_text(found.qpu_seconds)) == (circuits, time)


def test_the_printed_estimate_of_a_fake_ibm_machine():
    """All lines but gates and the circuit's microseconds, which depend on the version of Qiskit's compiler."""
    pytest.importorskip("qiskit_ibm_runtime", reason="pip install 'dualflow[ibm]'")
    shown = re.search(r"```text\n(variational-flow.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
    X, t = make_moons(16, noise=0.1, random_state=1)
    posed = problems.svc(Gram(X), 2.0 * t - 1, C=10.0, loss="squared_hinge")
    found = str(estimate(posed, "variational-flow", "ibm:fake_prague", shots=10_000))

    def lines(text):
        kept = [line for line in text.splitlines() if "largest circuit" not in line]
        return [re.sub(r"[\d.]+ µs of circuit", "µs of circuit", line) for line in kept]

    assert lines(found) == lines(shown)


def test_it_is_linked_from_the_readme_and_the_other_pages():
    root = PAGE.parents[2]
    for page in ("README.md", "docs/how-to/index.md", "docs/resource_table.py"):
        assert "hardware.md)" in (root / page).read_text(encoding="utf-8"), page
