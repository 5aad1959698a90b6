"""Stocktaking of an origin whose database was put back from an older copy. Each peer tells, in `Holdings` messages,
every transfer that it holds or held for this site, and its word counts more than the copy's. Until all have told, none
of the old groups goes on; then parts are adopted, marked done, or placed anew under higher epochs, and an operator may
order the site to go on without a missing peer. The doubt itself, whether a journal lacks its end, is judged in
`diana.engine.site`. Read `stocktaking.py`, the only module."""
