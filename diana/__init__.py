"""diana: a peer-to-peer meta-scheduler for bulk work over several sites."""

__version__ = "0.2.0"
