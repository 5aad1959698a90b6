"""Rules of late binding: how far ahead of its start a job is bound to a site, and how many are called at
once, and which jobs those are. Comes in: run times, stage-in times, capacities, holders of data. Goes out: numbers and
index sets. Begin with `horizon.py`."""
