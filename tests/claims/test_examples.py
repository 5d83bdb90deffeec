"""Every public name stands in the reference and has an example, and every example of a docstring runs."""

import doctest
import importlib
import importlib.util
import re
import warnings
from pathlib import Path

import pytest

from tests.combinations import often

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")


def public_modules():
    """Those that conf.py names."""
    text = (DOCS / "conf.py").read_text(encoding="utf-8")
    return re.findall(r'"([\w.]+)"', re.search(r"^PUBLIC = \((.*?)\)", text, flags=re.DOTALL | re.MULTILINE)[1])


def listed(text):
    """Full names that the reference lists."""
    found = set()
    for block in re.findall(r"```\{eval-rst\}\n(.*?)```", text, flags=re.DOTALL):
        module = re.search(r"currentmodule:: ([\w.]+)", block)[1]
        found |= {f"{module}.{name}" for name in re.findall(r"^   (\w+)$", block, flags=re.MULTILINE)}
    return found


def public_names():
    """(module, name) of all that stands in an ``__all__`` and is no module; what is in two modules once."""
    seen, names = set(), []
    for module in public_modules():
        room = importlib.import_module(module)
        for name in room.__all__:
            value = getattr(room, name)
            if name.startswith("__") or type(value).__name__ == "module":
                continue
            if callable(value) and id(value) in seen:
                continue
            seen.add(id(value))
            names.append((module, name))
    return names


NAMES = public_names()
CALLABLE = [(module, name) for module, name in NAMES if callable(getattr(importlib.import_module(module), name))]
#: Their examples take a second or more, and start processes or repeat that of a function which is not slow.
SLOW = {"SpreadDevice", "ScalingDisplay", "ScalingStudy", "CheckReport", "CheckFailed", "Faults"}


def test_all_public_names_and_no_others_are_in_the_reference():
    assert len(NAMES) > 100
    assert listed(REFERENCE) == {f"{module}.{name}" for module, name in NAMES}


def test_a_name_that_is_missing_is_seen():
    assert listed(REFERENCE) - listed(REFERENCE.replace("\n   certify\n", "\n")) == {"dualflow.certify"}


@pytest.mark.parametrize(
    ("module", "name"), often(CALLABLE, *(case for case in CALLABLE if case[1] not in SLOW)), ids=lambda text: text
)
def test_it_has_an_example_that_runs(module, name):
    value = getattr(importlib.import_module(module), name)
    if name == "QPSolvers":
        pytest.importorskip("qpsolvers")
    assert "Examples\n" in (value.__doc__ or ""), f"{module}.{name} has no Examples"
    finder = doctest.DocTestFinder(recurse=False)
    tests = [test for test in finder.find(value, name) if test.examples]
    assert tests, f"the Examples of {module}.{name} hold no code"
    for test in tests:
        said = []
        with warnings.catch_warnings():  # an example may set filters
            failed = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False).failed
        assert not failed, "".join(said)
