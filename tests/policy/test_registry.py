import subprocess
import sys

from edge_tvbo.policy import policies


def test_the_package_gives_the_names_even_after_something_of_it_was_imported():
    script = "from edge_tvbo import SensorField, make_policy, policies; print(*policies())"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout.split() == list(policies()), said.stderr
