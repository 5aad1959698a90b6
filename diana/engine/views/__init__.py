"""Answers to users and operators: read-only views made from the state, the queues and the words of other sites.
Requests come in as `Ask` events, and each leaves as one `Reply` whose value is a class of `diana.model.views`.
Questions about another site's queues wait a short time for that site's report. The counts for monitoring cost by what
changed, not by what the site holds. Read `answers.py` first, which sends each question to its view; `queries.py` asks
other sites, and `gauges.py` counts for monitoring."""
