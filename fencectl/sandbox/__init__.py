"""An API server inside this process, real enough for kubectl. Imports nothing of the package but core."""
