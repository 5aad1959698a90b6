"""The answers to reads, as values: groups, queues, sites, peers, links, decisions and figures. The engine makes them
from its state for a `Reply`. Those with the base in `shown.py` are the client's messages themselves; `node/api` makes
messages of the others. The journal keeps each `Decision`. They are made for people and programs outside and never are
the engine's own state. Read `views.py` first, then `decision.py`, a placement with its reasons."""
