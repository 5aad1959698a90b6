"""The dashboard: pages in a browser, served by the node itself."""
