"""The program as a process of its own, against both clusters: what an operator does, and what then is so."""
