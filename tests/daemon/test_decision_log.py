"""Decision log: what the daemon logs about decisions and activations."""

from edge_tvbo.daemon.decision_log import DecisionLogger
from edge_tvbo.messages.commands import Ending, Record


def test_an_undelivered_activation_names_the_sensor_as_people_do(caplog):
    log = DecisionLogger()
    log.names = {"heat": {"Living-room": "Living room"}}
    for field in ("heat", "damp"):
        undelivered = Record(7, 0.0, "Living-room", Ending.UNDELIVERED, None, None, None, False)
        log(field, undelivered)

    heat, damp = caplog.messages
    assert heat.startswith("heat: interval 7: the activation of Living room was not delivered")
    assert damp.startswith("damp: interval 7: the activation of Living-room was not delivered")
