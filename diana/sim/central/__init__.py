"""Central schedulers with perfect information, as a bound for comparison: they know every machine, every true run time
and every free processor. A scenario, a seed and the name of a policy come in; the jobs are those of the simulated
users, and an outcome of the same form as a real run's goes out. No engine is involved. Read `central.py` first, then
`mapping.py`, the heuristics min-min and sufferage, and `jobs.py`, the jobs as they know them."""
