"""Processes that a job leaves behind: known as its own whatever they did to environment, session and parent
(`marks.py`), found among our children (`strays.py`), and ended faster than they fork (`sweep.py`). In comes which runs
go on and which are over; out goes of which of these anything was left. Read `marks.py` first."""
