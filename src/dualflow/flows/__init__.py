"""Floor 1: what moves. Vector fields on the dual variables, apart from how they are integrated."""
