"""The working set of one engine, and the tables about this site and its view of the others that all other engine
packages read. `Context` comes in with every handler call; through it handlers persist records, send messages, set
timers and answer requests, and it collects the effects of the event at hand. The tables follow the records and the
peers' messages: running totals, transfers by site, the roster of priced sites, links, learned run times, groups that
wait for groups. `journal_doubt.py` judges whether this site's or a peer's journal lacks its end. Read `context.py`
first, then `view.py`, the other sites as they are known just now."""
