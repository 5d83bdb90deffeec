"""Check that a tag and all files name one version: ``version.py v0.1.0``. Without a tag, check the files alone."""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def found(name: str, pattern: str) -> str:
    """Return the first match in a file."""
    match = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return match[1] if match else "none"


versions = {
    "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
    "CITATION.cff": found("CITATION.cff", r"^version: (\S+)$"),
    "CHANGELOG.md": found("CHANGELOG.md", r"^## (\S+)"),
    ".ci/conda/recipe.yaml": found(".ci/conda/recipe.yaml", r"^  version: \"?([^\"\s]+)"),
}
if len(sys.argv) > 1:
    versions["tag"] = sys.argv[1].removeprefix("v")
    if "unreleased" in found("CHANGELOG.md", r"^## (.+)$"):
        sys.exit("CHANGELOG.md: the first version is still unreleased; write its date")
if len(set(versions.values())) > 1:
    sys.exit(f"versions differ: {versions}")
print(f"one version: {versions['pyproject.toml']}")
