"""What paho imports for proxies waits until somebody wants one."""

import subprocess
import sys

import pytest


def said(code):
    """Give what a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.split()


def test_a_link_to_the_broker_imports_no_http():
    code = "import sys, edge_tvbo_adapters.mqtt.link\n"
    assert said(f"{code}print(*{{'http.client', 'email'}} & set(sys.modules))") == []


@pytest.mark.parametrize(
    "use",
    [
        "import urllib.request; found = urllib.request.getproxies",
        "from urllib.request import getproxies as found",
        "import urllib; found = urllib.request.getproxies",
        "import paho.mqtt.client as it; found = it.urllib.request.getproxies",
    ],
)
def test_whoever_wants_it_has_all_of_it(use):
    code = f"import edge_tvbo_adapters.mqtt.link\n{use}\nimport sys, urllib.request\n"
    real = "sys.modules['urllib.request']"
    assert said(f"{code}print(found is {real}.getproxies, urllib.request is {real})") == [
        "True",
        "True",
    ]


def test_what_was_imported_before_stays_as_it_is():
    assert said(
        "import urllib.request; before = urllib.request\nimport edge_tvbo_adapters.mqtt.link, sys\n"
        "print(sys.modules['urllib.request'] is before is urllib.request)"
    ) == ["True"]


def test_what_is_not_there_is_said_to_be_missing():
    code = "import edge_tvbo_adapters, urllib.request\nprint(hasattr(urllib.request, 'nothing'))"
    assert said(code) == ["False"]
