"""Estimates of what a run takes before anything is sent: circuits, shots, gates, time and money."""
