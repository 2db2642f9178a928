"""The only door to the API server. One module in here writes: `write`."""
