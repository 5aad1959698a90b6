"""The main job, shown: five sites as real processes, 200 jobs over real input, one histogram, checked. Options of
`diana demo` come in; it generates Monte-Carlo events, starts a grid on this machine, submits one bulk group, and
checks every result. A picture, a table and the evidence go out. The job's program and the merge use the standard
library alone, because they travel to the sites. Read `drive.py` first, then `grid.py`, the sites, and `job.py`, the
job file."""
