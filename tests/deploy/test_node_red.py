"""The flows for Node-RED use the daemon's topics; `make test-nodered` runs the flows."""

import json
import re
from itertools import chain
from typing import get_args

from support.paths import DOCS, ROOT

from edge_tvbo.messages.documents import Verb

NODES = json.loads((ROOT / "deploy/node-red/flows.json").read_text("utf-8"))
MQTT = [node for node in NODES if node["type"] in ("mqtt in", "mqtt out")]


def test_all_wires_lead_to_nodes_of_the_same_flow():
    flow_of = {node["id"]: node.get("z") for node in NODES}
    assert len(flow_of) == len(NODES)
    for node in NODES:
        for target in chain.from_iterable(node.get("wires", [])):
            assert flow_of[target] == node["z"], node["name"]


def test_all_mqtt_nodes_use_the_one_broker_with_qos_1_and_without_retain():
    brokers = [node["id"] for node in NODES if node["type"] == "mqtt-broker"]
    assert {node["broker"] for node in MQTT} == set(brokers)
    assert len(brokers) == 1
    assert {node["qos"] for node in MQTT} == {"1"}
    assert {node["retain"] for node in MQTT if node["type"] == "mqtt out"} == {"false"}


def test_the_topics_of_the_daemon_are_those_of_the_page_of_topics():
    page = (DOCS / "topics.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `(edge_tvbo/\S+)`", page, re.MULTILINE))
    published = {
        topic.replace("<instance>", "edge").replace("<field>", "+").replace("<verb>", "+")
        for topic in listed
    }
    subscribed = {node["topic"] for node in MQTT if node["topic"].startswith("edge_tvbo/")}
    assert subscribed <= published
    assert len(subscribed) == 6
    commands = {node["topic"] for node in NODES if node["type"] == "inject"}
    assert commands <= {f"edge_tvbo/edge/cmd/{verb}" for verb in get_args(Verb)}
    assert len(commands) == 3


def test_the_page_configures_the_topics_that_the_flow_uses():
    page = (DOCS / "node-red.md").read_text("utf-8")
    text = json.dumps(NODES)
    for end in ("activate", "reading"):
        assert f'topic = "node-red/{{sensor}}/{end}"' in page
    assert '"topic": "node-red/+/activate"' in text
    assert json.dumps('"node-red/" & sensor & "/reading"') in text
