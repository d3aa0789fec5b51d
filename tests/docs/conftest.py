"""Fixtures of the tests of the pages: environments that the commands of the README made."""

import pytest
from support.installation import environment_on, install


@pytest.fixture(scope="session")
def base(shared_directory):
    """Return the `bin` of the installation that the README's commands made."""
    return install(shared_directory / "installation")


@pytest.fixture
def installed(base, tmp_path_factory):
    """Return the `bin` of an environment in which only the README's commands were run."""
    return environment_on(base, tmp_path_factory.mktemp("environment"))
