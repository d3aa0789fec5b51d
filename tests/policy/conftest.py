"""Fixtures of the policy tests."""

import pytest
from support.fits import remember_fits


@pytest.fixture(autouse=True)
def fits_made_once(monkeypatch):
    remember_fits(monkeypatch)
