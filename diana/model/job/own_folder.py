"""A variable that names the directory in which a job begins, which only the machine that starts it knows."""

SUBMIT_DIR = "SLURM_SUBMIT_DIR"
"""Scripts for Slurm change into the folder that it names."""
HERE = "."
"""Its value as it travels, unless a folder was named in which the job begins; a machine of an older release leaves it
so, and means the same until the job goes elsewhere.
"""
