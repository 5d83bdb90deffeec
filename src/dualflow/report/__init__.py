"""What a comparison found, and the ways to show it: terminal, CSV, one HTML file."""

from .model import Comparison, Row, Section

__all__ = ["Comparison", "Row", "Section"]
