"""Decisions about moving queued work between sites: whether a site is congested, which jobs move where, and how many a
receiver accepts. Rates of arrivals and starts come in, and classes of waiting jobs priced here and elsewhere; out go a
verdict, moves and, for each class that stays, the reason. A receiver's `Promises` keep it from being flooded by many
exporters at once. Read `plan.py` first, with `migrants.py`, its values; `congestion.py` decides when to look, and
`capacity.py` what is granted."""
