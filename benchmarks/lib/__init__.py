"""What the benchmarks share: data, entrants, the harness, and what is said of a run."""
