"""The origin's choice of sites for a group's jobs, and its orders about jobs already placed. Submissions and unplaced
jobs come in as a `Draft`; a round of quotes asks a short list of sites, `policy` prices them, and a decision with
its reasons goes out as a record and as offers of `handover`. Users' orders to cancel, hold, move and release come in
here too, and leave as one standing order per transfer. Work is called back from a site that drains, has no slots or
fails it, and is placed anew. Jobs that are bound late wait for the call of a site (`late.py`, `reservations.py`);
gangs are placed whole (`gangs/`).
Read `decide.py` first, from quotes to parts, with `draft.py` and `quote_round.py`; `control.py` has the standing
orders."""
