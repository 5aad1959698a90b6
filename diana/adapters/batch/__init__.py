"""Clusters: machines of a site whose jobs a batch system starts (Slurm, Grid Engine).

`cluster.py` is the node's side, the same for all of them. What is particular to one batch system stands behind
`system.BatchSystem`. A job's end is told by a file its script leaves in the array's folder, which cluster and node
share; the batch system is asked only about what has not begun and what ended without a word.
"""
