"""Runners: how the processes of a gang start at each of its sites, and find each other (SPEC K6). Read `interface.py`
first: it says what a runner is given and answers. `own.py` has those of diana, `installed.py` those that an operator
installed. `over_sites.py` is the text that runs within a component of an MPI job over several sites."""
