"""Warm programs: one parent for each group and slot, which has loaded what the group's jobs need and forks a child for
each job. In comes a claimed run that may be started so; out goes the pid of a child of the spawner, which leads a
session of its own, bears the mark of its run and waits for a word before it does anything. A parent that fails is
ended, and its group's jobs are started one by one. Read `parents.py` first."""
