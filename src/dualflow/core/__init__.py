"""Kernels, the canonical dual problem, its certificate, its support set. numpy and scipy only."""
