"""The limits of the data side of a node; each value checks itself at birth."""

from __future__ import annotations

from dataclasses import dataclass

CHUNK_BYTES = 1 << 20
"""Bytes of data in one frame; well below the message limit of 4 MiB."""


@dataclass(frozen=True, kw_only=True)
class StagingLimits:
    orders: int = 16
    """Orders (stage in, gather) worked on at once; others wait."""
    streams_per_site: int = 2
    """Fetching streams open to one site at once."""
    streams: int = 16
    """Fetching streams open at once."""
    serving_streams: int = 64
    """Reading streams served at once; more are refused with a retry."""
    serving_streams_per_reader: int = 8
    """Most reading streams served at once to one peer."""
    requests_in_flight: int = 512
    """Files asked for on one stream before they have arrived."""
    buffered_chunks: int = 4
    """Received chunks per stream that wait for the disk before the sender is slowed down."""
    threads: int = 4
    """Threads for hashing and file IO."""
    stall_s: float = 20.0
    """Seconds after which a stream that brings nothing is given up."""
    patience_s: float = 60.0
    """Seconds for which sources that cannot be reached are asked again while nothing arrives."""
    retry_first_s: float = 0.2
    retry_most_s: float = 5.0
    url_streams: int = 8
    """URLs read or written at once."""
    url_streams_per_host: int = 4
    """Most URLs read or written at once at one host or bucket."""
    cache_bytes: int = 0
    """Unpinned cached content kept; 0: 10 GiB or half of the free space, whichever is less."""
    manifest_bytes: int = 4 << 30
    """The longest list of a dataset's files that is taken from another site; about 110 bytes a file."""
    rate_bytes_per_s: int = 0
    """Most bytes per second of all that is fetched, and of all that is served, the streams sharing it evenly; 0: no
    limit."""
    reserve_bytes: int = 512 << 20
    """Bytes never filled; on a small disk 5 % of it, if that is less."""

    def __post_init__(self) -> None:
        ranges: tuple[tuple[str, float, float], ...] = (
            ("orders", 1, 10_000),
            ("streams_per_site", 1, 100),
            ("streams", 1, 10_000),
            ("serving_streams", 1, 10_000),
            ("serving_streams_per_reader", 1, 10_000),
            ("requests_in_flight", 1, 100_000),
            ("buffered_chunks", 1, 1_000),
            ("threads", 1, 256),
            ("stall_s", 0.05, 3600),
            ("patience_s", 0.0, 86400),
            ("retry_first_s", 0.001, 3600),
            ("retry_most_s", 0.001, 3600),
            ("url_streams", 1, 1_000),
            ("url_streams_per_host", 1, 1_000),
            ("cache_bytes", 0, 1 << 60),
            ("manifest_bytes", 1 << 10, 1 << 50),
            ("rate_bytes_per_s", 0, 1 << 50),
            ("reserve_bytes", 0, 1 << 60),
        )
        for key, low, high in ranges:
            value = getattr(self, key)
            if not low <= value <= high:
                raise ValueError(f"{key} = {value}: want {low:g} to {high:g}")
