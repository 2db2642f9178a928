"""Benchmarks, run by hand: their timings are read by people and never asserted."""
