"""The work of a scenario as columns: drawn from models, or taken from logs of real systems. Entries of the workload and
a seed come in; arrival times, sizes, run times, users and datasets go out as numpy arrays, with no object per job. Jobs
of others in a site's batch system are made in the same way. Read `generated.py` first, entries that are drawn, then
`traced.py`, entries that replay a log, with `swf.py`, the format of the logs."""
