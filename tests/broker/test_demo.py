"""The demonstration, as a newcomer meets it: nothing is configured, and a broker is found."""

import json
import re
import subprocess
import sys

import pytest
from broker.conftest import Peer

from edge_tvbo.messages.documents import Reason


@pytest.mark.acceptance(1)
@pytest.mark.broker
def test_the_demo_shows_decisions_with_reasons_on_a_broker_and_leaves_a_page(tmp_path):
    command = [sys.executable, "-m", "edge_tvbo", "demo", "--dataset", "lab-sample"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen([*command, "--speed", "20000"], cwd=tmp_path, **pipes) as process:
        said, peer = [], None
        for line in process.stdout:
            said.append(line)
            if found := re.match(r"Broker: .* on 127\.0\.0\.1:(\d+)", line):
                peer = Peer(int(found[1]), ["edge_tvbo/#"])
        assert process.wait(timeout=30) == 0, "".join(said)
    heard = [(topic, payload) for topic, payload, _ in peer.heard]
    peer.close()
    decisions = [json.loads(payload) for topic, payload in heard if topic.endswith("/selected")]
    assert len({each["interval"] for each in decisions}) > 250
    assert all(each["text"].startswith(each["sensor"]) for each in decisions)
    assert {each["reason"] for each in decisions} <= set(Reason)
    assert any("The same days without a broker give" in line for line in said)
    page = (tmp_path / "demo-out" / "report.html").read_text("utf-8")
    assert "auto missed least" in page
