"""Variables that name folders which only the machine that starts a job knows: where it begins, and that of the node."""

SUBMIT_DIR = "SLURM_SUBMIT_DIR"
"""Scripts for Slurm change into the folder that it names."""
HERE = "."
"""Its value as it travels, unless a folder was named in which the job begins; a machine of an older release leaves it
so, and means the same until the job goes elsewhere.
"""

DATA = "DIANA_DATA"
"""The data directory of the node by which a job submits; `client/where.py` reads it by the same name (not imported
there: `diana submit` counts milliseconds)."""


ARRAY_TASK = "DIANA_ARRAY_TASK_ID"
"""The job's value of its group's array, as its job file has it."""


def may_set(name: str) -> bool:
    """True for a variable that a group may set for its jobs: what else is called like ours is ours alone."""
    return name in (DATA, ARRAY_TASK) or not name.startswith("DIANA_")
