"""Enrolment: machines, sites and users come into the VO, and certificates are renewed. An operator's invitation leaves
as a token; a newcomer comes in with the token and a request for a certificate, and gets a certificate that ends at the
VO's root, or one line of refusal. Members come back for renewals with the same key, and a site that cannot sign passes
them to one that can. Read `service.py` first, the inviter's side, then `joining.py`, the work of `diana join`;
`wiring.py` composes both for a running site."""
