"""The links of a scenario run (`diana/trial/links.py`) between the nodes of a test's grid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.trial.links import Shape as Shape
from diana.trial.links import ShapedLinks
from tests.e2e.grid import Grid


class Network:
    """Between the sites of a grid. `links`: (site, site) -> shape, both ways; others are of `default`."""

    def __init__(self, grid: Grid, links: Mapping[tuple[str, str], Shape], default: Shape) -> None:
        self._grid = grid
        shapes = {frozenset(pair): shape for pair, shape in links.items()}
        self._links = ShapedLinks(lambda a, b: shapes.get(frozenset((a, b)), default), self._nodes)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self._links.close()
        assert not self._links.faults, "\n".join(self._links.faults)

    def join(self) -> None:
        """A proxy before each site that is not started yet; all are told of the proxies, and of nothing else."""
        proxies = {name: self._links.open(name, site.address) for name, site in self._grid.sites.items()}
        for name, site in self._grid.sites.items():
            config = load_config(site.paths.config)
            peers = tuple(address for other, address in proxies.items() if other != name)
            config = msgspec.structs.replace(config, advertise=proxies[name], peers=peers, zeroconf=False)
            write_config(site.paths.config, config)

    def moved_bytes(self) -> int:
        """Over all links so far, messages included."""
        return self._links.moved_bytes()

    def _nodes(self) -> Iterator[tuple[str, int]]:
        for name, site in self._grid.sites.items():
            if site.process is not None:
                yield name, site.process.pid
