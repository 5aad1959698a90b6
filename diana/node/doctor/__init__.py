"""`diana doctor`: looks at everything a site stands on, says in a line each what was found and how to mend it.

It must work when nothing else does: without a node, with a node that hangs, on a broken disk. So each check stands
alone, has a time of its own, and changes nothing. What files and the kernel tell is looked at by the process that asks
(`files.py`, `trust.py`, `machine.py`); what only a running node knows, it is asked for (`running.py`); how others are
reached is looked at by whichever of the two can (`network.py`).
"""
