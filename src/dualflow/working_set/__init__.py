"""Floor 2: block decomposition with a compiled pair loop, and the seeds it starts from."""
