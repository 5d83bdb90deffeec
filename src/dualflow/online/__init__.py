"""Floor 2: engines that learn and forget a point at a time."""
