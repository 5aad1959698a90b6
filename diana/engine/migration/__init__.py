"""Moves of queued work away from a congested site to one that would end it earlier. The executing site looks for
surplus jobs (`surplus.py`) every few seconds and tells their origin; the origin prices them elsewhere, asks for
capacity there, calls the granted jobs back and places them anew. Out go the messages `Surplus` and `RoomRequest` and,
once capacity is granted, the recall orders of `placement`. Nothing here is durable: a lost message is looked at again.
Read `surplus.py` first, then `origin.py` and `moves.py`, the origin's side; `stranded.py` sends back jobs that no
machine here can run any more, `unmet.py` calls back those that wait where their requirements hold no more."""
