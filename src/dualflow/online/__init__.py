"""Engines that learn and forget a point at a time."""
