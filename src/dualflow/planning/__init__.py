"""What a run would take: circuits, shots, money and time, before anything is sent."""
