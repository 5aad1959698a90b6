"""Judges of a run: the invariants, and the coverage of operations by faults."""
