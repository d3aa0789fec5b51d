"""Session starter: starts the link's sessions, and remembers the broker's address and version."""

from logging import Logger

from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo_adapters.mqtt.client import Will
from edge_tvbo_adapters.mqtt.connect import CONNECT_TIMEOUT_S
from edge_tvbo_adapters.mqtt.publication import PACKET_OVERHEAD
from edge_tvbo_adapters.mqtt.session import CONNACK_5_TIMEOUT_S, Session
from edge_tvbo_adapters.mqtt.topics import MAX_TOPIC_LENGTH
from edge_tvbo_adapters.mqtt.versions import NEW


class SessionStarter:
    """Starts the link's sessions, one after another.

    Parameters
    ----------
    mqtt : Mqtt
        The broker and the login.
    client_id : str
        The link's client id.
    will : Will
        The retained message that the broker publishes when a session breaks.
    log : Logger
        The link's log.
    """

    def __init__(self, mqtt: Mqtt, client_id: str, will: Will, log: Logger) -> None:
        self._mqtt = mqtt
        self._client_id = client_id
        self._will = will
        self._log = log
        self._address: str | None = None  # the broker's address in the last session
        self._version: str = mqtt.version  # version of MQTT in the last session
        self._connack_5_timeout_s = CONNACK_5_TIMEOUT_S  # longer for a broker that speaks MQTT 5

    def start(self, max_payload: int, now: float) -> Session:
        """Return a new session of the link, which receives payloads of up to `max_payload` bytes.

        The session uses the broker's address in the last session if the name cannot be resolved.
        """
        self._log.debug("broker %s: connecting", self._mqtt.address)
        return Session(
            self._mqtt,
            self._client_id,
            now,
            max_packet=PACKET_OVERHEAD + MAX_TOPIC_LENGTH + max_payload,
            will=self._will,
            address=self._address,
            connack_5_timeout_s=self._connack_5_timeout_s,
        )

    def note_begun(self, session: Session) -> None:
        """Note for the link's next sessions that the broker has accepted this session.

        The first session with another version of MQTT than the configured one is logged.
        """
        broker = self._mqtt.address
        if session.version not in (self._mqtt.version, self._version):
            self._log.warning(
                "broker %s: the broker does not seem to speak MQTT %s, so MQTT %s is used",
                broker,
                self._mqtt.version,
                session.version,
            )
        self._log.debug("broker %s: the session has begun, with MQTT %s", broker, session.version)
        self._address, self._version = session.address, session.version
        if session.version == NEW:
            self._connack_5_timeout_s = CONNECT_TIMEOUT_S
