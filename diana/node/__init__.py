"""One `diana` process of a site: it puts settings, adapters and the engine together and runs them. `site.toml` and a
data directory come in at the start, then calls of clients, streams of peers and the events of jobs; out go the
adapters' work and the answers. A machine's role decides what is composed: a site's leading node here, a follower in
`pair`, a machine that only runs jobs in `member`. Read `app.py` first, the composition root, then `loop/runner.py`, the
loop between events and durable effects; `linking.py` composes the way to other sites."""
