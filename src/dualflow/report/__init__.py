"""The result of a comparison, shown in the terminal, as CSV, or as one HTML file."""

from .comparison import Comparison
from .model import TIE_FACTOR, Row, Section, ranks_by_excess

__all__ = ["TIE_FACTOR", "Comparison", "Row", "Section", "ranks_by_excess"]
