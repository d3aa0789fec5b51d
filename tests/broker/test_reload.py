"""Changed configurations at a real mosquitto: the retained documents follow them at once."""

import json
import re
from signal import SIGHUP, SIGUSR1

import pytest
from support.gateway import Gateway


@pytest.fixture
def gateway(tmp_path, broker, peer):
    made = Gateway(tmp_path, broker.port, peer)
    yield made
    made.close()


def written(gateway, times):
    """Return the bytes of state in the newest of so many status dumps."""
    gateway.process.send_signal(SIGUSR1)
    dump = re.compile(r"(\d+) bytes of state written")
    gateway.wait(lambda: len(dump.findall(gateway.log_text())) == times)
    return int(dump.findall(gateway.log_text())[-1])


def test_the_count_of_written_bytes_continues_after_a_reload(gateway):
    gateway.start()
    gateway.wait_for_checkpoint()
    before = written(gateway, 1)
    gateway.process.send_signal(SIGHUP)
    gateway.wait_for_log("reload: done")
    after = written(gateway, 2)
    gateway.process.send_signal(SIGHUP)
    gateway.wait(lambda: gateway.log_text().count("reload: done") == 2)
    assert 0 < before < after < written(gateway, 3)


def test_a_reload_logs_which_settings_it_changes(gateway):
    gateway.start()
    gateway.wait_for_log("ready")
    gateway.process.send_signal(SIGHUP)
    gateway.wait_for_log("reload: no setting has changed", "reload: done")
    gateway.configure(extra="[fields.lab.alert]\nthreshold = 30\n")
    gateway.process.send_signal(SIGHUP)
    gateway.wait_for_log("reload: the field lab: changed settings: alert")


def test_notices_that_wait_for_the_broker_are_published_after_reloads(gateway, broker, peer):
    """The alert begins while the broker is away."""
    reader = peer(broker.port, "edge_tvbo/k/event", "edge_tvbo/k/lab/event")
    watcher = peer(broker.port, "edge_tvbo/k/lab/hotspot")

    def reload(port, threshold, *logs):
        gateway.port = port
        gateway.configure(extra=f"[fields.lab.alert]\nthreshold = {threshold}\n")
        reloads = gateway.log_text().count("reload: done")
        gateway.process.send_signal(SIGHUP)
        gateway.wait(lambda: gateway.log_text().count("reload: done") > reloads)
        gateway.wait_for_log(*logs)

    gateway.configure(extra="[fields.lab.alert]\nthreshold = 30\n")
    gateway.start()
    watcher.wait(lambda: any(not old for *_, old in watcher.received))  # the model has a reading
    reload(1, 20.5, "lab: alert: ")
    reload(1, 20.5)
    reload(broker.port, 20.5)
    reader.wait(lambda: len(reader.received) >= 4)
    events = [json.loads(payload)["event"] for _, payload, _ in reader.received]
    assert events[:4] == ["reload", "alert", "reload", "reload"]


def set_threshold(gateway, threshold):
    """Set the threshold of the alert in the configuration of a field with long intervals."""
    alert = f"[fields.lab.alert]\nthreshold = {threshold}\n"
    gateway.configure(interval="1h", reply_timeout="10s", extra=alert)


def published(reader, level):
    """Return the documents of a level, without those that earlier daemons left at the broker."""
    topic = f"edge_tvbo/k/lab/{level}"
    return [
        json.loads(text)
        for name, text, old in reader.received
        if name == topic and not old and text
    ]


def test_a_rejection_that_a_reload_does_not_end_is_logged_again(gateway, broker, peer):
    """A failed reload changes nothing, and so logs no rejection again."""
    sender, rejected = peer(broker.port), "rejected as non-finite"

    def reload(text, log):
        gateway.config.write_text(text)
        gateway.process.send_signal(SIGHUP)
        gateway.wait_for_log(log)

    def send_and_count(value):
        gateway.wait_for_activations()  # the daemon is connected
        sender.publish("k/a/t", value)
        gateway.wait_for_activations()
        return gateway.log_text().count(rejected)

    valid = gateway.config.read_text()
    gateway.start()
    counts = [send_and_count("nan"), send_and_count("inf")]
    reload(f"{valid}mistake = 1\n", "nothing is changed")
    counts.append(send_and_count("inf"))
    reload(valid, "reload: done")
    counts.append(send_and_count("nan"))
    gateway.stop()
    assert counts == [1, 1, 1, 2]


def test_an_alert_that_a_reload_adds_counts_the_last_reading(gateway, broker, peer):
    """The only reading is the reply 21; the estimate is too uncertain for an alert."""
    reader = peer(broker.port, "edge_tvbo/k/lab/#")

    gateway.configure(interval="1h", reply_timeout="10s")
    gateway.start()
    reader.wait(lambda: published(reader, "hotspot"))  # the model has the reading
    set_threshold(gateway, 20.9)
    gateway.process.send_signal(SIGHUP)
    reader.wait(lambda: published(reader, "event") and published(reader, "alert"))
    event, alert = published(reader, "event")[-1], published(reader, "alert")[-1]
    assert (event["event"], alert["readings"]) == ("alert", {event["sensor"]: 21.0})
    assert alert["probability"] < 0.9


@pytest.mark.parametrize("restarts", [False, True])
def test_an_alert_follows_the_changed_threshold_at_once(gateway, broker, peer, restarts):
    """The only reading is the reply 21, and the next interval begins in an hour."""
    reader = peer(broker.port, "edge_tvbo/k/lab/#")

    def shows(threshold, active):
        alerts = published(reader, "alert")
        return (threshold, active) in [(each["threshold"], each["active"]) for each in alerts]

    set_threshold(gateway, 30.0)
    gateway.start()
    reader.wait(lambda: shows(30.0, False))
    for threshold, active in ((20.5, True), (24.0, False)):
        set_threshold(gateway, threshold)
        if restarts:
            gateway.stop()
            gateway.start()
        else:
            gateway.process.send_signal(SIGHUP)
        reader.wait(lambda changed=(threshold, active): shows(*changed))
    reader.wait(lambda: len(published(reader, "event")) >= 2)
    events = [each["event"] for each in published(reader, "event")]
    assert events == ["alert", "alert-over"]
    assert len(gateway.activations) == 1
