"""The site's word to its users that a group is over: in come groups as they are closed, out go a signed call of a web
address or a mail, again and again until it arrived or a day has passed. It delays nobody: each try has a thread that
no exit waits for, and few are under way at once. Read `notices.py` first, then `sending.py`, which knows what may be
reached."""
