"""Other people's workflow engines as users of diana: what they run becomes groups of jobs, through the client alone.
Ready jobs of Snakemake come in and leave as job files, one group per rule and needs; ends of jobs are asked by group
and told back to Snakemake. Nothing of it runs in a node. Read `snakemake_executor.py` first, then `rule_jobs.py`, which
forms the groups."""
