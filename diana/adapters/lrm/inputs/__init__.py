"""Inputs in a job's directory. What was staged comes in; plain files of the job's own stand there (`placing.py`), or,
where that would be too much, links that are looked at before and after the job (`links.py`), in whose place the job's
machine puts read-only mounts if it can (`mounts.py`). Read `placing.py` first."""
