"""The dashboard: pages in a browser, served by the node itself. A browser's requests come in over HTTP with a token got
from the client service, and are answered by the same calls, roles and limits as any client's; a live feed sends the
sections of the view that changed. The pages' own files are static. A node nobody looks at loads nothing of it. Read
`server.py` first, the socket, then `pages.py`, the answers to a browser, and `live.py`, the feed."""
