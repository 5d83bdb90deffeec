"""Refinement of an approximate solution to an exact one: an active-set method and its linear systems."""
