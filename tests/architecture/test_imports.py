"""The floors hold, importing the package stays light, and names mean one thing."""

import ast
import functools
import graphlib
import importlib
import importlib.util
import json
import pkgutil
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import dualflow
from dualflow.catalogue import SOLVER_CLASSES

SOURCE = Path(dualflow.__file__).parent
ROOT = Path(__file__).parents[2]
HEAVY = ("qiskit", "qiskit_aer", "pennylane", "matplotlib")


def _fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- floors ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lint():
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed; it comes with pip install 'dualflow[dev]'")

    def run(folder):
        # In a process of its own, since import-linter keeps what it has imported.
        code = (
            "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports; "
            "sys.exit(lint_imports(no_cache=True))"
        )
        command = [sys.executable, "-c", code]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_imports_go_down_only(lint):
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "line", "report"),
    [
        ("core/psd.py", "from ..solvers import registry", "dualflow.core.psd -> dualflow.solvers.registry"),
        ("core/psd.py", "import sklearn", "dualflow.core.psd -> sklearn"),
        ("solvers/smo.py", "import qiskit", "dualflow.solvers.smo -> qiskit"),
        ("quantum/circuits/tree.py", "from .. import devices", "circuits.tree -> dualflow.quantum.devices"),
        ("stray.py", "import json", "dualflow.stray"),  # a file that no layer knows
    ],
)
def test_an_import_upwards_is_caught(lint, tmp_path, file, line, report):
    shutil.copytree(SOURCE, tmp_path / "src" / "dualflow", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "dualflow" / file).open("a", encoding="utf-8") as source:
        source.write(f"\n{line}\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert report in done.stdout


# --- no two files import each other ------------------------------------------------------------


def _module(path, source):
    parts = ("dualflow", *path.relative_to(source).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _asked(text, package):
    """What a file's text imports: the module of each statement, and each of its names where it has them."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join(filter(None, [*above, node.module]))
            found |= {(base, f"{base}.{alias.name}") for alias in node.names}
    return found


def _graph(source):
    """Which files of the package each file imports, wherever in it: in functions and for type checkers, too."""
    files = {_module(path, source): path for path in source.rglob("*.py")}
    graph = {}
    for name, path in files.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        asked = _asked(path.read_text(encoding="utf-8"), package)
        graph[name] = {full if full in files else base for base, full in asked} & set(files) - {name}
    return graph


def _cycle(source):
    """Files that import each other in a ring, or None."""
    try:
        graphlib.TopologicalSorter(_graph(source)).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_files_import_each_other():
    assert _cycle(SOURCE) is None


def test_no_file_imports_the_package_itself():
    assert [name for name, imported in _graph(SOURCE).items() if "dualflow" in imported] == []


@pytest.mark.parametrize(
    "line",
    [
        "from ..problems import svc",
        "def late():\n    from .. import problems",
        "if TYPE_CHECKING:\n    from ..problems import svc",
    ],
)
def test_a_ring_is_found(tmp_path, line):
    shutil.copytree(SOURCE, tmp_path / "dualflow", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    with (tmp_path / "dualflow" / "core" / "problem.py").open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    assert {"dualflow.problems", "dualflow.core.problem"} <= set(_cycle(tmp_path / "dualflow"))


# --- a light import ----------------------------------------------------------------------------


def test_importing_the_package_loads_no_quantum_and_no_plotting_package():
    loaded = _fresh("import dualflow, json, sys; print(json.dumps(list(sys.modules)))")
    assert "dualflow" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@pytest.mark.parametrize(
    "use",
    [
        "dualflow.list_solvers()",
        "dualflow.solve(dualflow.problems.svdd(dualflow.Gram([[0.0], [1.0]])), 'smo')",
        "__import__('dualflow.testing')",
    ],
)
def test_classical_use_loads_none_of_them_either(use):
    loaded = _fresh(f"import dualflow, json, sys; {use}; print(json.dumps(list(sys.modules)))")
    assert [name for name in HEAVY if name in loaded] == []


def test_the_core_imports_without_scikit_learn():
    loaded = _fresh("import dualflow.refinement.refine, json, sys; print(json.dumps(list(sys.modules)))")
    assert "cvxopt" not in loaded
    tree_of_core = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / "core").rglob("*.py")]
    roots = {name.split(".")[0] for tree in tree_of_core for name in _imported(tree)}
    assert roots & set(sys.stdlib_module_names) | {"numpy", "scipy", "threadpoolctl"} >= roots


def _imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def test_all_but_cvxopt_works_without_cvxopt():
    found = _fresh(
        """
import json, sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *rest):
        return None if name.partition(".")[0] == "cvxopt" else self.finder.find_spec(name, *rest)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import numpy as np, dualflow
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum
X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.5]])
y = np.array([0, 0, 1, 1])
model = dualflow.SVC(tol=1e-9).fit(X, y)
problem, lines = model.solution_.problem, []
gaps = [dualflow.solve(problem, name).certificate.relative_gap for name in ("gradient-flow", "interior-point", "smo")]
for call in (
    lambda: dualflow.solve(problem, "cvxopt"),
    lambda: coneqp_optimum(QuadraticProgram(np.eye(2), np.ones(2), np.ones(2))),
):
    try:
        call()
    except dualflow.SolverUnavailable as error:
        lines.append(str(error))
print(json.dumps([model.certificate_.relative_gap, max(gaps), lines]))
"""
    )
    own, others, lines = found
    assert own <= 1e-9
    assert others <= 1e-4
    assert len(lines) == 2
    assert all(line.endswith("which is not installed: pip install cvxopt") for line in lines)


# --- names -------------------------------------------------------------------------------------


def test_every_public_name_exists():
    public = dualflow.__all__
    assert len(set(public)) == len(public)
    missing = [name for name in public if not hasattr(dualflow, name)]
    assert missing == []
    assert set(public) <= set(dir(dualflow))


def test_solvers_are_public_by_their_line_in_the_catalogue():
    classes = [target.partition(":")[2] for target in SOLVER_CLASSES.values()]
    assert set(classes) <= set(dualflow.__all__)
    text = (SOURCE / "__init__.py").read_text(encoding="utf-8")
    assert [name for name in classes if re.search(rf"\b{name}\b", text)] == []


def test_what_type_checkers_are_told_is_what_is_loaded():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {node.module: {alias.name for alias in node.names} for node in block.body}
    assert told == {room: set(names) for room, names in dualflow._ROOMS.items()}


@pytest.mark.parametrize("name", ["Device", "FitError", "Noise", "QuantumSolver", "Reading", "Workspace"])
def test_third_parties_have_what_they_subclass_and_catch(name):
    assert name in dualflow.__all__
    assert isinstance(getattr(dualflow, name), type)


def test_a_public_function_and_a_module_never_share_a_name():
    modules = {info.name for info in pkgutil.iter_modules([str(SOURCE)])}
    clashes = [
        name
        for name in dualflow.__all__
        if name in modules and not isinstance(getattr(dualflow, name), types.ModuleType)
    ]
    assert clashes == []
    for info in pkgutil.walk_packages([str(SOURCE)], "dualflow."):
        if not info.ispkg or _needs_absent(info.name):
            continue
        package = importlib.import_module(info.name)
        inside = {sub.name for sub in pkgutil.iter_modules(package.__path__)}
        shared = [
            name
            for name in getattr(package, "__all__", ())
            if name in inside and not isinstance(getattr(package, name), types.ModuleType)
        ]
        assert shared == [], f"{info.name} has functions named like its modules"


def _needs_absent(name):
    return name.startswith("dualflow.quantum") and importlib.util.find_spec("qiskit") is None


# --- files -------------------------------------------------------------------------------------


def _code_lines(path):
    """The number of lines without blank lines, comments and, in Python and Cython, docstrings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".pyx":
        text = re.sub(r'^ *"""(?s:.*?)"""', "", text, flags=re.MULTILINE)
    kept = {
        n for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.lstrip().startswith(("#", "//"))
    }
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                kept -= set(range(node.lineno, node.end_lineno + 1))
    return len(kept)


def test_no_source_file_has_more_than_600_lines_of_code():
    tree = Path(__file__).parents[2] / "src" / "dualflow"  # a wheel does not contain the compiled files' sources
    written = [path for kind in ("*.py", "*.pyx", "*.pxd", "*.pxi", "*.h") for path in tree.rglob(kind)]
    assert len(written) > 100
    long = [path for path in written if path.read_bytes().count(b"\n") > 600]
    sizes = {path.relative_to(tree).as_posix(): _code_lines(path) for path in long}
    assert {name: size for name, size in sizes.items() if size > 600} == {}


def test_every_solver_has_one_file_of_its_name():
    modules = {name: target.partition(":")[0] for name, target in SOLVER_CLASSES.items()}
    rooms = {module.rpartition(".")[0] for module in modules.values()}
    assert rooms == {"dualflow.solvers", "dualflow.quantum.solvers"}
    assert {
        name: module for name, module in modules.items() if module.rpartition(".")[2] != name.replace("-", "_")
    } == {}
    files = {path.stem for path in (SOURCE / "solvers").glob("*.py") if not path.stem.startswith("_")}
    assert files - {"registry"} == {name.replace("-", "_") for name in SOLVER_CLASSES if "quantum" not in modules[name]}


def test_classical_solvers_are_short_files():
    sizes = {path.name: _code_lines(path) for path in (SOURCE / "solvers").glob("*.py")}
    assert {name: size for name, size in sizes.items() if size > 180} == {}


def test_sources_name_no_machine_paths():
    found = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("/tmp/", "/work/", "/home/", "../shared"))
    ]
    assert found == []
