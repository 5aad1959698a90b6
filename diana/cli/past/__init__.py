"""Verbs about the past of a grid: its history as files, and what it would have been under changes. Options come in;
files, tables or JSON go out. Read `history.py` first, then `whatif.py`."""
