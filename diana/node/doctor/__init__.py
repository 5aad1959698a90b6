"""`diana doctor`: looks at everything a site stands on, says in a line each what was found and how to mend it. A data
directory comes in, and a list of check results goes out. It must work without a node, with a node that hangs and on a
broken disk, so each check stands alone, has a time of its own and changes nothing. The asking process looks at files
and kernel (`files.py`, `trust.py`, `machine.py`); the running node, if there is one, tells what it alone knows
(`running.py`), and either looks at how others are reached (`network.py`). Read `checkup.py` first, the list of all
checks."""
