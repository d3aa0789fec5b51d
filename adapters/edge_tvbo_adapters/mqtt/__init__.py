"""MQTT on paho: the daemon's link to its broker, and short sessions of the command line."""

from paho.mqtt import __version__ as installed

from edge_tvbo.errors import UntestedPackage

TESTED_PAHO = ">=2.2,<3"  # as in pyproject.toml; 1.x, which Debian 12 packages, has another API

if not ((2, 2) <= tuple(map(int, installed.split(".")[:2])) < (3,)):
    raise UntestedPackage("paho-mqtt", installed, TESTED_PAHO)
