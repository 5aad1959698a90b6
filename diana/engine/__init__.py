"""The sans-IO state machine of one site: events in, ordered effects out, no clock, no chance. A driver (`node/loop` or
`sim/world`) brings events (`journal/events.py`) with the site time, makes the records among the effects
(`journal/effects.py`) durable, and then releases the other effects in their order. Messages to and from other engines
are the values of `messages`, and the state is the fold of the journal's records. Read `engine.py` first, the one door,
whose `handle` sends each event to its handler; then `handover`, the protocol that gives work to another site, and
`placement`, which chooses the site."""
