"""The verbs of an operator: found a site, join a VO, run, stop and back up a node, drain and ban, look at peers, `diana
doctor`. Words of the command line come in; most go to the running node as one call, while init, join, backup and
restore work on a data directory without a node. Answers are printed as lines, tables or JSON. Read `site.py` first,
init, node and stop, then `admin.py`, the orders of `diana site`."""
