"""The verbs about groups of jobs: submit and plan, look, follow, and change. Job files or names of groups come in;
calls to the node go out through `diana.client`, and their answers are printed as tables, lines or JSON. Waiting verbs
stay with a group until it is final and return an exit code that says how it ended. Read `work.py` first, submit and
plan, then `look.py` and `follow.py`; `decisions.py` prints why a group was placed as it was."""
