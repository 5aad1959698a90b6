"""The virtual-clock driver: the engine the node runs, thousands of sites at a time, one seed, no real time. A scenario
and a seed come in; a run has a safety phase with faults, then everything heals and has to come to an end. Reports,
invariants that were broken and the options of each seed go out, and a failing seed can be made small. The sub-packages
from the ground up are `kernel`, `specs`, `scenario`, `load`, `twins`, `checks`, `world`, `faults`, `report`, `central`
and `experiments`. Read `main.py` first, the work of `diana simulate`, then `world/runner.py`, one simulation."""
