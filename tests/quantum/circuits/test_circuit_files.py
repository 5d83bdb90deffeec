"""The committed circuits against a new export, the builders, and every simulator."""

import hashlib
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import qiskit
from qiskit import QuantumCircuit, qasm3, qpy
from qiskit.circuit import ParameterVector
from qiskit.circuit.library import PauliEvolutionGate, UCRYGate
from qiskit.quantum_info import Operator, SparsePauliOp
from typer.testing import CliRunner

from dualflow import Gram, ProblemError, SolverUnavailable, cli, list_solvers, problems
from dualflow.quantum import circuits
from dualflow.quantum.circuits import ParametricCircuit, TreeCircuit, export, resources
from dualflow.quantum.circuits.encoding import reverse_bits
from dualflow.quantum.circuits.fidelity import zz_steps
from dualflow.quantum.circuits.select import SelectCircuit
from dualflow.quantum.devices import make_device

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "circuits"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
NAMES = list(MANIFEST["circuits"])


@dataclass(frozen=True, eq=False)
class Bound(ParametricCircuit):
    """A circuit from a file with bound values, as devices run it."""

    name: str = ""
    circuit: Any = None
    n_parameters: ClassVar[int] = 0

    def _build(self):
        return self.circuit


@dataclass(frozen=True)
class Entry:
    """A circuit of a manifest and its files."""

    folder: Path
    name: str

    @cached_property
    def said(self) -> dict:
        return json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))["circuits"][self.name]

    def path(self, kind: str) -> Path:
        return self.folder / self.said["files"][kind]["path"]

    @cached_property
    def builder(self) -> ParametricCircuit:
        module, _, kind = self.said["builder"].rpartition(".")
        return getattr(importlib.import_module(module), kind)(**self.said["arguments"])

    @cached_property
    def loaded(self) -> QuantumCircuit:
        with self.path("qpy").open("rb") as file:
            [circuit] = qpy.load(file)
        return circuit

    @property
    def angles(self) -> np.ndarray:
        return np.array(self.said["example"]["angles"], dtype=float)

    @property
    def values(self) -> np.ndarray:
        return np.array(self.said["example"]["values"], dtype=float)

    @property
    def distribution(self) -> np.ndarray:
        return np.array(self.said["example"]["distribution"])

    def bound(self) -> QuantumCircuit:
        return self.loaded.assign_parameters(self.values)


# --- checks of every circuit, also of new families -------------------------------------------------------


def check_files(entry):
    for kind in ("qasm", "qpy"):
        path = entry.path(kind)
        assert path == entry.folder / entry.builder.family / f"{entry.name}.{kind}"
        assert entry.said["files"][kind]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    # QPY 13 by Qiskit 2.0: no Qiskit 2 warns that the file is newer than itself.
    assert entry.path("qpy").read_bytes()[:10] == b"QISKIT" + bytes([13, 2, 0, 0])


def check_manifest(entry):
    said, builder, circuit = entry.said, entry.builder, entry.loaded
    assert builder.name == entry.name == circuit.name
    assert said["family"] == builder.family
    assert said["qubits"] == builder.n_qubits == circuit.num_qubits
    assert said["n_parameters"] == builder.n_parameters == len(said["parameters"]) == len(entry.angles)
    assert said["parameters"] == [parameter.name for parameter in circuit.parameters]
    assert said["depth"] == circuit.depth()
    assert said["gates"] == dict(circuit.count_ops())
    assert said["two_qubit_gates"] == sum(len(instruction.qubits) == 2 for instruction in circuit.data)
    assert said["bit_order"] == "little"


def check_qpy(entry):
    written = export.elementary(entry.builder.build())
    if entry.loaded != written:
        # Another version may take other angles for the same unitary: Qiskit 2.0 for qhd_q8, SciPy 1.14 for hhl.
        manifest = json.loads((entry.folder / "manifest.json").read_text(encoding="utf-8"))
        assert qiskit.__version__ != manifest["written_with"]["qiskit"]
        check_unitary(entry)
    assert list(entry.loaded.parameters) == list(written.parameters) == list(entry.builder.build().parameters)
    assert (written is entry.builder.build()) == (set(entry.builder.build().count_ops()) <= set(export.PENNYLANE))


def check_unitary(entry):
    assert entry.builder.n_qubits <= 8
    built = export.elementary(entry.builder.build()).assign_parameters(entry.builder.gate_parameters(entry.angles))
    np.testing.assert_allclose(Operator(entry.bound()).data, Operator(built).data, rtol=0, atol=1e-12)


def check_qasm(entry):
    text = entry.path("qasm").read_text(encoding="utf-8")
    assert re.findall(r"^input float\[64\] (\w+);$", text, re.M) == entry.said["parameters"]
    if importlib.util.find_spec("qiskit_qasm3_import") is None:
        pytest.skip("qiskit-qasm3-import is not installed; it comes with pip install 'dualflow[test]'")
    loaded = qasm3.loads(text)
    assert [parameter.name for parameter in loaded.parameters] == entry.said["parameters"]
    ours, theirs = (Operator(circuit.assign_parameters(entry.values)).data for circuit in (entry.loaded, loaded))
    # All but a global phase, which the text leaves out.
    phase = np.vdot(theirs, ours) / len(ours)
    assert abs(phase) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(phase * theirs, ours, rtol=0, atol=1e-12)


def check_distribution(entry):
    outcomes = 2**entry.builder.n_qubits
    assert entry.distribution.shape == (outcomes,)
    np.testing.assert_allclose(entry.builder.distribution(entry.angles), entry.distribution, rtol=0, atol=1e-12)
    by_aer = make_device("aer").submit(entry.builder, entry.angles).result().ordered("little").probabilities
    np.testing.assert_allclose(by_aer, entry.distribution, rtol=0, atol=1e-12)
    # The file alone, with the values the manifest gives.
    alone = Bound(entry.builder.n_qubits, entry.name, entry.bound())
    for device in ("aer", "pennylane:default.qubit"):
        readout = make_device(device).submit(alone, []).result().ordered("little")
        np.testing.assert_allclose(readout.probabilities, entry.distribution, rtol=0, atol=1e-12, err_msg=device)


@cache
def committed(name: str) -> Entry:
    """Read and built once for all checks."""
    return Entry(FOLDER, name)


CHECKS = [check_files, check_manifest, check_qpy, check_unitary, check_distribution, check_qasm]


def checks():
    """All of all; of circuits on eight qubits what takes half a second is slow, as each family has smaller ones."""
    for name in NAMES:
        for check in CHECKS:
            slow = "_q8" in name and check in (check_unitary, check_distribution, check_qasm)
            yield pytest.param(name, check, id=f"{name}-{check.__name__}", marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize(("name", "check"), list(checks()))
def test_committed(name, check):
    check(committed(name))


# --- the folder ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    """What an export writes, by the paths of its files."""
    return export.exported_files()


def held(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_folder_holds_what_the_export_writes_and_nothing_else(made):
    assert set(held(FOLDER)) == set(made), "run: dualflow circuits export"
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == {kind.family for kind in export.families()}


NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d+(?:e[-+]?\d+)?", re.IGNORECASE)


def same_text(one: bytes, other: bytes) -> bool:
    """Return whether two texts are equal up to the last bits of numbers and hashes of files with such numbers."""
    texts = [re.sub(r'"sha256": "\w+"', "", data.decode()) for data in (one, other)]
    numbers = [np.array([float(number) for number in NUMBER.findall(text)]) for text in texts]
    said = {NUMBER.sub("#", text) for text in texts}
    return len(said) == 1 and np.allclose(*numbers, rtol=1e-11, atol=1e-12)


def test_only_last_bits_may_differ():
    text = b'rz(1.2780763420184615) q[0]; "sha256": "ab12"'
    assert same_text(text, b'rz(1.278076342018458) q[0]; "sha256": "cd"')
    assert not same_text(text, b'rz(1.2780763) q[0]; "sha256": "ab12"')
    assert not same_text(text, b'rz(1.2780763420184615) q[1]; "sha256": "ab12"')


def test_a_new_export_is_the_same(made):
    """Files are equal to the byte on the machine that wrote them; elsewhere the last bits of some angles may differ."""
    if MANIFEST["written_with"]["qiskit"] != qiskit.__version__:
        pytest.skip(
            f"the files were written with qiskit {MANIFEST['written_with']['qiskit']}, and qiskit {qiskit.__version__} "
            "may write other bytes; what they hold is compared by the other tests"
        )
    committed = held(FOLDER)
    differ = [name for name, data in made.items() if committed.get(name) != data]
    # `check_qpy` compares QPY files gate by gate, because their bytes contain numbers.
    wrong = [name for name in differ if not name.endswith(".qpy") and not same_text(committed[name], made[name])]
    assert wrong == [], "run: dualflow circuits export"


@pytest.mark.slow  # the committed files are of another process too
def test_another_process_writes_the_same_bytes(made, tmp_path):
    # Bytes could depend on the hash seed, the terminal's encoding and the number of circuits built before.
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    code = "import sys; from dualflow.cli import main; main()"
    command = [sys.executable, "-c", code, "circuits", "export", "--out", str(tmp_path / "deep" / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{len(made)} files")
    assert held(tmp_path / "deep" / "out") == made


def test_every_family_is_there_at_several_sizes():
    public = {getattr(circuits, name) for name in circuits.__all__} - {ParametricCircuit}
    assert {type(circuit) for circuit in export.examples()} == set(export.families()) == public
    for family in export.families():
        assert len({circuit.n_qubits for circuit in family.examples()}) > 1
    assert [circuit.name for circuit in export.examples()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_examples_show_bit_order_and_the_order_of_parameters(name):
    entry = Entry(FOLDER, name)
    if entry.builder.n_qubits > 1:
        assert abs(reverse_bits(entry.distribution, entry.builder.n_qubits) - entry.distribution).max() > 1e-3
    if entry.builder.n_qubits > 1 and entry.builder.n_parameters > 0:
        assert abs(entry.builder.distribution(entry.angles[::-1]) - entry.distribution).max() > 1e-3
    # Multiples of 2^-7, so that a sum or half of them has no rounding.
    assert (entry.angles * 128 == np.rint(entry.angles * 128)).all()
    assert len(set(entry.angles)) == min(len(entry.angles), 256)


#: Names in the formulas of gates and depth, and what reads them.
WRITTEN = str.maketrans({"−": "-", "·": "*", "^": "⁑"})


def computed(formula: str, sizes: dict[str, int]) -> float:
    """Return the value of a formula of the README."""
    text = formula.translate(WRITTEN).replace("⁑", "**")
    text = re.sub(r"⌊([^⌋]*)⌋", r"int(\1)", text)
    return eval(text, {"__builtins__": {}, "min": min, "int": int}, dict(sizes))


def beyond_the_files():
    """Circuits of other sizes than those of the files."""
    for q in (2, 3, 5, 6):
        yield from (TreeCircuit(q), circuits.AncillaCircuit(q), circuits.HardwareEfficientCircuit(q, 4))
        yield from (circuits.AnnealCircuit(q + 2, 3), circuits.ChebyshevCircuit(q, 2))
    for q, reps in ((3, 3), (5, 2)):
        for kind in (circuits.FidelityCircuit, circuits.ProjectedCircuit):
            yield kind(q, zz_steps(q, reps), f"zz_r{reps}")
    yield from (circuits.QHDCircuit(6, 2, bits=2), circuits.QHDCircuit(8, 1, bits=4), circuits.HHLCircuit(6))
    for system, ancillas, steps in ((2, 4, 1), (3, 3, 2), (2, 3, 3)):
        for kind in (circuits.LCHSCircuit, circuits.SchrodingerisedCircuit):
            yield kind(system + ancillas, ancillas, steps)


@pytest.mark.parametrize("circuit", [*export.examples(), *beyond_the_files()], ids=lambda circuit: circuit.name)
def test_formulas_of_gates_and_depth_are_counted(circuit):
    """Each formula of the README against the gates of circuits, also of sizes that no file has."""
    if not circuit.sizes:
        pytest.skip("the formulas do not hold here, as their note says")
    counted = resources.count(export.elementary(circuit.build()))
    if circuit.two_qubit_formula:
        assert computed(circuit.two_qubit_formula, circuit.sizes) == counted.two_qubit_gates
    small = circuit.n_qubits < {"anneal": 3, "fidelity": 3, "projected": 3}.get(circuit.family, 1)
    if circuit.depth_formula and not small:
        assert computed(circuit.depth_formula, circuit.sizes) == counted.depth


def test_a_block_diagram_has_a_wire_for_each_register_and_a_box_for_each_block():
    lines = export.block_diagram(circuits.AncillaCircuit).splitlines()
    assert lines == [
        "               ┌───────────┐ ┌─────────────────────┐",
        "index (q − 1) ─┤ H on each ├─┤                     ├─",
        "               └───────────┘ │ RY(θᵢ) if index = i │",
        "                             │                     │",
        "      anc (1) ───────────────┤                     ├─",
        "                             └─────────────────────┘",
    ]
    for family in export.families():
        text = export.block_diagram(family)
        names = [name for name, _ in family.registers]
        assert family.blocks
        assert all(words in text for words, _ in family.blocks)
        assert all(set(where) <= set(names) for _, where in family.blocks)
        assert len(text.splitlines()) == 3 * len(names)


def test_readme_draws_and_runs(monkeypatch):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(ROOT)
    exec(compile(program, "README.md", "exec"), {})
    largest = {"hhl_q4", "schrodingerised_q4_a3_s1"}  # the smallest circuits of families without one of three qubits
    for circuit in export.examples():
        if type(circuit).__repr__ in (ParametricCircuit.__repr__, SelectCircuit.__repr__) or "=" in repr(circuit):
            assert f"| {circuit.name} | `{circuit!r}` |" in text
            assert eval(repr(circuit), vars(circuits)) == circuit  # the call in the table runs
        else:
            assert f"| {circuit.name} | `steps` of the manifest |" in text
        assert (f"\n{circuit.name}\n\n```text\n" in text) == (circuit.n_qubits <= 3 or circuit.name in largest)
        assert (type(circuit).__doc__ or "").partition("\n")[0] in text
    assert max(map(len, text.splitlines())) <= 150


# --- parameters ------------------------------------------------------------------------------------------


def test_parameters_are_the_same_in_every_build_and_others_in_every_circuit():
    first, again, other = TreeCircuit(4).build(), TreeCircuit(4).build(), TreeCircuit(5).build()
    assert first is not again
    assert first == again
    assert list(first.parameters) == list(again.parameters)
    assert not set(first.parameters) & set(other.parameters)
    assert [p.name for p in first.parameters] == [f"phi_{k:02d}" for k in range(15)]


def test_a_circuit_of_ten_or_more_parameters_keeps_their_order():
    circuit = TreeCircuit(4)
    assert list(circuit.build().parameters) == circuit.parameters("phi")


# --- a new family ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks(ParametricCircuit):
    """A family of gates that Qiskit composes of others, one with an expression as its angle.

    Parameters
    ----------
    n_qubits : int ≥ 2
    turns : tuple of two float
        Angles of a multiplexed RY.
    """

    turns: tuple[float, float] = (0.5, 1.25)
    family: ClassVar[str] = "blocks"
    n_parameters: ClassVar[int] = 1

    @classmethod
    def examples(cls):
        return cls(2), cls(3, (0.75, 2.0))

    def __post_init__(self):
        object.__setattr__(self, "turns", tuple(self.turns))

    def _build(self):
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        block = QuantumCircuit(1, name="block")
        block.h(0)
        circuit.append(block.to_gate(), [0])
        circuit.append(UCRYGate(list(self.turns)), [1, 0])
        evolution = PauliEvolutionGate(SparsePauliOp("XX"), time=self.parameters("time")[0])
        circuit.append(evolution, [0, 1])
        return circuit

    def distribution(self, theta):
        t, half = self.check_parameters(theta)[0], 0.5 * np.array(self.turns)
        psi = np.concatenate([np.cos(half), np.sin(half)]) / np.sqrt(2)
        low = abs(np.cos(t) * psi - 1j * np.sin(t) * psi[::-1]) ** 2
        return np.concatenate([low, np.zeros(2**self.n_qubits - 4)])


@dataclass(frozen=True)
class Cat(ParametricCircuit):
    """A family without parameters."""

    family: ClassVar[str] = "cat"
    n_parameters: ClassVar[int] = 0

    @classmethod
    def examples(cls):
        return cls(1), cls(3)

    def _build(self):
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        circuit.h(0)
        for k in range(1, self.n_qubits):
            circuit.cx(0, k)
        return circuit

    def distribution(self, theta):
        self.check_parameters(theta)
        return np.eye(2**self.n_qubits)[[0, -1]].sum(axis=0) / 2


def join(monkeypatch, *families, beside=("ParametricCircuit", "TreeCircuit")):
    """Make families public, beside few others, so that an export takes no second."""
    for family in families:
        monkeypatch.setattr(circuits, family.__name__, family, raising=False)
    monkeypatch.setattr(circuits, "__all__", [*beside, *(family.__name__ for family in families)])


@pytest.fixture(scope="module")
def of_new_families(tmp_path_factory):
    """A folder of all families and two new ones."""
    with pytest.MonkeyPatch.context() as patch:
        join(patch, Blocks, Cat, beside=circuits.__all__)
        folder = tmp_path_factory.mktemp("circuits")
        export.export_circuits(folder)
        return folder


# The check of OpenQASM 3 may be skipped; the others run in a separate case.
@pytest.mark.parametrize("checks", [CHECKS[:-1], CHECKS[-1:]], ids=["all but qasm", "qasm"])
def test_a_new_family_is_exported_if_it_is_public(monkeypatch, made, of_new_families, checks):
    join(monkeypatch, Blocks, Cat)
    written = held(of_new_families)
    for name in made.keys() - {"manifest.json", "README.md"}:
        assert written[name] == made[name]
    text = (of_new_families / "README.md").read_text(encoding="utf-8")
    assert (
        "## blocks\n\nA family of gates that Qiskit composes of others, one with an expression as its angle.\n" in text
    )
    for name in ("blocks_q2", "blocks_q3", "cat_q1", "cat_q3"):
        for check in checks:
            check(Entry(of_new_families, name))


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")  # Qiskit's, of its own matrices
def test_composed_gates_are_written_out():
    assert {"block", "ucry", "PauliEvolution"} <= set(Blocks(2).build().count_ops())
    written = export.elementary(Blocks(2).build())
    assert set(written.count_ops()) <= set(export.PENNYLANE)
    ours, theirs = (Operator(circuit.assign_parameters([0.7])).data for circuit in (written, Blocks(2).build()))
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@dataclass(frozen=True)
class Restless(Cat):
    """A family whose parameters have Qiskit's random ids."""

    family: ClassVar[str] = "restless"
    n_parameters: ClassVar[int] = 1

    def _build(self):
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        circuit.ry(ParameterVector("a", 1)[0], 0)
        return circuit


@dataclass(frozen=True)
class Namesake(Cat):
    """A family with the name of another one."""

    name = "tree_q2"


@dataclass(frozen=True)
class Silent(ParametricCircuit):
    """A family without examples."""


def test_families_that_cannot_be_exported_raise_errors_with_the_reason(monkeypatch, tmp_path):
    for family, error, words in (
        (Restless, ProblemError, "self.parameters"),
        (Namesake, ProblemError, "both named 'tree_q2'"),
        (Silent, NotImplementedError, r"Silent.*examples\(\)"),
    ):
        with monkeypatch.context() as patch:
            join(patch, family)
            with pytest.raises(error, match=words):
                export.export_circuits(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- the command line ------------------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(cli.app, ["circuits", *map(str, arguments)])


def test_list():
    result = run("list")
    assert result.exit_code == 0, result.output
    [row] = [line.split() for line in result.stdout.splitlines() if "tree_q3" in line]
    said = MANIFEST["circuits"]["tree_q3"]
    numbers = [said["qubits"], said["n_parameters"], said["depth"], said["two_qubit_gates"]]
    assert row == ["tree_q3", "tree", *map(str, numbers)]
    assert all(name in result.stdout for name in NAMES)


def test_export_replaces_its_own_files_and_leaves_others_alone(monkeypatch, tmp_path):
    join(monkeypatch)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "tree_q2.qpy").write_bytes(b"old")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    assert run("export", "--out", tmp_path).exit_code == 2  # it may be a user's file
    assert run("export", "--out", tmp_path, "--overwrite").exit_code == 0
    assert held(tmp_path) == export.exported_files() | {"mine.txt": b"mine"}
    assert run("export", "--out", tmp_path).exit_code == 0


def test_errors_of_the_command_line(monkeypatch, tmp_path):
    join(monkeypatch)
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    result = run("export", "--out", file)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert str(file) in result.stderr
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "qiskit" else find_spec(name))
    with pytest.raises(SolverUnavailable, match="pip install qiskit"):
        export.examples()
    assert run("list").exit_code == 2


def test_the_page_on_devices_says_which_solver_takes_which_problem():
    """The table against the solvers' own feasible sets, and the problems that it names against their kinds."""
    page = (FOLDER.parent / "docs" / "how-to" / "quantum-devices.md").read_text(encoding="utf-8")
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    kinds = ["simplex", "box", "box with equality", "capped simplex", "affine"]
    rows = re.findall(r"^\| `([\w-]+)` \|((?: (?:yes)? ?\|){5}) ([\w, -]+) \|$", page, re.M)
    said = {
        name: tuple(kind for kind, cell in zip(kinds, cells.split("|")[:5], strict=True) if "yes" in cell)
        for name, cells, _ in rows
    }
    true = {info.name: tuple(info.kinds) for info in list_solvers() if info.quantum}
    assert {name: set(cells) for name, cells in said.items()} == {name: set(own) for name, own in true.items()}
    known = set(re.findall(r"^\| ([\w-]+) \|", readme, re.M))
    assert {family for *_, families in rows for family in families.split(", ")} <= known

    gram, y = Gram([[0.0, 0.1], [1.0, 0.9], [0.2, 0.8], [0.9, 0.3]], gamma=0.5), [1.0, -1.0, 1.0, -1.0]
    named = {
        "simplex": [problems.svdd(gram), problems.svc(gram, y, loss="squared_hinge")],
        "box": [problems.svc(gram, y, fit_intercept=False)],
        "box with equality": [problems.svc(gram, y), problems.svr(gram, y)],
        "capped simplex": [problems.one_class(gram), problems.svdd(gram, 0.5)],
        "affine": [problems.least_squares(gram, y)],
    }
    assert {kind: {str(problem.kind.value) for problem in posed} for kind, posed in named.items()} == {
        kind: {kind} for kind in kinds
    }
