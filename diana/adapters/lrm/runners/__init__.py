"""Runners: how the processes of a gang start at each of its sites, and find each other (SPEC K6). `interface` says what
one is given and answers; `own` has those of diana, `installed` those that an operator installed. `over_sites` is the
text that runs within a component of an MPI job over several sites."""
