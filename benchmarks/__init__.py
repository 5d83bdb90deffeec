"""The claims of the package, measured: one file a claim, run from the project's root (README.md)."""
