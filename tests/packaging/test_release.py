"""What a release needs agrees: versions, bounds of the conda recipe, commands of the workflows."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def version(*arguments):
    return subprocess.run([sys.executable, ROOT / ".ci" / "version.py", *arguments], capture_output=True, text=True)


def test_all_files_name_one_version():
    assert version().stdout == f"one version: {PROJECT['version']}\n"


def test_a_tag_of_another_version_is_refused():
    assert version("v99.0.0").returncode == 1


def test_the_conda_recipe_needs_what_the_package_needs():
    [needed] = re.findall(r"\n  run:\n    - python\n((?:    - .*\n)+)", RECIPE)
    assert {line.strip(" -").replace(" ", "") for line in needed.splitlines()} == set(PROJECT["dependencies"])


def test_workflows_are_read_and_their_programs_exist():
    yaml = pytest.importorskip("yaml")
    found = set()
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            assert job.get("uses") or job["steps"], path.name
            commands = " ".join(step.get("run", "") for step in job.get("steps", ()))
            found |= set(re.findall(r"(?:^|[ /])((?:\.ci|tests|docs)/[\w./]+)", commands))
    assert {".ci/run", ".ci/oldest", ".ci/version.py", "tests/packaging/fit_installed.py"} <= found
    assert [name for name in found if not (ROOT / name).exists()] == []
