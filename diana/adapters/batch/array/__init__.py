"""One array of jobs on a cluster: its folder, its script, and what follows from both. An order for some jobs comes in
and becomes a folder and a POSIX shell script that each task runs; gates, ends and logs come back in that folder. A gate
is a file that can be made once, so that a job runs once however often the batch system starts its task. Tasks that told
no end are judged by gates and by the batch system's listing. Read `folder.py` first, then `script.py`, `live.py` and
`judging.py`."""
