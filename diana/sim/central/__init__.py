"""Central policies with perfect information, and lower bounds."""
