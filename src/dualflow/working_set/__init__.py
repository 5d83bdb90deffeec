"""Block decomposition with a compiled pair loop, and the starts it needs."""
