"""Changed configurations at a real mosquitto: the retained documents follow them at once."""

import json
from signal import SIGHUP

import pytest
from support.gateway import Gateway


@pytest.fixture
def gateway(tmp_path, broker, peer):
    made = Gateway(tmp_path, broker.port, peer)
    yield made
    made.close()


def set_threshold(gateway, threshold):
    """Set the threshold of the alert in the configuration of a field with long intervals."""
    alert = f"[fields.lab.alert]\nthreshold = {threshold}\n"
    gateway.configure(interval="1h", reply_timeout="10s", extra=alert)


@pytest.mark.parametrize("restarts", [False, True])
def test_an_alert_follows_the_changed_threshold_at_once(gateway, broker, peer, restarts):
    """The only reading is the reply 21, and the next interval begins in an hour."""
    reader = peer(broker.port, "edge_tvbo/k/lab/#")

    def published(threshold, active):
        alerts = map(json.loads, reader.on("edge_tvbo/k/lab/alert"))
        return (threshold, active) in [(each["threshold"], each["active"]) for each in alerts]

    set_threshold(gateway, 30.0)
    gateway.start()
    reader.wait(lambda: published(30.0, False))
    for threshold, active in ((20.5, True), (24.0, False)):
        set_threshold(gateway, threshold)
        if restarts:
            gateway.stop()
            gateway.start()
        else:
            gateway.process.send_signal(SIGHUP)
        reader.wait(lambda changed=(threshold, active): published(*changed))
    reader.wait(lambda: len(reader.on("edge_tvbo/k/lab/event")) >= 2)
    events = [json.loads(each)["event"] for each in reader.on("edge_tvbo/k/lab/event")]
    assert events == ["alert", "alert-over"]
    assert len(gateway.activations) == 1
