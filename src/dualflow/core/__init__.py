"""Floor 0: kernels, the canonical dual problem, its certificate, its support set. numpy and scipy only."""
