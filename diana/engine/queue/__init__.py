"""The multilevel feedback queues of one site, which say the job to start next. Custodies come in as entries when their
jobs wait and leave when they start or end; `dispatch` asks for the order of classes, and `views` and `migration` ask
how each class stands. Jobs that share a user, width and age share a priority, so that costs go by classes and never by
jobs. Little's law is measured beside it, as a check of the figures. Read `queues.py` first, then `classes.py`, the
table of priorities."""
