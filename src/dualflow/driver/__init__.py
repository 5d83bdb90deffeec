"""The driver: `solve`, the run that steps a solver, certificates of its results, and checkpoints."""
