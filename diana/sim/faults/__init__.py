"""The faults that strike a simulated world: crashes, outages of a site, cut links, and the events that a scenario
plans. Rates and numbered draws come in from `sim/kernel`; out go orders to sites, machines and network, each counted so
that a report can say what struck. Swarm testing draws a workload of its own for each seed. Read `mishaps.py` first,
then `outages.py` and `planned.py`; `swarm.py` makes the drawn scenario."""
