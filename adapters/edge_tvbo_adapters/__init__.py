"""Adapters: the outside world, one package per thing."""

from edge_tvbo_adapters.mqtt.deferring import defer

defer("urllib.request")  # paho imports it for proxies, and all of HTTP with it: a tenth of a start
