#!/bin/sh
#SBATCH --job-name=squares
#SBATCH --array=1-100%20
#SBATCH --time=1
#DIANA outputs.collect=square-{array}.txt
echo $((SLURM_ARRAY_TASK_ID * SLURM_ARRAY_TASK_ID)) > "square-$SLURM_ARRAY_TASK_ID.txt"
