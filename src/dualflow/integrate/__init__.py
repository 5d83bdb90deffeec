"""Floor 2: how it moves. Steppers for the flows."""
