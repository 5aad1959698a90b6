"""The grace of a job: its seconds between SIGTERM and SIGKILL when it is cancelled, makes way for a gang or has come to
its time limit. What it writes until then is kept like all it wrote before."""

GRACE_S = 5.0
"""Where nothing else is said. A job whose lease is over has never more: another site may begin it soon after."""
SITE_GRACE_S = 300.0
"""Most that a site gives where its operator says nothing."""
LEAST_GRACE_S = 1.0
"""Least that a job may have."""
MOST_GRACE_S = 86400.0
"""Most that a job file may ask for, and a site may give."""
