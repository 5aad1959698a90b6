"""The allocation of a group's jobs to sites, whole or split. A `Demand` and its candidates come in
(`diana.policy.pricing`), and a `Plan` goes out: the parts with their sites, the prices of all sites, and the reason in
one line. Jobs without data are dealt out exactly, by water-filling; with data, several heuristics deal and the best
deal is taken. `baselines.py` makes the same plan by simple rules, for comparison. Read `splitting.py` first, then
`models.py`, the two cost models, and `heuristics.py`."""
