"""Tests of fencectl."""
