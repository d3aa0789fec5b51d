"""Former documents: clears retained documents that earlier configurations left at the broker.

If the daemon publishes a discovery message for Home Assistant, the order is:

1. The daemon publishes the discovery message, which does not describe the former documents.
2. Home Assistant processes the message.
3. The daemon clears the former documents, and publishes the states that the message describes.
"""

from collections.abc import Collection, Mapping, Set
from math import inf
from typing import TYPE_CHECKING

from edge_tvbo_adapters.mqtt.outbox import Outbox
from edge_tvbo_adapters.mqtt.publisher import Publisher

if TYPE_CHECKING:
    from edge_tvbo_adapters.homeassistant.discovery import Discovery


class FormerDocuments:
    """The retained documents of earlier configurations that the link has to clear.

    Parameters
    ----------
    former : mapping
        The value of `topics` in the previous link, which this link replaces.
    without_model : collection of str
        The fields whose policies have no model, and so no hot spot.
    discovery : Discovery, optional
        Schedules the discovery message of Home Assistant; None to publish none.
    publisher : Publisher
        Clears the documents.
    outbox : Outbox
        Publishes the discovery message, and holds back the states that it describes.
    """

    def __init__(
        self,
        former: Mapping[str, Set[str]],
        without_model: Collection[str],
        discovery: "Discovery | None",
        publisher: Publisher,
        outbox: Outbox,
    ) -> None:
        self._own = publisher.retained_topics
        self._former = dict(former)
        self._without_model = without_model
        self._discovery = discovery
        self._publisher = publisher
        self._outbox = outbox
        self._removed = former.keys() - self._own.keys()
        self._clears_later = discovery is not None
        publisher.clear_stale_commands(former.values())
        if discovery is None:
            self._clear(self._removed)

    def add_removed(self, fields: Set[str]) -> None:
        """Add `fields`, which were removed while no link existed, to the fields to clear."""
        self._removed |= fields
        self._former |= {name: set[str]() for name in fields}
        if self._discovery is None:
            self._publisher.clear_documents(fields)

    @property
    def topics(self) -> Mapping[str, Set[str]]:
        """The fields and topics of the retained messages that the next link may have to clear.

        Each key is a field with retained documents. Its value is the set of topics on which
        activations of the field are retained. The fields and topics of this link are always
        included. The fields and topics of earlier links are included until the broker has cleared
        the messages. The next link clears only the fields and topics that it does not use itself.
        """
        own = self._own
        if not (self._clears_later or self._outbox.clears_former):
            return own
        removed = self._discovery.removed if self._discovery else ()
        earlier = {name: set[str]() for name in removed} | self._former
        return own | {name: topics | own.get(name, set()) for name, topics in earlier.items()}

    def wake_at(self) -> float:
        """Return the monotonic time by which `service` of the former documents must be called."""
        return self._discovery.wake_at() if self._discovery else inf

    def begin(self, now: float) -> None:
        """Begin a session: hold back the states if there is a discovery message about them."""
        if self._discovery:
            self._discovery.begin(now)
            self._outbox.hold()

    def service(self, now: float) -> None:
        """Queue the discovery message if it is due.

        Home Assistant needs time to process this message. A later call therefore queues the states
        that the message describes, and clears the documents that are not published any more.
        """
        discovery = self._discovery
        if discovery is None or now < discovery.wake_at():
            return
        acknowledged = not self._outbox.awaits_ack(discovery.topic)
        if (description := discovery.due(now, acknowledged=acknowledged)) is not None:
            self._outbox.description(discovery.topic, description)
        if discovery.settled(now, acknowledged=acknowledged):
            self._clear(self._removed | discovery.removed)
            self._clears_later = False
            self._outbox.release()

    def _clear(self, removed: Collection[str]) -> None:
        """Clear the documents of `removed` fields, and documents that are no longer published."""
        self._publisher.clear_unpublished(self._without_model)
        self._publisher.clear_documents(removed)
