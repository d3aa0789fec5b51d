"""Outbox: bounded queue of the messages that the link publishes.

The messages are of three kinds:

- A *state* is a retained message, and only the newest state of a topic matters. A new state
  replaces an older state of the topic that is not sent yet. Each state is published again after
  every reconnect, because a broker may lose its retained messages. The activation of a sleepy
  sensor is a state; an empty payload withdraws it. A state that the discovery message of Home
  Assistant describes can be held back until that message is published. An empty payload that clears
  a state is never held back.
- A *notice* is stored until the broker has acknowledged it. If the connection breaks before that,
  the notice is sent again, so it may arrive twice.
- A *command* is dropped when its time is over, and also if there is no session.

Activations are sent before all other messages. The outbox stores which activations the broker has
not confirmed. So an activation that the sensor could not receive does not count as a time-out, and
no energy is charged for it.

At most `MAX_IN_FLIGHT` messages wait for the broker's acknowledgement. In MQTT 5, the broker can
set a lower limit (Receive Maximum). The other messages wait in the outbox and not in paho's queue,
because in the outbox a newer state can still replace an older state. If an acknowledgement is lost,
the message counts towards the limit until the session ends. Therefore the link ends a session in
which the oldest acknowledgement is overdue.
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from itertools import count
from math import inf

from msgspec.structs import replace

from edge_tvbo_adapters.mqtt.publication import ActivationId, Publication

MAX_IN_FLIGHT = 20  # messages that are not acknowledged; the default of paho and of mosquitto
FOR_ACTIVATIONS = 4  # how many of the `MAX_IN_FLIGHT` places are kept for activations
MAX_NOTICES = 100  # waiting notices without a session; the oldest is dropped first
MAX_NOTICES_IN_SESSION = 5000  # waiting notices in a session; enough for a large network
MAX_UNSENT = 1000  # dropped activations that are not recalled yet
MAX_ATTEMPTS = 3  # attempts to send a notice; then it is dropped, as it may break the connection

# A message replaces an older message with the same key. The key of an activation that is not
# retained is its field and sensor, because several sensors, even of different fields, can have the
# same topic. The key of a notice is its number, and the key of any other message is its topic.
Key = str | int | tuple[str, str]


class Outbox:
    """Stores outgoing messages until the broker has acknowledged them.

    Parameters
    ----------
    now : callable
        Returns the monotonic time, s.
    described : collection of str
        Topics of the states that a discovery message describes; `hold` delays these states.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        described: Collection[str] = (),
    ) -> None:
        self._now = now
        self._described = described
        self.holds = False  # whether described states wait for `release`
        self._states: dict[Key, Publication] = {}  # the newest on each topic
        self._waiting = OrderedDict[Key, Publication]()  # in the order of sending
        self._first: Collection[str] = ()  # topics whose states are sent before the others
        self._commands: dict[Key, Publication] = {}  # in the order of sending, before `_waiting`
        self._unsent: deque[ActivationId] = deque(maxlen=MAX_UNSENT)  # dropped
        self._refused: deque[ActivationId] = deque(maxlen=MAX_UNSENT)
        self._in_flight: dict[int, Publication] = {}  # by packet id, in the order of sending
        # By topic: the activations that were in flight at the end of a session.
        self._unconfirmed: deque[tuple[str, ActivationId]] = deque(maxlen=MAX_UNSENT)
        self._awaited_since = 0.0  # monotonic: start of the wait for the oldest acknowledgement
        self._numbers = count()
        self.clearing: set[str] = set()  # topics whose empty state is not acknowledged yet
        self.open = False  # whether the link has a session
        self._max_in_flight = MAX_IN_FLIGHT
        self.lost = 0  # commands and notices that were dropped
        self.activated: Counter[str] = Counter()  # by field: activations that were sent

    def state(
        self,
        topic: str,
        payload: bytes,
        activates: ActivationId | None = None,
        valid_s: float = inf,
    ) -> None:
        """Queue a retained state in the outbox; it is published in this session and each later one.

        After `valid_s` seconds, the state has expired and is not published any more.
        """
        until = self._now() + valid_s
        self._states[topic] = Publication(
            topic, payload, retained=True, until=until, activates=activates
        )
        if not self._is_held(self._states[topic]):
            queue = self._commands if activates else self._waiting
            self._append(queue, topic, self._states[topic])

    def clear(self, topic: str) -> None:
        """Queue an empty state in the outbox.

        The set `clearing` contains `topic` until the broker acknowledges the empty state.
        """
        self.clearing.add(topic)
        self.state(topic, b"")

    def description(self, topic: str, payload: bytes) -> None:
        """Queue the discovery message, or an empty message that clears a former document.

        The message is retained, but is not a state of the outbox. So a later session publishes the
        message again only if it is empty and the broker has not acknowledged it.
        """
        self._append(self._waiting, topic, Publication(topic, payload, retained=True))

    def awaits_ack(self, topic: str) -> bool:
        """Return whether the outbox has an unacknowledged or waiting message on `topic`."""
        in_flight = any(each.topic == topic for each in self._in_flight.values())
        return in_flight or topic in self._waiting

    def notice(self, topic: str, payload: bytes) -> None:
        """Queue a notice in the outbox; it is not retained.

        If too many notices wait, the oldest notice is dropped.
        """
        number = next(self._numbers)
        self._append(self._waiting, number, Publication(topic, payload, notice=number))
        limit = MAX_NOTICES_IN_SESSION if self.open else MAX_NOTICES
        if len(self._waiting) > limit:
            self._drop_old_notices(limit)

    def command(
        self,
        topic: str,
        payload: bytes,
        valid_s: float,
        qos: int = 1,
        activates: ActivationId | None = None,
    ) -> None:
        """Queue a command in the outbox.

        The command is dropped if it cannot be sent within `valid_s` seconds. An activation replaces
        a waiting activation of the same sensor of the same field.
        """
        until = self._now() + valid_s
        command = Publication(topic, payload, qos=qos, until=until, activates=activates)
        key = (activates.field, activates.sensor) if activates else topic
        self._append(self._commands, key, command)

    def drop(self, activation: ActivationId) -> None:
        """Count an activation as not sent, because the outbox cannot send it."""
        self.lost += 1
        self._unsent.append(activation)

    def recall(self, field: str) -> Iterator[tuple[ActivationId, bool, bool]]:
        """Drop and yield each unconfirmed activation of `field` in the outbox.

        Each item contains the activation, whether it was sent, and whether it was refused. A
        refused activation counts as not sent. Each activation is yielded once. If the broker
        refuses the activation later, the activation is yielded again.
        """
        for queue in (self._commands, self._waiting):
            for key, each in list(queue.items()):
                if each.activates and each.activates.field == field:
                    del queue[key]
                    self._note_unsent(each)
        yield from ((each, False, False) for each in _take(self._unsent, field))
        yield from ((each, False, True) for each in _take(self._refused, field))
        for packet_id, each in list(self._in_flight.items()):
            if each.activates and each.activates.field == field and not each.recalled:
                self._in_flight[packet_id] = replace(each, recalled=True)
                yield each.activates, True, False
        for _ in range(len(self._unconfirmed)):
            topic, sent = self._unconfirmed.popleft()
            if sent.field == field:
                yield sent, True, False
            else:
                self._unconfirmed.append((topic, sent))

    def take_refused(self) -> list[ActivationId]:
        """Return the refused activations in the outbox, each only once."""
        taken = list(self._refused)
        self._refused.clear()
        return taken

    def begin(self, max_in_flight: int = MAX_IN_FLIGHT, first: Collection[str] = ()) -> None:
        """Begin a session of the outbox: queue every state again, before the waiting messages.

        The messages on the topics `first` are queued before all other states and messages. If a
        state is held back, but its topic must still be cleared, an empty state is queued instead.
        The broker accepts `max_in_flight` unacknowledged messages at the same time.
        """
        self.open = True
        self._first = first
        self.set_max_in_flight(max_in_flight)
        cleared = {topic: Publication(topic, b"", retained=True) for topic in self.clearing}
        queued = self._states | self._waiting
        queued |= {key: cleared[key] for key in cleared if self._is_held(queued[key])}
        waiting = (
            (key, each)
            for key, each in queued.items()
            if key not in self._commands and not self._is_held(each)
        )
        self._waiting = OrderedDict(sorted(waiting, key=lambda item: item[1].topic not in first))

    def set_max_in_flight(self, max_in_flight: int) -> None:
        """Let the outbox have at most `max_in_flight` unacknowledged messages from now on."""
        self._max_in_flight = min(max_in_flight, MAX_IN_FLIGHT)

    def hold(self) -> None:
        """Hold back the states of the outbox that the discovery message describes.

        These states wait until `release` is called.
        """
        self.holds = True

    def release(self) -> None:
        """Queue all states of the outbox that the discovery message describes.

        States that were sent before are queued, too.
        """
        self.holds = False
        for key, state in self._states.items():
            if state.topic in self._described:
                self._append(self._waiting, key, state)

    def pop_ready(self) -> Iterator[Publication]:
        """Yield the messages of the outbox that can be sent now.

        The caller calls `mark_sent` for each of them.
        """
        while queue := self._next_queue():
            key, publication = next(iter(queue.items()))
            del queue[key]
            if publication.until < self._now():
                self._drop_command(publication)
                continue
            yield publication

    def mark_sent(self, packet_id: int, publication: Publication) -> None:
        """Mark a message of the outbox as sent with `packet_id`; at QoS 1 it is now in flight."""
        if publication.qos > 0:
            if not self._in_flight:
                self._awaited_since = self._now()
            self._in_flight[packet_id] = publication
        if publication.activates is not None:
            self.activated[publication.activates.field] += 1
            if self._states.get(publication.topic) is publication:
                self._states[publication.topic] = replace(publication, activates=None)

    def mark_acked(self, packet_id: int) -> Publication | None:
        """Remove a message from the outbox, because the broker has acknowledged it, and return it.

        Return None if the message is unknown, or if the broker has refused it.
        """
        acknowledged = self._end_flight(packet_id)
        if acknowledged and acknowledged.retained and self._unconfirmed:
            self._confirm(acknowledged.topic)
        return acknowledged

    def _end_flight(self, packet_id: int) -> Publication | None:
        """Return a message that was in flight, and remove it from the outbox; None if unknown."""
        if packet_id == next(iter(self._in_flight), None):
            self._awaited_since = self._now()
        if publication := self._in_flight.pop(packet_id, None):
            self.clearing.discard(publication.topic)
        return publication

    def _confirm(self, topic: str) -> None:
        """Remove the activations on `topic` from the outbox's unconfirmed activations.

        An earlier session sent the activations. The activations count as confirmed, because the
        broker has now acknowledged a retained message on `topic`.
        """
        left = [each for each in self._unconfirmed if each[0] != topic]
        self._unconfirmed = deque(left, maxlen=MAX_UNSENT)

    def refuse(self, publication: Publication) -> None:
        """Count a refused message of the outbox as lost; a retained document is not counted.

        An activation is also counted as not sent, and no later session publishes it.
        """
        if publication.activates:
            self._refused.append(publication.activates)
            sent = replace(publication, activates=None, recalled=False)  # as `mark_sent` stores it
            if self._states.get(publication.topic) in (publication, sent):
                del self._states[publication.topic]
        if publication.activates or not publication.retained:
            self.lost += 1

    def mark_refused(self, packet_id: int) -> Publication | None:
        """Remove a message from the outbox, because the broker has refused it, and return it.

        Return None if the message is unknown.
        """
        publication = self._end_flight(packet_id)
        if publication:
            self.refuse(publication)
        return publication

    def unacknowledged_s(self) -> float:
        """Return how long the outbox has waited for its oldest acknowledgement, in s.

        The result is 0 if the outbox waits for no acknowledgement. A broker acknowledges messages
        in order (rule MQTT-4.6.0-2). Therefore the time is measured from the previous
        acknowledgement, so that a slow connection does not look like a lost acknowledgement.
        """
        return self._now() - self._awaited_since if self._in_flight else 0.0

    def unacknowledged(self) -> list[Publication]:
        """Return the messages of the outbox that are in flight, in the order of sending."""
        return list(self._in_flight.values())

    def __len__(self) -> int:
        return len(self._commands) + len(self._waiting) + len(self._in_flight)

    @property
    def waits(self) -> bool:
        """Whether the outbox holds a message that waits to be sent."""
        return bool(self._commands or self._waiting)

    @property
    def empty(self) -> bool:
        """Whether the outbox is empty: no message waits to be sent or to be acknowledged."""
        return len(self) == 0

    def connection_lost(self) -> None:
        """End the outbox's session: queue unacknowledged notices again and drop all commands.

        Empty messages that clear documents of an earlier configuration are queued again, too.
        Unsent and unacknowledged activations can still be recalled.
        """
        self.open = False
        for key, each in list(self._commands.items()):
            if not each.retained:
                del self._commands[key]
                self._drop_command(each)
        self._unconfirmed += [
            (each.topic, each.activates)
            for each in self._in_flight.values()
            if each.activates and not each.recalled
        ]
        in_flight = [replace(each, attempts=each.attempts + 1) for each in self._in_flight.values()]
        unfinished = [*in_flight, *self._waiting.values()]
        single = [each for each in unfinished if not each.retained]
        notices: dict[Key, Publication] = {
            each.notice: each
            for each in single
            if each.notice is not None and each.attempts < MAX_ATTEMPTS
        }
        self._in_flight.clear()
        self._waiting = OrderedDict(
            (each.topic, each) for each in unfinished if self._clears_former(each)
        )
        self._waiting |= notices
        self.lost += len(single) - len(notices)
        self._drop_old_notices(MAX_NOTICES)

    def close(self) -> None:
        """Count the outbox's unacknowledged commands and notices as lost: the link has closed.

        Another outbox can still take over the notices.
        """
        self.connection_lost()
        self.lost += len(self.notices())

    def take_over(self, before: "Outbox", topics: Collection[str]) -> None:
        """Queue the notices of the closed outbox `before` that are on one of the `topics`.

        The notices that are taken over no longer count as lost.
        """
        for each in before.notices().values():
            if each.topic in topics:
                before.lost -= 1
                self.notice(each.topic, each.payload)

    @property
    def clears_former(self) -> bool:
        """Whether the outbox must still clear a document of an earlier configuration."""
        unfinished = (*self._in_flight.values(), *self._waiting.values())
        return any(self._clears_former(each) for each in unfinished)

    def _clears_former(self, each: Publication) -> bool:
        """Return whether a message of the outbox clears a document of an earlier configuration.

        Such a message is retained and empty, and the outbox has no state for its topic.
        """
        return each.retained and not each.payload and each.topic not in self._states

    def _drop_old_notices(self, limit: int) -> None:
        """Drop the oldest notices of the outbox, so that at most `limit` notices wait."""
        notices = list(self.notices())
        for key in notices[: max(0, len(notices) - limit)]:
            del self._waiting[key]
            self.lost += 1

    def notices(self) -> dict[Key, Publication]:
        """Return the outbox's waiting notices, the oldest first."""
        return {key: each for key, each in self._waiting.items() if each.notice is not None}

    def _is_held(self, state: Publication) -> bool:
        """Return whether the outbox holds back a state.

        An empty state is never held back, because each entity of Home Assistant accepts it.
        """
        return self.holds and state.topic in self._described and state.payload != b""

    def _next_queue(self) -> dict[Key, Publication] | None:
        """Return the outbox's queue that contains the next message; None if none can be sent."""
        places = self._max_in_flight - len(self._in_flight)
        if self._commands and places > 0:
            return self._commands
        has_room = places > FOR_ACTIVATIONS or not self._in_flight
        return self._waiting if self._waiting and has_room else None

    def _note_unsent(self, publication: Publication) -> None:
        if publication.activates:
            self.drop(publication.activates)
        if self._states.get(publication.topic) is publication:
            del self._states[publication.topic]

    def _drop_command(self, command: Publication) -> None:
        if not command.retained and not command.activates:
            self.lost += 1
        self._note_unsent(command)

    def _append(self, queue: dict[Key, Publication], key: Key, publication: Publication) -> None:
        """Add a message to `queue`; remove a waiting message of the outbox with the same `key`.

        A retained message replaces a message in either queue. A message that is not retained
        replaces only a message in `queue`. In the other queue, the message with the same key may be
        the empty message that clears a retained command of an earlier configuration.
        """
        replaceable = (self._commands, self._waiting) if publication.retained else (queue,)
        for each in replaceable:
            replaced = each.pop(key, None)
            if replaced and replaced.activates:
                self._note_unsent(replaced)
        queue[key] = publication
        if queue is self._waiting and publication.retained and publication.topic in self._first:
            self._waiting.move_to_end(key, last=False)


def _take(activations: deque[ActivationId], field: str) -> list[ActivationId]:
    """Remove the activations of `field` from `activations`, and return these activations."""
    every = list(activations)
    activations.clear()
    activations.extend(each for each in every if each.field != field)
    return [each for each in every if each.field == field]
