"""A comparison as one self-contained HTML file."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..persistence.text import visible
from .chart import chart
from .columns import QUANTUM, RESULTS, limits, status_text
from .model import Results
from .terminal import reference_text
from .verdict import overall, verdict

__all__ = ["render"]


def render(comparison: Results) -> str:
    """The file's text. Names and reasons come from anyone's solvers: everything is escaped."""
    environment = Environment(
        loader=PackageLoader("dualflow", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tol = float(comparison.settings["tol"])
    return environment.get_template("comparison.html.j2").render(
        comparison=comparison,
        charts=[chart(section, tol) for section in comparison.sections],
        results=RESULTS,
        quantum=QUANTUM,
        limits=limits(tol),
        settings={name: _setting(value) for name, value in comparison.settings.items() if value is not None},
        status_text=status_text,
        reference_text=reference_text,
        overall=overall,
        verdict=verdict,
    )


def _plain(value: object) -> object:
    """Text without control characters, for whoever looks at the file in a terminal; markup of our own stays."""
    return visible(value, "\n") if isinstance(value, str) and not isinstance(value, Markup) else value


def _setting(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
