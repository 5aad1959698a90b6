"""The ground of every run: virtual time, chance from one seed, the drawn faults, and the digest of all that was
decided. Callbacks come in with their times and run in the total order of time and sequence, so that a run is its seed
and nothing else. Each user of chance gets a stream of its own, and each fault is numbered as it is drawn. Read
`clock.py` first, then `chance.py` and `faults.py`."""
