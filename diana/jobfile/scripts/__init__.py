"""Scripts as job files: a script's text as an editor left it comes in; the data of a job file goes out, with the
options that its `#DIANA` and `#SBATCH` lines give, and notes for its author. Read `reading.py` first, the entry, then
`words.py` and `sbatch.py` for Slurm's options, `variables.py` for what a script for Slurm looks at, and `named.py` for
scripts that a job file names."""
