"""Outputs of finished jobs on their way to the group's folder at the origin. An order to gather one batch comes in with
the facts that name its files; each file is fetched from the executing site, verified, and appears complete or not at
all. A finished group's outputs can become a dataset of this site, and files that lie on the site's other machine are
read there. Read `outputs.py` first, then `produced.py`."""
