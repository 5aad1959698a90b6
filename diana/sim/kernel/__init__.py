"""The base of a run: virtual clock, seeded chance, drawn faults, trace."""
