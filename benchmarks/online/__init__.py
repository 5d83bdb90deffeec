"""Machines that learn a point at a time."""
