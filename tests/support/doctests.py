"""Plugin of pytest: the collection of doctests.

It is no part of `conftest.py`, whose hooks would not be called for the modules of the packages.
"""

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Search a module for doctests only where there are prompts."""
    found = yield
    if file_path.suffix == ".py" and b">>> " not in file_path.read_bytes():
        found = [each for each in found if type(each) is pytest.Module]  # not a module of doctests
    return found
