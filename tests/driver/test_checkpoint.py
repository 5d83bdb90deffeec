"""Checkpoints: killed runs resume bit by bit, damaged files are refused, a full disk harms nothing."""

import errno
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import pytest

from dualflow import Checkpoint, Gram, ProblemError, Solver, Status, certify, list_solvers, problems, solve
from dualflow.core.runtime.random import generator, generator_state
from dualflow.core.solver import EVERY_CONVEX
from dualflow.solvers.registry import solver_class
from dualflow.solvers.smo import SMO
from dualflow.testing import zoo


@dataclass(frozen=True)
class WalkState:
    alpha: np.ndarray
    k: int
    rng: dict


@dataclass(frozen=True)
class Walk(Solver):
    """Noisy projected gradient: slow, and every step depends on the generator's state."""

    pause: float = 0.0
    every: int = 1

    name = "walk"
    state_type = WalkState
    kinds = EVERY_CONVEX
    default_max_steps = 60

    @property
    def certify_every(self):
        return self.every

    def start(self, problem, rng, warm=None):
        return WalkState(problem.project(np.zeros(problem.n)), 0, generator_state(rng))

    def step(self, problem, state):
        time.sleep(self.pause)
        rng = generator(state.rng)
        noise = 0.01 * rng.standard_normal(problem.n)
        alpha = problem.project(state.alpha - 0.02 * problem.gradient(state.alpha) + noise / (1 + state.k))
        return WalkState(alpha, state.k + 1, generator_state(rng))

    def alpha(self, state):
        return state.alpha

    def finished(self, state):
        return False


def make_problem(C=1.0, shift=0.0):
    rng = np.random.default_rng(2)
    y = np.where(np.arange(20) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((20, 2)) + y[:, None] + shift
    return problems.svc(Gram(X, kernel="rbf", gamma=0.5), y, C)


def run(path, solver=None, *, every=1, **arguments):
    settings = {"trajectory": True, "tol": 1e-12, "random_state": 4} | arguments
    return solve(make_problem(), solver or Walk(every=every), checkpoint=path, **settings)


def same(first, second):
    assert first.cost.steps == second.cost.steps
    assert first.status is second.status
    assert np.array_equal(first.raw_alpha, second.raw_alpha)
    for f in fields(first.trajectory):
        ours, theirs = getattr(first.trajectory, f.name), getattr(second.trajectory, f.name)
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs, equal_nan=True), f.name


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.npz"


@pytest.fixture
def saved(file):
    """A checkpoint after 10 steps."""
    run(file, max_steps=10)
    return file


# --- resuming ----------------------------------------------------------------------------------


def test_a_run_that_was_killed_and_resumed_equals_the_uninterrupted_one(file):
    code = """
        import sys
        sys.path[:0] = [{folder!r}]
        from pathlib import Path
        from test_checkpoint import Checkpoint, Walk, run
        run(Checkpoint(Path({file!r}), interval_s=0.0), Walk(pause=0.02), callback=lambda p: print(p.step, flush=True))
    """
    code = textwrap.dedent(code.format(folder=os.path.dirname(__file__), file=str(file)))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        while int(child.stdout.readline()) < 7:
            pass
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(timeout=20) == -signal.SIGKILL
    finally:
        child.kill()
        child.stdout.close()
    with np.load(file) as archive:
        steps = json.loads(archive["header"].tobytes())["steps"]
    assert 7 <= steps < 60
    seen = []
    resumed = run(file, Walk(pause=0.02), callback=lambda progress: seen.append(progress.step))
    assert seen == list(range(steps + 1, 61))
    same(resumed, run(None, Walk()))


@pytest.mark.parametrize("steps", [1, 9, 10, 59, 60])
def test_a_run_stopped_at_a_limit_resumes_to_the_same_end(file, steps):
    run(file, max_steps=steps)
    same(run(file), run(None))


def test_resuming_between_two_certificates_changes_nothing(file):
    # The tolerance is met between two certificates; the uninterrupted run goes on to the next one.
    loose = {"tol": 0.5, "every": 20}
    whole = run(None, **loose)
    assert whole.cost.steps % 20 == 0
    assert whole.trajectory.gap[-3] <= 0.5
    run(file, max_steps=whole.cost.steps - 3, **loose)
    same(run(file, **loose), whole)


def test_a_finished_run_resumes_to_itself(file):
    first = run(file)
    seen = []
    same(run(file, callback=seen.append), first)
    assert seen == []


def test_ctrl_c_saves_and_the_next_call_goes_on(file):
    def interrupt(progress):
        if progress.step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        run(file, callback=interrupt)
    assert raised.value.solution.cost.steps == 12
    same(run(file), run(None))


def test_the_time_limit_and_the_callback_save_too(file):
    assert run(file, Walk(pause=0.01), time_limit=0.05).status is Status.TIME_LIMIT
    before = file.read_bytes()
    assert run(file, Walk(pause=0.01), callback=lambda progress: True).status is Status.STOPPED
    assert file.read_bytes() != before
    same(run(file, Walk(pause=0.01)), run(None))


def test_wall_time_adds_up_over_the_runs(file):
    first = run(file, Walk(pause=0.01), max_steps=20)
    second = run(file, Walk(pause=0.01), max_steps=25)
    assert first.cost.wall_time_s >= 0.2
    assert second.cost.wall_time_s >= first.cost.wall_time_s + 0.05 * 0.9


def test_the_interval_spaces_the_saves(tmp_path):
    def saves(interval):
        file, seen = tmp_path / f"{interval}.npz", set()
        run(Checkpoint(file, interval), callback=lambda _: file.exists() and seen.add(file.read_bytes()))
        assert file.exists()
        return len(seen)

    assert saves(0.0) == 60
    assert saves(1e6) == 0


def test_smo_resumes_too(file):
    def go(path, **more):
        problem = next(z.problem for z in zoo() if z.name == "box clouds")
        return solve(problem, SMO(), checkpoint=path, trajectory=True, tol=1e-12, **more)

    whole = go(None)
    assert whole.cost.steps >= 2
    go(file, max_steps=1)
    same(go(file), whole)


def test_folders_are_made_and_nothing_else_is_left_behind(tmp_path):
    run(tmp_path / "a" / "b" / "run.npz", max_steps=3)
    assert [p.name for p in (tmp_path / "a" / "b").iterdir()] == ["run.npz"]


# --- other runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("problem", {"problem": make_problem(C=2.0)}),
        ("problem", {"problem": make_problem(shift=1e-9)}),
        ("solver", {"solver": SMO()}),
        ("options", {"solver": Walk(every=2)}),
        ("seed", {"random_state": 5}),
        ("seed", {"random_state": np.random.default_rng(4)}),
        ("warm", {"warm": np.zeros(20)}),
        ("trajectory", {"trajectory": False}),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(saved, name, change):
    arguments = {"problem": make_problem(), "solver": Walk(), "random_state": 4, "trajectory": True} | change
    before = saved.read_bytes()
    with pytest.raises(ProblemError, match=rf"belongs to another run: its {name} is"):
        solve(arguments.pop("problem"), arguments.pop("solver"), checkpoint=saved, **arguments)
    assert saved.read_bytes() == before


def test_another_format_is_refused(saved):
    _rewrite(saved, lambda header: header | {"format": 99})
    with pytest.raises(ProblemError, match="has format 99, this version reads 4"):
        run(saved)


def _rewrite(file, change):
    with np.load(file) as archive:
        arrays = dict(archive)
    header = change(json.loads(arrays["header"].tobytes()))
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(file, **arrays)


# --- damaged and foreign files -----------------------------------------------------------------


def _refused(file):
    before = file.read_bytes()
    with pytest.raises(ProblemError, match="checkpoint"):
        run(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_truncated_files_are_refused(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    _refused(saved)


def test_flipped_bytes_are_refused_or_harmless(saved):
    content, whole = saved.read_bytes(), run(None)
    rng = np.random.default_rng(0)
    outcomes = set()
    for position in rng.choice(len(content), size=150, replace=False):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            resumed = run(saved)
        except ProblemError:
            outcomes.add("refused")
        else:
            # Names and times in the zip directory are not read; numbers are covered by its checksums.
            same(resumed, whole)
            outcomes.add("harmless")
    assert "refused" in outcomes


class Bomb:
    """Executes code when unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


def _pickled(target):
    return pickle.dumps(Bomb(target))


def _pickle_in_npz(target):
    buffer = io.BytesIO()
    np.savez(buffer, header=np.array([Bomb(target)], dtype=object))
    return buffer.getvalue()


def _pickle_in_npy(target):
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(target)], dtype=object))
    return buffer.getvalue()


@pytest.mark.parametrize("make", [_pickled, _pickle_in_npz, _pickle_in_npy])
def test_pickles_are_refused_and_nothing_is_executed(tmp_path, make):
    file, target = tmp_path / "run.npz", tmp_path / "executed"
    file.write_bytes(make(target))
    _refused(file)
    assert not target.exists()
    pickle.loads(_pickled(target))  # the bomb does work
    assert target.exists()


def _npy():
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3.0))
    return buffer.getvalue()


def _npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _header(value):
    return _npz(header=np.frombuffer(json.dumps(value).encode(), dtype=np.uint8))


def _zip_of_text():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header", "no array")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x,y\n1,2\n",
        _npy(),
        _npz(alpha=np.zeros(3)),
        _npz(header=np.frombuffer(b"not json", dtype=np.uint8)),
        _npz(header=np.frombuffer(b"\xff\xfe", dtype=np.uint8)),
        _header([]),
        _header({}),
        _header({"format": 1}),
        _header({"format": 1, "key": []}),
        _zip_of_text(),
    ],
    ids=["empty", "text", "npy", "npz", "no json", "no text", "list", "dict", "no key", "key a list", "zip"],
)
def test_foreign_files_are_refused(file, content):
    file.write_bytes(content)
    _refused(file)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header | {"state": header["state"] | {"no_such_field": 1}},
        lambda header: header | {"state": {}},
        lambda header: {name: value for name, value in header.items() if name != "steps"},
        lambda header: header | {"steps": "ten"},
    ],
    ids=["unknown field", "missing field", "no steps", "steps not a number"],
)
def test_headers_that_do_not_fit_the_state_are_refused(saved, change):
    _rewrite(saved, change)
    _refused(saved)


def test_a_state_of_another_shape_is_refused(saved):
    with np.load(saved) as archive:
        arrays = dict(archive)
    arrays["state:alpha"] = np.zeros(3)
    np.savez(saved, **arrays)
    with pytest.raises(ProblemError, match=r"alpha has shape \(3,\)"):
        run(saved)


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    with pytest.raises(ProblemError, match="checkpoint"):
        run(tmp_path)


# --- forged files ------------------------------------------------------------------------------


def _opened(file):
    with np.load(file) as archive:
        arrays = dict(archive)
    return json.loads(arrays.pop("header").tobytes()), arrays


def _sealed(file, header, arrays):
    np.savez(file, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8), **arrays)


def _leaves(value, path=()):
    if isinstance(value, (dict, list)) and value:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _leaves(value[key], (*path, key))
    else:
        yield path, value


def _put(value, path, new):
    if not path:
        return new
    other = value.copy()
    other[path[0]] = _put(value[path[0]], path[1:], new)
    return other


def _forgeries(header, arrays):
    """What is forged, header and arrays: every array and every number of a state, and of the run itself."""
    for name, array in arrays.items():
        changes = {
            "scaled": 7.0 * array,
            "negated": -1.0 * array,
            "nan": np.full(array.shape, np.nan),
            "giant": np.full(array.shape, 1e300),
            "deeper": array[None],
            "shorter": array[:-1],
            "empty": array[:0],
            "single": array.astype(np.float32),
            "int": array.astype(np.int64),
            "giant int": np.full(array.shape, 2**62),
            "bool": array.astype(bool),
            "text": array.astype("U8"),
            "complex": array + 0j,
        }
        for how, forged in changes.items():
            if forged.dtype != array.dtype or not np.array_equal(forged, array):
                yield f"{name} {how}", header, arrays | {name: forged}
        yield f"{name} missing", header, {other: arrays[other] for other in arrays if other != name}
    yield "one more", header, arrays | {"state:more": np.zeros(3)}
    for path, _ in _leaves({name: header[name] for name in ("state", "steps", "wall_time_s")}):
        for new in (-1, -7.5, 0, 2**40, 10**30, 1e300, float("nan"), float("inf"), None, "text", True, [], {}):
            yield f"{'.'.join(map(str, path))} {new}", header | _put(header, path, new), arrays


def _true_gap_or_an_error(file, problem, solver, accepted, what, **settings):
    try:
        solution = solve(problem, solver, checkpoint=file, tol=1e-12, time_limit=5.0, **settings)
    except ProblemError as error:
        named = str(file) in str(error)
        solution = None
    if solution is None:
        assert named, what
        return
    accepted.add(what)
    truth = certify(problem, solution.raw_alpha)
    assert solution.raw_certificate.relative_gap == truth.relative_gap, what
    assert solution.status is not Status.OPTIMAL or truth.relative_gap <= 1e-12, what
    if solution.trajectory is not None:
        path = solution.trajectory
        for alpha, objective, gap, survivors in zip(path.alpha, path.objective, path.gap, path.survivors, strict=True):
            truth = certify(problem, alpha)
            assert (objective, gap) == (truth.objective, truth.relative_gap), what
            assert survivors == np.sum(np.abs(alpha) > 1e-8 * np.abs(alpha).max(initial=0.0)), what


CLASSICAL = [
    info.name
    for info in list_solvers()
    if not info.install and not info.quantum and hasattr(solver_class(info.name), "state_type")
]


#: Solvers whose states are like those of another solver, of a flow, of a population, of blocks, and the two slowest.
ALIKE = {"gradient-flow", "level-search", "particle-swarm", "evolution-strategy", "interior-point"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=[pytest.mark.slow] * (n in ALIKE)) for n in CLASSICAL), "walk"]
)
def test_whatever_is_forged_it_ends_with_the_true_gap_or_an_error(name, file, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    # With a tolerance of its own `working-set` makes a run, which can be saved.
    own = {"gap_tol": 5e-13} if name == "working-set" else {}
    solver = Walk() if name == "walk" else solver_class(name)(**own)
    kind = next(z.problem for z in zoo() if z.has_answer and not solver.mismatch(z.problem))
    problem = make_problem() if name == "walk" else kind
    settings = {"trajectory": True, "max_steps": 3, "random_state": 4}
    solve(problem, solver, checkpoint=file, tol=1e-12, **settings | {"max_steps": 1})
    header, arrays = _opened(file)
    accepted, count = set(), 0
    for what, forged_header, forged in _forgeries(header, arrays):
        _sealed(file, forged_header, forged)
        count += 1
        _true_gap_or_an_error(file, problem, solver, accepted, what, **settings)
    assert 0 < len(accepted) < count
    # A state that is α is held against the last row, and there is a row for every step; rounding may change nothing.
    bound = ("state:alpha", "row:alpha", "steps")
    assert not [what for what in accepted if what.startswith(bound) and not what.endswith("single")]


def test_rows_that_lie_are_certified_anew(saved):
    header, arrays = _opened(saved)
    assert {name for name in arrays if name.startswith("row:")} == {"row:t", "row:alpha", "row:multiplier", "row:shots"}
    arrays["row:alpha"][3] = arrays["row:alpha"][4]
    _sealed(saved, header, arrays)
    forged, whole = run(saved), run(None)
    assert forged.trajectory.gap[3] == forged.trajectory.gap[4] == whole.trajectory.gap[4]
    _sealed(saved, header, arrays | {"row:gap": np.zeros(11)})
    _refused(saved)


def test_the_state_of_another_solver_is_refused(file):
    problem = make_problem()
    solve(problem, SMO(), checkpoint=file, max_steps=1)
    header, arrays = _opened(file)
    own = file.with_name("own.npz")
    solve(problem, Walk(), checkpoint=own, max_steps=1)
    _sealed(file, header | {"key": _opened(own)[0]["key"]}, arrays)
    with pytest.raises(ProblemError, match=r"its state is not of \['alpha', 'k', 'rng'\]"):
        solve(problem, Walk(), checkpoint=file, max_steps=2)


@pytest.mark.parametrize(
    "state",
    [
        {"bit_generator": "seed", "state": {}},
        {"bit_generator": "test", "state": {}},
        {"bit_generator": "MT19937", "state": {"key": [0] * 624, "pos": 10**9}},
        {"bit_generator": "Philox", "state": {"counter": [0] * 4, "key": [0] * 2}, "buffer_pos": -5},
    ],
)
def test_a_generator_that_is_none_is_refused(saved, state):
    _rewrite(saved, lambda header: header | {"state": header["state"] | {"rng": state}})
    _refused(saved)


@pytest.mark.parametrize("kind", [np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM])
def test_every_generator_resumes(file, kind):
    def rng():
        return np.random.Generator(kind(3))

    run(file, random_state=rng(), max_steps=10)
    same(run(file, random_state=rng()), run(None, random_state=rng()))


def test_one_generator_resumes_its_run_and_moves_on_without_a_checkpoint(file):
    rng = np.random.default_rng(3)
    run(file, random_state=rng, max_steps=10)
    resumed = run(file, random_state=rng)
    same(resumed, run(None, random_state=rng))
    assert not np.array_equal(run(None, random_state=rng).raw_alpha, resumed.raw_alpha)


@pytest.mark.parametrize("earlier", [1, 2, 3])
def test_the_format_of_an_earlier_version_is_refused_in_a_sentence(saved, earlier):
    _rewrite(saved, lambda header: header | {"format": earlier})
    with pytest.raises(
        ProblemError, match=rf"has format {earlier}, this version reads 4: an earlier version of .* delete"
    ):
        run(saved)


def test_compressed_files_are_refused(saved):
    header, arrays = _opened(saved)
    content = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(saved, header=content, **arrays | {"state:alpha": np.zeros(1 << 22)})
    assert saved.stat().st_size < 1 << 16
    _refused(saved)


# --- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["numpy.savez", "os.replace", "os.fsync"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_litter(saved, monkeypatch, where):
    before = saved.read_bytes()

    def full(*arguments, **more):
        if where == "numpy.savez":
            arguments[0].write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(where, full)
    with pytest.warns(UserWarning, match=r"run\.npz could not be written at step 60: .*No space left.* goes on"):
        solution = run(saved)
    monkeypatch.undo()
    same(solution, run(None))
    assert "No space left" in solution.provenance["checkpoint_error"]
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == ["run.npz"]
    same(run(saved), run(None))


def test_the_file_is_whole_at_every_moment(file, monkeypatch):
    real, moments = os.replace, []

    def replace_and_look(source, target):
        if Path(target).exists():
            with np.load(target) as archive:
                moments.append(json.loads(archive["header"].tobytes())["steps"])
        real(source, target)

    monkeypatch.setattr(os, "replace", replace_and_look)
    run(Checkpoint(file, interval_s=0.0), max_steps=5)
    assert moments == [1, 2, 3, 4, 5]  # what a kill before each rename would have left


def test_unsaved_fields_are_rebuilt_and_not_written(file):
    solve(make_problem(C=100.0), SMO(), checkpoint=file, max_steps=1)
    with np.load(file) as archive:
        header = json.loads(archive["header"].tobytes())
        assert "columns" not in header["state"]
        assert {"state:alpha", "state:h"} <= set(archive.files)


def test_the_generator_state_survives(saved):
    with np.load(saved) as archive:
        header = json.loads(archive["header"].tobytes())
    state = header["state"]["rng"]
    rng = np.random.default_rng(4)
    rng.standard_normal(10 * 20)
    assert np.array_equal(generator(state).standard_normal(3), rng.standard_normal(3))
    assert replace(WalkState(np.zeros(1), 0, {}), rng=state).rng == state
