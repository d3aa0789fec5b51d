"""One module per outside thing; each provides a port of edge_tvbo and is found by entry point."""

from edge_tvbo_adapters.deferring import defer

defer("urllib.request")  # paho imports it for proxies, and all of HTTP with it: a tenth of a start
