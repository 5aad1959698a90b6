"""Jobs under the accounts of their owners: `run_as.py`, the one root program, and the node's side of it."""
