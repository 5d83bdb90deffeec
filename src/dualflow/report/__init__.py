"""The result of a comparison, shown in the terminal, as CSV, or as one HTML file."""

from .comparison import Comparison
from .model import Row, Section, ranks_by_excess

__all__ = ["Comparison", "Row", "Section", "ranks_by_excess"]
