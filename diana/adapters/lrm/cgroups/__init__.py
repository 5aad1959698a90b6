"""Control groups of the kernel. In comes what /proc says of this process; out goes what its groups leave it of the
machine's processors and memory (`bounds.py`), and a group for each running job where one may be made (`per_job.py`).
Every file is read below a root, which is another one in tests. Read `found.py` first."""
