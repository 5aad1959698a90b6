"""Clusters: machines of a site whose jobs a batch system starts (Slurm, Grid Engine).

`cluster.py` is the node's side, the same for all of them. Each batch system's own ways stand behind
`system.BatchSystem`. A job's end is told by a file its script leaves in the array's folder, which cluster and node
share; the batch system is asked only about jobs that have not begun or ended without a word.
"""
