"""The places of gangs: all components of one at the same time, or none of it. A draft with its quotes comes in; what
sites tell becomes rooms (`rooms.py`), a policy of `policy/gang` finds a place in them, and a decision with its reasons
or a refusal goes out (`decision.py`). Groups of gangs wait for their turn in placement queues (`queues.py`). Read
`planning.py` first, then `placing.py`, which makes parts and offers of a decision."""
