"""What the daemon says on the wire: which topic, which payload, retained or once.

Whether a broker is there to hear it is the outbox's to know.
"""

from collections.abc import Mapping
from math import inf

import msgspec

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.messages.commands import Activate, Command, Notify, PublishState, Record
from edge_tvbo.messages.documents import Health, Hotspot, Notice, PublishedPosterior, Response
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.topics import activation_payload, activation_topic, publishable
from edge_tvbo_adapters.payloads.of_field import activation


class Publisher:
    """Puts commands and documents into the outbox, as each field's settings say.

    Parameters
    ----------
    base : str
        ``edge_tvbo/<instance>``, where documents go.
    fields : mapping
        The settings of each field.
    outbox : Outbox
        Holds what is said until the broker has it.
    """

    def __init__(self, base: str, fields: Mapping[str, FieldSettings], outbox: Outbox) -> None:
        self._base = base
        self._fields = dict(fields)
        self._activations = {name: activation(name, each) for name, each in fields.items()}
        self._outbox = outbox
        self._asked: dict[str, str] = {}  # each field's topic on which a command is outstanding

    def status(self, word: bytes) -> None:
        """Say whether the daemon is there: what its will says where it cannot."""
        self._outbox.state(f"{self._base}/status", word)

    def send(self, field: str, command: Command) -> None:
        """Say what `command` says."""
        match command:
            case Activate():
                self._activate(field, command)
            case PublishState(decision=decision):
                self._document(f"{field}/selected", decision)
            case Notify(notice=notice):
                self.event(notice, field)
            case Record():
                self.cancel_command(field)

    def show(self, field: str, document: Hotspot | PublishedPosterior) -> None:
        """Say where the field is highest, or what is believed of each sensor."""
        what = "hotspot" if isinstance(document, Hotspot) else "posterior"
        self._document(f"{field}/{what}", document)

    def report(self, health: Health) -> None:
        """Say how the daemon is doing."""
        self._document("health", health)

    def event(self, notice: Notice, field: str | None = None) -> None:
        """Say what happened to the daemon, or to one of its fields."""
        topic = f"{self._base}/event" if field is None else f"{self._base}/{field}/event"
        self._outbox.notice(topic, msgspec.json.encode(notice))

    def respond(self, verb: str, response: Response) -> None:
        """Say what became of a request."""
        self._outbox.notice(f"{self._base}/response/{verb}", msgspec.json.encode(response))

    def cancel_command(self, field: str) -> None:
        """Take back what was asked: it is answered, or it is too late for that."""
        topic, activation = self._asked.pop(field, None), self._activations[field]
        if topic is None or activation is None:
            return
        if activation.mode == "sleepy":
            self._outbox.state(topic, b"")
        elif activation.withdrawal is not None and self._outbox.open:
            self._outbox.command(topic, activation.withdrawal.encode(), inf, qos=0)

    def clear_stale_commands(self, former: Mapping[str, FieldSettings]) -> None:
        """Let no sleeping node find what another life of this daemon asked of it.

        A node that is ours no more is told so once: it may be another daemon's by now.
        """
        ours = beds(self._fields)
        for topic in ours:
            self._outbox.state(topic, b"")
        for topic in beds(former) - ours:
            self._outbox.description(topic, b"")

    def _activate(self, field: str, activate: Activate) -> None:
        settings, activation = self._fields[field], self._activations[field]
        topic = activation_topic(settings, activate.sensor)
        if topic is None or activation is None:
            return
        asleep = activation.mode == "sleepy"
        if not publishable(topic) or not (asleep or self._outbox.open):
            self._outbox.lost += 1
            return
        self.cancel_command(field)
        self._asked[field] = topic
        payload = activation_payload(settings, activation.payload, activate).encode()
        if asleep:
            self._outbox.state(topic, payload)
            return
        qos = 0 if activation.mode == "lorawan" else 1
        self._outbox.command(topic, payload, max(0.0, activate.expires_at - activate.at), qos)

    def _document(self, topic: str, document: msgspec.Struct) -> None:
        self._outbox.state(f"{self._base}/{topic}", msgspec.json.encode(document))


def beds(fields: Mapping[str, FieldSettings]) -> set[str]:
    """Give the topics on which nodes that sleep find what they are asked."""
    sleepy = [each for each in fields.values() if each.activate.mode == "sleepy"]
    topics = (activation_topic(each, sensor) for each in sleepy for sensor in each.sensors)
    return {topic for topic in topics if topic is not None and publishable(topic)}
