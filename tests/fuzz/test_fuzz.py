"""The quick form of ``python -m tests.fuzz``: some hundred inputs a target, and inputs made of defects that
were found."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from dualflow import ProblemError
from tests.fuzz import mutations
from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import CANARY, TARGETS, Defect, Target

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: Inputs a target, what a few seconds allow; a third of them in the quick tests.
EXECUTIONS = {"model": 150, "checkpoint": 60, "journal": 100, "csv": 200, "libsvm": 300, "svmlight": 300, "cli": 60}
EXECUTIONS |= {"points": 100, "parquet": 60, "trained": 40}
FOUND = Path(__file__).parent / "found"


@pytest.mark.parametrize("part", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_it(name, part):
    count = EXECUTIONS[name] // part
    done, found = fuzz(TARGETS[name], seed=20, executions=count)
    assert done == count
    assert [how for _, how in found] == []


@pytest.mark.parametrize("path", sorted(FOUND.glob("*-*")), ids=lambda path: path.name)
def test_what_broke_it_once_is_refused_now(path):
    TARGETS[path.name.partition("-")[0]](path.read_bytes())


def wrong(folder, content):
    if content != b"sound":
        raise KeyError("wrong")


def hungry(folder, content):
    try:
        raise MemoryError
    except MemoryError as error:
        raise ProblemError("it is damaged") from error


def curious(folder, content):
    importlib.import_module(CANARY)


@pytest.mark.parametrize(
    ("run", "how"), [(wrong, "KeyError"), (hungry, "more memory"), (curious, "a module was imported")]
)
def test_a_reader_with_a_fault_is_found(run, how):
    target = Target("faulty", lambda: [b"sound"], mutations.flipped, lambda *_: None)
    assert fuzz(target, seed=0, executions=20) == (20, [])
    object.__setattr__(target, "run", run)
    if run is wrong:
        done, found = fuzz(target, seed=0, executions=20)
        assert done == 20
        assert how in found[0][1]
    else:
        with pytest.raises(Defect, match=how):
            target(b"x")
