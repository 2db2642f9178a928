"""fencectl: fence a GitOps deploy, show what is still fenced, release it safely."""

__version__ = "0.1.0"
