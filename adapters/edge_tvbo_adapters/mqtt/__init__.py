"""MQTT with paho: the daemon's link to its broker, and short sessions of command-line commands."""

import paho.mqtt

from edge_tvbo.errors import UntestedPackage

TESTED_PAHO = ">=2.2,<3"  # as in pyproject.toml; paho 1.x of Debian 12 has another API
INSTALLED = paho.mqtt.__version__

if not ((2, 2) <= tuple(map(int, INSTALLED.split(".")[:2])) < (3,)):
    raise UntestedPackage("paho-mqtt", INSTALLED, TESTED_PAHO)
