"""The spec of a bulk group: one template with its parameter sweep, and the needs of its jobs. A job file's reader makes
a `GroupSpec`; its canonical bytes are signed, stored and sent to other sites, which decode the same value. From spec
and index alone a site works out the arguments, inputs and outputs of each job, so that nothing is kept per job. Read
`spec.py` first, then `sweep.py` and `template.py`, which make a job's parameters and its text."""
