"""What a comparison found, and the ways to show it: terminal, CSV, one HTML file."""

from .comparison import Comparison
from .model import Row, Section, ranks_by_excess

__all__ = ["Comparison", "Row", "Section", "ranks_by_excess"]
