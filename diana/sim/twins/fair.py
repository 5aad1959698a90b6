"""Max-min fair rates by progressive filling: no flow's rate can rise without lowering one that is not larger.

D. Bertsekas, R. Gallager, Data Networks, 2nd ed., section 6.5.2. Rates are those of SimGrid's CM02 without its
correction factors: the capacity of a link is what its flows may use of it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_SAME = 1.0 + 1e-12
"""Factor within which shares count as the smallest: links that differ by rounding are one bottleneck, not as many
rounds."""


def max_min(bytes_per_s: Floats, link: Ints, lane: Ints, flows: Floats) -> Floats:
    """Bytes per second of each flow of each lane. A lane is `flows[i]` flows over the same links; its flows share one
    rate.

    `bytes_per_s`: of each link. `link` and `lane`, of equal length, say which lane uses which link, each pair once.
    Lanes without flows get 0; none may have flows but no link. O(pairs + links) for each bottleneck that is filled; the
    order of the pairs changes nothing but rounding.
    """
    rate = np.zeros(len(flows))
    users = flows > 0
    keep = users[lane]
    link, lane = link[keep], lane[keep]
    left, links = bytes_per_s.astype(np.float64), len(bytes_per_s)
    weight = flows[lane]
    while len(link):
        load = np.bincount(link, weights=weight, minlength=links)
        share = np.full(links, np.inf)
        np.divide(left, load, out=share, where=load > 0)
        level = share.min()
        full = share <= level * _SAME
        filled = np.zeros(len(flows), dtype=bool)
        filled[lane[full[link]]] = True
        rate[filled] = level
        done = filled[lane]
        left -= level * np.bincount(link[done], weights=weight[done], minlength=links)
        np.maximum(left, 0.0, out=left)
        more = ~done
        link, lane, weight = link[more], lane[more], weight[more]
    return rate
