"""Publisher: the topics and payloads of the daemon's messages, and which of them are retained."""

from collections.abc import Collection, Iterable, Mapping, Set
from math import inf

import msgspec
from msgspec.structs import replace

from edge_tvbo.config.field_settings import FieldSettings
from edge_tvbo.messages.commands import Activate, Command, Notify, PublishState, Record
from edge_tvbo.messages.documents import (
    Alert,
    Health,
    Hotspot,
    Notice,
    PublishedPosterior,
    Response,
)
from edge_tvbo.messages.payloads import Activation
from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publication import ActivationId
from edge_tvbo_adapters.mqtt.request_queue import UNKNOWN_VERB, VERBS
from edge_tvbo_adapters.mqtt.topics import SENSOR_PLACE, activation_payload, publishable
from edge_tvbo_adapters.payloads.field_payloads import activation

LEVELS = {Hotspot: "hotspot", Alert: "alert", PublishedPosterior: "posterior"}  # of topics
DOCUMENTS = ("selected", *LEVELS.values())  # of a field


class Publisher:
    """Encodes the daemon's commands and documents as MQTT messages, and adds them to the outbox.

    Parameters
    ----------
    base : str
        The beginning of the documents' topics: ``edge_tvbo/<instance>``.
    fields : mapping
        The settings of each field.
    outbox : Outbox
        Holds the messages until the broker has acknowledged them.

    Attributes
    ----------
    retained_topics : dict of str to set of str
        For each field, the activation topics of sleepy sensors, on which activations are retained.
    """

    def __init__(self, base: str, fields: Mapping[str, FieldSettings], outbox: Outbox) -> None:
        self._base = base
        self._fields = dict(fields)
        self._activations = {name: activations(name, each) for name, each in fields.items()}
        self.retained_topics = {
            name: {
                each.topic
                for each in by_sensor.values()
                if each.mode == "sleepy" and publishable(each.topic)
            }
            for name, by_sensor in self._activations.items()
        }
        self._outbox = outbox
        # For each field and sensor: the topic of the unanswered activation.
        self._pending: dict[str, dict[str, str]] = {field: {} for field in fields}
        self._withdrawn: list[str] = []  # fields whose documents are being cleared

    def status(self, word: bytes) -> None:
        """Publish the daemon's status through the outbox: ``online`` or ``offline``, retained."""
        self._outbox.state(f"{self._base}/status", word)

    def send(self, field: str, command: Command) -> None:
        """Publish an activation, decision or notice of a controller through the outbox."""
        match command:
            case Activate():
                self._activate(field, command)
            case PublishState(decision=decision):
                self._document(f"{field}/selected", decision)
            case Notify(notice=notice):
                self.event(notice, field)
            case Record(sensor=sensor):
                self._cancel_command(field, sensor)

    def show(self, field: str, document: Hotspot | Alert | PublishedPosterior) -> None:
        """Publish the hot spot, alert or posterior of `field` through the outbox.

        The message is retained.
        """
        self._document(f"{field}/{LEVELS[type(document)]}", document)

    def report(self, health: Health) -> None:
        """Publish the daemon's health through the outbox, as a retained message."""
        self._document("health", health)

    def event(self, notice: Notice, field: str | None = None) -> None:
        """Publish a notice of `field` (of the daemon if `field` is None) through the outbox.

        The message is not retained.
        """
        topic = f"{self._base}/event" if field is None else f"{self._base}/{field}/event"
        self._outbox.notice(topic, msgspec.json.encode(notice))

    def respond(self, verb: str, response: Response) -> None:
        """Publish the response to a user's command through the outbox.

        The message is not retained.
        """
        self._outbox.notice(f"{self._base}/response/{verb}", msgspec.json.encode(response))

    def take_over(self, before: Outbox) -> None:
        """Publish the notices and responses that still wait in the outbox of the previous link.

        This outbox, `before`, is closed. Messages of removed fields and of another instance are
        left out, because this publisher does not use their topics.
        """
        events = {f"{self._base}/{field}/event" for field in self._fields}
        responses = {f"{self._base}/response/{verb}" for verb in (*VERBS, UNKNOWN_VERB)}
        self._outbox.take_over(before, {f"{self._base}/event"} | events | responses)

    def cancel_commands(self, field: str) -> None:
        """Withdraw all activations of `field` that the publisher has queued or retained."""
        for sensor in list(self._pending[field]):
            self._cancel_command(field, sensor)

    def _cancel_command(self, field: str, sensor: str) -> None:
        """Withdraw the published activation of `sensor` if it is pending.

        This method is called when the sensor has replied or the activation has expired. A downlink
        is not withdrawn if another field still waits for a reply to an activation on the same
        topic: all fields of a LoRaWAN device share the device's downlink queue.
        """
        topic = self._pending[field].pop(sensor, None)
        activation = self._activations[field].get(sensor)
        if topic is None or activation is None:
            return
        if activation.mode == "sleepy":
            self._outbox.state(topic, b"")
        elif activation.withdrawal is not None and self._outbox.open and not self._awaits(topic):
            self._outbox.command(topic, activation.withdrawal.encode(), inf, qos=0)

    def _awaits(self, topic: str) -> bool:
        """Return whether a field waits for a reply to an activation on `topic`."""
        return any(topic in pending.values() for pending in self._pending.values())

    def clear_stale_commands(self, former: Iterable[Set[str]]) -> None:
        """Clear the retained activations of an earlier run, so that no sleepy sensor obeys them.

        `former` contains the topics of earlier runs. A topic that no present field uses is cleared
        only once, in the next session, because another daemon may use this topic later.
        """
        topics = set[str]().union(*self.retained_topics.values())
        for topic in topics:
            self._outbox.state(topic, b"")
        for topic in set[str]().union(*former) - topics:
            self._outbox.description(topic, b"")

    def clear_unpublished(self, without_model: Collection[str]) -> None:
        """Clear the retained documents that the present configuration does not publish.

        An earlier configuration may have published these documents. `without_model` contains the
        fields whose policies have no model; no hot spot is published for these fields.
        """
        for field, settings in self._fields.items():
            published = {
                "alert": settings.alert is not None,
                "posterior": settings.publishes_posterior,
                "hotspot": field not in without_model,
            }
            for level in (level for level, is_published in published.items() if not is_published):
                self._outbox.description(f"{self._base}/{field}/{level}", b"")

    def clear_documents(self, fields: Iterable[str]) -> None:
        """Publish empty messages that clear the retained documents of removed fields.

        Names that no topic can contain are skipped; an edited state file can contain such names.
        """
        topics = (f"{self._base}/{field}/{level}" for field in fields for level in DOCUMENTS)
        for topic in filter(publishable, topics):
            self._outbox.description(topic, b"")

    def withdraw_documents(self, field: str) -> None:
        """Clear the published documents of `field`; each topic is empty until the next document."""
        self._withdrawn.append(field)
        for level in DOCUMENTS:
            self._outbox.clear(f"{self._base}/{field}/{level}")

    def take_cleared(self) -> list[str]:
        """Return the fields whose withdrawn documents the broker has cleared; each field once."""
        if self._outbox.clearing:
            return []
        cleared, self._withdrawn = self._withdrawn, []
        return cleared

    def _activate(self, field: str, activate: Activate) -> None:
        activation = self._activations[field].get(activate.sensor)
        if activation is None:
            return
        topic = activation.topic
        is_sleepy = activation.mode == "sleepy"
        identity = ActivationId(field, activate.sensor, activate.interval)
        if not publishable(topic) or not (is_sleepy or self._outbox.open):
            self._outbox.drop(identity)
            return
        if activate.replaces:
            self.cancel_commands(field)
        self._pending[field][activate.sensor] = topic
        payload = activation_payload(self._fields[field], activation.payload, activate).encode()
        if is_sleepy:
            valid_s = max(0.0, activate.expires_at - activate.at)
            self._outbox.state(topic, payload, activates=identity, valid_s=valid_s)
            return
        qos = 0 if activation.mode == "lorawan" else 1
        self._outbox.command(topic, payload, activate.valid_s, qos, activates=identity)

    def _document(self, topic: str, document: msgspec.Struct) -> None:
        self._outbox.state(f"{self._base}/{topic}", msgspec.json.encode(document))


def activations(name: str, field: FieldSettings) -> dict[str, Activation]:
    """Return a dict that maps each sensor of a field to the way in which it is activated.

    An `Activation` contains the mode, the topic with the sensor's name, and the payload. Sensors
    that are not activated are left out.
    """
    return {
        sensor: replace(
            found, topic=found.topic.replace(SENSOR_PLACE, field.names.get(sensor, sensor))
        )
        for index, source in enumerate(field.sources)
        if (found := activation(field, index)) is not None
        for sensor in source.sensors
    }
