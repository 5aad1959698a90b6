"""The answers to reads, as values: groups, queues, sites, peers, links, decisions and figures. The engine makes them
from its state for a `Reply`; `node/api` turns them into the client messages of equal field names, and the journal keeps
each `Decision`. They are made for people and programs outside and never are the engine's own state. Read `views.py`
first, then `decision.py`, a placement with its reasons."""
