"""The past of real sites as something to simulate: what a node tells of its groups is written down as a log and a
scenario, replayed by the engine, compared with what truly happened, and tried again under changes. Answers of a node
or folders written earlier come in; folders, replays, differences and advice go out. Read
`recording.py` first, which writes a history, then `whatif.py`, which replays it."""
