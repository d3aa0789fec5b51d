"""Fixtures of the tests of the pages: environments that the commands of the README made."""

import os

import pytest
from support.installation import environment_on, install


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """Return the `bin` of the installation that the README's commands made."""
    directory = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        directory = directory.parent  # shared by all processes
    return install(directory / "installation")


@pytest.fixture
def installed(base, tmp_path_factory):
    """Return the `bin` of an environment in which only the README's commands were run."""
    return environment_on(base, tmp_path_factory.mktemp("environment"))
