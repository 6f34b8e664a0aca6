"""Benchmarks: the same work on this project, on a hand-written floor, on the original, on peers."""
