"""Inputs in a job's directory. What was staged comes in; plain files of the job's own stand there (`placing.py`), or,
where that would be too much, links that are looked at before and after the job (`links.py`), in whose place the job's
machine puts read-only mounts if it can (`mounts.py`); where it cannot, links to the site's content lead to a copy for
the jobs of one subgroup (`apart.py`). Read `placing.py` first."""
