"""Jobs under the accounts of their owners. The node's side (`accounts.py`) looks up the local account of a job's owner
in this site's own list and gives that account access to the job's folders alone. `run_as.py` is the one program that
runs as root: a verb and an account come in, and it becomes that account for good before it runs, signals or releases
anything. Read `accounts.py` first, then `run_as.py`."""
