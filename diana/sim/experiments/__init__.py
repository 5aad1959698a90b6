"""Experiments over many runs: comparisons of policies and loads, replays of logs, failing seeds made small,
alternatives to a plan. A scenario and seeds come in and are run over all cores; tables with intervals, one
self-contained page or a smaller scenario go out. A run is reduced to its figures where it ran. Read `compare.py` first,
then `fanout.py`, the cores, and `shrink.py`, which makes a failing seed small."""
