"""A scenario on real nodes: the same file the simulator reads, on processes, network namespaces or docker-compose."""
