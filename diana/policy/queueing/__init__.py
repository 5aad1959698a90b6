"""Rules and forecasts of one site's queue: priorities and levels, backfilling, users' limits, and predicted starts.
Totals per user and class, free processors and past errors come in from `engine.queue` and `engine.dispatch`;
priorities, reservations, allowed numbers and times with a range go out. Everything is computed per class of equal jobs,
never per job. Read `priority.py` first, then `backfill.py` and `forecast.py`."""
