"""The protocol under a simulated clock, network and scheduler: one seed, one story, the same each time."""
