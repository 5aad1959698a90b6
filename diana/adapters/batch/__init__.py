"""Clusters: machines of a site whose jobs a batch system starts (Slurm, Grid Engine, HTCondor, PBS). Orders of the
engine come in and leave as arrays of the batch system; ends of jobs come back from files in the array's folder, which
cluster and node share. The batch system is asked only about jobs that have not begun or ended without a word. All that
was given is in a ledger until the engine says forget. Read `cluster.py` first, the node's side and the same for all
systems, then `book.py`; the systems' own ways stand behind `systems/system.py`."""
