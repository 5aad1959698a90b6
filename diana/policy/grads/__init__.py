"""Decisions about an application from a model of its run (papers/grads-scheduling.txt): its time at a site or on a set
of machines, the division of its data, the choice of machines. Values of sites and machines come in, as do equations of
a job file; seconds, maps and machines go out. Read `models.py` first: what a model foretells of a site."""
