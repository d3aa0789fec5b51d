"""Demonstration: works without configuration, on a broker that it starts."""

import json
import re
import subprocess
import sys

import pytest
from support.mosquitto import TIMEOUT_S, Peer

from edge_tvbo.messages.documents import Reason


@pytest.mark.acceptance(1)
@pytest.mark.broker
def test_demo_prints_decisions_with_reasons_and_writes_a_report(tmp_path):
    command = [sys.executable, "-m", "edge_tvbo", "demo", "--dataset", "lab-sample"]
    command += ["--data-dir", "."]
    # The pipe holds the lines of some 20 decisions: the demo waits until the client has subscribed.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "pipesize": 4096, "text": True}
    with subprocess.Popen([*command, "--speed", "20000"], cwd=tmp_path, **pipes) as process:
        lines, peer = [], None
        for line in process.stdout:
            lines.append(line)
            if found := re.match(r"Broker: .* on 127\.0\.0\.1:(\d+)", line):
                peer = Peer(int(found[1]), ["edge_tvbo/#"])
        assert process.wait(timeout=TIMEOUT_S) == 0, "".join(lines)
    received = [(topic, payload) for topic, payload, _ in peer.received]
    peer.close()
    decisions = [json.loads(payload) for topic, payload in received if topic.endswith("/selected")]
    assert len({each["interval"] for each in decisions}) > 250
    assert all(each["text"].startswith(each["sensor"]) for each in decisions)
    assert {each["reason"] for each in decisions} <= set(Reason)
    assert any("A replay without a broker gives the same decisions" in line for line in lines)
    page = (tmp_path / "demo-out" / "report.html").read_text("utf-8")
    assert "auto has the least regret" in page
    assert "edge-tvbo demo --dataset lab-sample --data-dir . --policy auto" in page


@pytest.mark.broker
def test_demo_compares_a_simple_policy_only_with_other_policies(tmp_path):
    command = [sys.executable, "-m", "edge_tvbo", "demo", "--dataset", "lab-sample"]
    command += ["--policy", "random", "--speed", "100000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    table = done.stdout.partition("A replay without a broker")[2]
    policies = re.findall(r"^(random|round-robin|static|kalman-ucb)\b", table, re.MULTILINE)
    assert sorted(policies) == ["kalman-ucb", "random", "round-robin", "static"]
