"""The site: `python -m sphinx -b html -W --keep-going docs site`, with `pip install ".[docs]"`.

Pages are MyST Markdown; those of the gallery are notebooks in Markdown, executed by the build. Docstrings are
numpydoc, and the reference of every public name is made from `reference/api.md`.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
import sys
import warnings
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext import autosummary

import dualflow

HERE = Path(__file__).parent

project = "dualflow"
author = "the dualflow developers"
copyright = author
version = release = dualflow.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "numpydoc",
    "myst_nb",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints", "generated/losing_cells.md"]
templates_path = ["_templates"]
# Formulas become MathML when the site is built: browsers draw it without a script, with no network, and print it.
html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = f"dualflow {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"text": f"dualflow {version}"},
    # Install, Tutorials, How-to guides, API, Reference, Explanation; the pages of the project are under "More".
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
html_sidebars = {"index": [], "install": [], "changelog": [], "contributing": [], "history": [], "security": []}
html_show_sourcelink = False
# The Copy button leaves out prompts and output.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
# Copied sources and dates would make two builds of one tree differ.
html_copy_source = False
html_last_updated_fmt = None

# A name in single backticks in a docstring is a link, if there is a page of that name.
default_role = "py:obj"
autosummary_generate = True
# Else the first sentence of a docstring would end at "(paper eq.".
autosummary.WELL_KNOWN_ABBREVIATIONS += ("eq.", "eqs.")
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
add_module_names = False
# "On this page" has room for the last part of a name.
toc_object_entries_show_parents = "hide"

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
#: Files outside of this folder that the site shows, and the page that includes each.
SHOWN_THROUGH = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "reference/benchmark-claims.md",
    "benchmarks/results/README.md": "reference/benchmark-results.md",
    "circuits/README.md": "reference/circuits.md",
}

nb_execution_mode = "cache"
nb_execution_timeout = 60
nb_execution_raise_on_error = True
nb_merge_streams = True

# Examples run in an empty folder, where they may write files, and every warning is an error.
doctest_global_setup = """
import os as _os, tempfile as _tempfile, warnings
warnings.simplefilter('error')
_home, _folder = _os.getcwd(), _tempfile.TemporaryDirectory()
_os.chdir(_folder.name)
"""
doctest_global_cleanup = """
_os.chdir(_home)
_folder.cleanup()
"""
# Warnings of the tools that build the site are not faults of the site.
warnings.filterwarnings("ignore", module="myst_nb|jupyter_cache|zmq|traitlets")

#: Modules whose ``__all__`` is public; every name has its place in `reference/api.md`.
PUBLIC = (
    "dualflow",
    "dualflow.analog",
    "dualflow.cascade",
    "dualflow.problems",
    "dualflow.interchange",
    "dualflow.testing",
    "dualflow.testing.cloud",
    "dualflow.quantum.devices",
    "dualflow.quantum.circuits",
)

#: The page that shows the pictures of all pages it lists.
GALLERY = "tutorials/gallery/index"


def _links_from(text: str, folder: str, page: str) -> str:
    """`text` of a file in `folder` (of the repository), with its links to files as links from `page` (of the site)."""

    def as_seen_from_the_page(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        shown = SHOWN_THROUGH.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else None)
        if shown is None:
            return link[0]
        return f"]({posixpath.relpath(shown, posixpath.dirname(page) or '.')}{link[2] or ''})"

    def as_a_download(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2]))
        return f"{{download}}`{link[1]} <{posixpath.relpath(target, posixpath.dirname(f'docs/{page}'))}>`"

    # Circuits and notebooks are files beside the pages.
    text = re.sub(r"\[`?([^\]`]+)`?\]\((?![a-z]+:)([^)#\s]+\.(?:qasm|ipynb))\)", as_a_download, text)
    return re.sub(r"\]\((?![a-z]+:)([^)#\s]+\.md)(#[^)]*)?\)", as_seen_from_the_page, text)


def links_of_a_page(app: Any, docname: str, source: list[str]) -> None:
    """Links that lead out of this folder lead to the pages that show those files."""
    source[0] = _links_from(source[0], posixpath.dirname(f"docs/{docname}"), docname)


def links_of_an_include(app: Any, path: Path, parent: str, source: list[str]) -> None:
    """The same for a file that a page includes; its links are relative to its own folder."""
    folder = posixpath.normpath(posixpath.join("docs", path.as_posix(), ".."))
    source[0] = _links_from(source[0], folder, app.env.docname)
    # Circuits are files of the repository, which the site does not have: their paths stand in place of links.
    source[0] = re.sub(r"\[[^\]]+\]\(([^):\s]+\.qasm)\)", rf"`{folder}/\1`", source[0])


#: Authors whose papers docstrings cite by name and number of an equation: each name leads to the page of papers.
AUTHORS = "Bauckhage|Cauwenberghs & Poggio|Howell|Mierswa"


def escape_markup(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape |ψ⟩, |x| and support_ in docstrings, which reStructuredText would read as markup."""
    for at, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        # Text between backticks stays as it is.
        parts = re.split(r"(``.*?``|`[^`]*`)", line)
        for k in range(0, len(parts), 2):
            parts[k] = re.sub(r"(?<![\w*\\])([A-Za-z]\w*_)(?![\w*])", r"``\1``", parts[k].replace("|", r"\|"))
            parts[k] = re.sub(rf"\b({AUTHORS})('s)?\b", r":doc:`\1\2 </reference/papers>`", parts[k])
        lines[at] = "".join(parts)


#: Constants that a package re-exports: autodoc does not find the comments in their modules.
CONSTANTS = {
    "dualflow.quantum.devices.CATALOGUE": "Names of devices, and the module and class of each.",
    "dualflow.testing.BROKEN_SOLVERS": "Each broken solver and the name of the check that must reject it.",
    "dualflow.testing.WRONG_DEVICES": "Name and distortion of each wrong device.",
}


def describe_constant(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Describe a constant; all others of the API have a docstring."""
    if name in CONSTANTS:
        lines[:] = [CONSTANTS[name]]


def skip_inherited(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that scikit-learn's base classes define and document."""
    own = getattr(obj, "fget", obj)
    module = getattr(own, "__module__", "") or ""
    return True if module.startswith("sklearn.") or (name.startswith("set_") and name.endswith("_request")) else None


def check_public_names(app: Any, env: Any) -> None:
    """Warn of a public name without a page, or without an example; with -W the build fails."""
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    for module in PUBLIC:
        room = importlib.import_module(module)
        for name in room.__all__:
            value = getattr(room, name)
            if name.startswith("__") or inspect.ismodule(value):
                continue
            full = f"{module}.{name}"
            if full not in documented and f"dualflow.{name}" not in documented:
                app.warn_missing(f"{full} has no page: put it into docs/reference/api.md")
            if callable(value) and "Examples\n" not in (value.__doc__ or ""):
                app.warn_missing(f"{full} has no Examples in its docstring")


def write_losing_cells(app: Any) -> None:
    """Write the table of failed claims, from the tables of the benchmarks."""
    sys.path.insert(0, str(HERE))
    import losing_cells

    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    made = losing_cells.table(losing_cells.TABLES.read_text(encoding="utf-8"))
    path = folder / "losing_cells.md"
    if not path.exists() or path.read_text(encoding="utf-8") != made:
        path.write_text(made, encoding="utf-8")


def add_thumbnails(app: Any, doctree: Any, docname: str) -> None:
    """Show the pages of the gallery as cards: each page's last picture, its title and its first sentence."""
    if docname != GALLERY:
        return
    grid = nodes.container(classes=["gallery"])
    for page in app.env.toctree_includes[docname]:
        pictures = [image for image in app.env.get_doctree(page).findall(nodes.image) if "uri" in image]
        title = app.env.titles[page].astext()
        link = nodes.reference("", "", internal=True, refuri=app.builder.get_relative_uri(docname, page))
        # The title beside it says what the picture is; an empty text keeps screen readers from saying it twice.
        link += nodes.image(uri=pictures[-1]["uri"], candidates={"*": pictures[-1]["uri"]}, alt="")
        link += nodes.inline("", title)
        about = next(app.env.get_doctree(page).findall(nodes.paragraph)).astext().partition(". ")[0].rstrip(".:")
        grid += nodes.container("", nodes.paragraph("", "", link), nodes.paragraph("", f"{about}."), classes=["card"])
    next(doctree.findall(nodes.section)).append(grid)


def add_description(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Describe a page for search engines by its title and its first paragraph without formulas."""
    if doctree is None or not (title := next(doctree.findall(nodes.title), None)):
        return
    plain = (p.astext() for p in doctree.findall(nodes.paragraph) if not any(p.findall(nodes.math)))
    text = " ".join(f"{title.astext()}. {next(plain, '')}".split())
    short = text if len(text) <= 160 else text[:159].rsplit(" ", 1)[0] + "…"
    context["metatags"] += f'<meta name="description" content="{escape(short, quote=True)}">'


def write_formula(translator: Any, node: Any) -> None:
    """Write a formula as MathML, by docutils; one that docutils cannot translate is a warning."""
    block = isinstance(node, nodes.math_block)
    # docutils reads \frac12 as 12 over what follows.
    text = re.sub(r"(\\[dt]?frac)\s*(\w)\s*(\w)", r"\1{\2}{\3}", node.astext())
    try:
        formula = tex2mathml(text, as_block=block)
    except MathError as error:
        from sphinx.util import logging

        logging.getLogger("dualflow").warning("formula %r: %s", node.astext(), error, location=node)
        formula = f"<code>{escape(node.astext())}</code>"
    # Wide formulas scroll by themselves, by keys, too.
    translator.body.append(f'<div class="formula" tabindex="0">{formula}</div>' if block else formula)
    raise nodes.SkipNode


SUBPAGES = '<summary aria-label="Pages of this section">'


def mend_accessibility(app: Any, exception: Exception | None) -> None:
    """Add what axe-core requires and the theme omits: tab stops of tables and code, names of buttons."""
    if exception is not None or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        mended = text.replace(
            '<div class="pst-scrollable-table-container">', '<div class="pst-scrollable-table-container" tabindex="0">'
        )
        # Pictures that scroll where the window is narrow, see site.css.
        mended = re.sub(r'<p>(?=<img [^>]*src="[^"]*\.svg")', '<p class="wide" tabindex="0">', mended)
        mended = mended.replace('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">')
        # Another name than the one that is shown.
        mended = mended.replace(' aria-label="Toggle hidden content"', "")
        mended = re.sub(
            r'(search-button-field[^>]*) title="Search" aria-label="Search"', r'\1 aria-label="Search Ctrl+K"', mended
        )
        mended = mended.replace('<summary><span class="toctree-toggle"', f'{SUBPAGES}<span class="toctree-toggle"')
        if mended != text:
            path.write_text(mended, encoding="utf-8")


def setup(app: Any) -> None:
    from sphinx.util import logging

    app.warn_missing = logging.getLogger("dualflow").warning
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("builder-inited", write_losing_cells, priority=400)
    app.connect("source-read", links_of_a_page)
    app.connect("include-read", links_of_an_include)
    app.connect("autodoc-process-docstring", describe_constant, priority=100)
    app.connect("autodoc-process-docstring", escape_markup, priority=900)  # after numpydoc
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("env-check-consistency", check_public_names)
    app.connect("doctree-resolved", add_thumbnails)
    app.connect("html-page-context", add_description)
    app.connect("build-finished", mend_accessibility)
