"""The report of a run: per group, site and network, with bounds that no schedule can beat. A world that ended comes in
and is reduced to columns of its jobs; figures, flows between sites, data for pictures and HTML parts go out. The
top-level keys of a report are public. Read `report.py` first, then `outcome.py`, the columns, and `figures.py`, the
numbers of a comparison."""
