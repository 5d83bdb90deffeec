"""The site: `python -m sphinx -b html -W --keep-going docs site`, with `pip install ".[docs]"`.

Pages are MyST Markdown; those of the gallery are notebooks in Markdown, executed where they are built. Docstrings are
numpydoc, and the reference of every public name is made from `api.md`.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from typing import Any

import dualflow

project = "dualflow"
author = "the dualflow developers"
copyright = author
version = release = dualflow.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "dualflow"
#: Sources and dates would make every build another one.
html_copy_source = False
html_last_updated_fmt = None
pygments_style = "friendly"

# Single backticks in docstrings are names, where there is a page of that name.
default_role = "py:obj"
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
add_module_names = False

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Pages that other pages of the repository are shown through.
OUTSIDE = {
    "../SECURITY.md": "security.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../benchmarks/README.md": "benchmarks.md",
    "../circuits/README.md": "circuits.md",
}

nb_execution_mode = "cache"
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_merge_streams = True

doctest_global_setup = "import warnings\nwarnings.simplefilter('error')"
# Warnings of what the site is built with are not the site's.
suppress_warnings = ["toc.empty_glob"]
warnings.filterwarnings("ignore", module="myst_nb|jupyter_cache|zmq|traitlets")

#: Modules whose ``__all__`` is public; every name has its place in `api.md`.
PUBLIC = (
    "dualflow",
    "dualflow.problems",
    "dualflow.testing",
    "dualflow.testing.cloud",
    "dualflow.quantum.devices",
    "dualflow.quantum.circuits",
)


def links_to_outside(app: Any, docname: str, source: list[str]) -> None:
    """Links that lead out of this folder lead to the pages through which those files are shown."""
    for outside, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({outside})", f"]({page})")


def bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """|ψ⟩ and |x| in docstrings are kets and sizes, not substitutions of reStructuredText."""
    for at, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...", "|")):
            # What stands between double backticks is as it is.
            parts = re.split(r"(``.*?``)", line)
            lines[at] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)
        elif line.lstrip().startswith("|"):
            lines[at] = line.replace("|", r"\|")


def others(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What comes from scikit-learn's base classes is explained there."""
    own = getattr(obj, "fget", obj)
    module = getattr(own, "__module__", "") or ""
    return True if module.startswith("sklearn.") or name.startswith("set_") and name.endswith("_request") else None


def everyone_has_a_page(app: Any, env: Any) -> None:
    """A public name without a page, or without an example, ends the build."""
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    for module in PUBLIC:
        room = importlib.import_module(module)
        for name in room.__all__:
            value = getattr(room, name)
            if name.startswith("__") or inspect.ismodule(value):
                continue
            full = f"{module}.{name}"
            if full not in documented and f"dualflow.{name}" not in documented:
                app.warn_missing(f"{full} has no page: put it into docs/api.md")
            if callable(value) and "Examples\n" not in (value.__doc__ or ""):
                app.warn_missing(f"{full} has no Examples in its docstring")


def setup(app: Any) -> None:
    from sphinx.util import logging

    app.warn_missing = logging.getLogger("dualflow").warning
    app.connect("source-read", links_to_outside)
    app.connect("autodoc-process-docstring", bars, priority=900)
    app.connect("autodoc-skip-member", others)
    app.connect("env-check-consistency", everyone_has_a_page)
