"""The papers this package comes from, redone: one file a paper, `python -m benchmarks.papers` for all."""
