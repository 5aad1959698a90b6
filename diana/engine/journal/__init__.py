"""The durable side of the engine: its events, its effects, the records of its journal, and the state that these fold
into. Handlers of all other engine packages persist records through `Context.persist`, which applies them to `SiteState`
at once and passes them to the driver as `Persist` effects; a restart folds the stored records of `codec.py` again. The
fold is bookkeeping: it asks no policy, reads no clock and cannot refuse. Read `records.py` first, the facts that a site
writes down, then `state.py`, what they add up to, and `fold.py`, the only writer of that state; `events.py` and
`effects.py` are the engine's border to its driver."""
