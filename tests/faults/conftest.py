"""What the fault tests share: a mosquitto, whoever talks through it, and patience for soaks."""

import os

import pytest
from broker.conftest import broker, directory, drive, mosquitto, peer  # noqa: F401 - fixtures


def pytest_collection_modifyitems(config, items):
    """Leave out what takes long, unless it is asked for."""
    if os.environ.get("EDGE_TVBO_SOAK") or "soak" in config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="takes long; `make soak` runs it")
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(skip)
