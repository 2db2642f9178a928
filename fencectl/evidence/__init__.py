"""Facts about holders. Asks, returns what was answered, decides nothing."""
