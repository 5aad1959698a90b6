"""A site's other machines: the RootGrid's LRM over all of them, and the member's side of the same streams.

Not a port's adapter of its own: it composes the embedded LRM and the data side, over machines.
"""
