"""The verbs that try diana out: the demo on real processes, simulations under a virtual clock, and scenarios on real
nodes. A scenario file or options come in; the work is done by `diana.demo`, `diana.sim` and `diana.trial`, which are
imported when the verb runs. Reports are printed as text or JSON, and the exit code says whether the expectations held.
Read `trial.py` first, then `scenario.py`; `on_grid.py` runs a comparison's seeds as jobs of a diana grid."""
