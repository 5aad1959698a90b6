"""The main job, shown: five sites as real processes, 200 jobs over real input, one histogram, checked."""
