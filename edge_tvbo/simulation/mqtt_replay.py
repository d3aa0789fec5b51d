"""Replay of a recording over MQTT: a second process simulates the sensors as MQTT clients."""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import IO, Any, Protocol, cast

from edge_tvbo.config.field_settings import ActivateSettings, FieldSettings, ReadingSettings
from edge_tvbo.config.mqtt_settings import Mqtt
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon.clock import Clock, ReplayClock
from edge_tvbo.daemon.daemon import BrokerLink
from edge_tvbo.daemon.loop import Link, Loop, sleep
from edge_tvbo.daemon.scheduler import Scheduler
from edge_tvbo.daemon.signals import stop_on_signal
from edge_tvbo.daemon.status import StatusCollector
from edge_tvbo.errors import EdgeTvboError
from edge_tvbo.messages.commands import Activate, Command
from edge_tvbo.messages.events import Event, IntervalElapsed, Reading
from edge_tvbo.simulation.backtest import Backtest
from edge_tvbo.simulation.recording import Recording
from edge_tvbo.simulation.replay import ReplayRecorder, SimulatedSensors
from edge_tvbo.simulation.row_range import RowRange, recorded_rows

FIELD = "replay"
READING_TOPIC = "lab/{sensor}/reading"
ACTIVATE_TOPIC = "lab/{sensor}/activate"
ACTIVATE_PAYLOAD = '{"interval": {interval}, "at": {at}, "expires_at": {expires_at}}'
CONNECT_TIMEOUT_S = 30.0
CODEC_SETTINGS = {"value": "t", "time": "ts"}


class OrderedReplies:
    """Link of an MQTT replay to the broker; yields replies in the order of the activations.

    If several sensors are activated at the same time, the order of their replies affects the model.
    With this link, the order does not depend on the network. The link does not wait for a sensor
    that has a gap in the recording.
    """

    def __init__(self, link: BrokerLink, recording: Recording) -> None:
        self._link = link
        self._sensors = SimulatedSensors(recording)
        self._expected: list[str] = []  # sensors that will reply, in the order of activation
        self._early: dict[str, tuple[str, Event]] = {}  # replies before their turn, by sensor

    def __getattr__(self, name: str) -> Any:
        """Return the attribute `name` of the link that the MQTT replay wraps."""
        return getattr(self._link, name)

    def send(self, field: str, command: Command) -> None:
        """Send a command of the controller in the MQTT replay, and note which reply to expect."""
        if isinstance(command, Activate):
            if command.replaces:
                self._expected, self._early = [], {}
            if isinstance(self._sensors.reply(command), Reading):
                self._expected.append(command.sensor)
        self._link.send(field, command)

    def service(self, mask: int, now: float) -> Iterator[tuple[str, Event]]:
        """Do the pending network I/O of the MQTT replay, and yield the new events.

        Replies are yielded in the order of the activations.
        """
        for field, event in self._link.service(mask, now):
            if not (isinstance(event, Reading) and event.sensor in self._expected):
                yield field, event
                continue
            self._early[event.sensor] = field, event
            while self._expected and self._expected[0] in self._early:
                yield self._early.pop(self._expected.pop(0))


class RecordedIntervals(Scheduler):
    """Scheduler of an MQTT replay; leaves out the intervals in which no sensor was observed.

    No sensor is activated in such an interval, but the time of the model advances.

    Parameters
    ----------
    recording : Recording
        The recording to replay.
    span : RowRange
        The rows to replay.
    clock : Clock
        The clock of the replay.
    """

    def __init__(self, recording: Recording, span: RowRange, clock: Clock) -> None:
        rows = span.last - span.first
        super().__init__({FIELD: recording.interval}, clock, first=0.0, last=rows)
        recorded = set(recorded_rows(recording, span).tolist())
        self._is_recorded = iter([row in recorded for row in range(span.first, span.last)])
        self._intervals = 0  # number of intervals since the last one with a reading

    def due(self) -> Iterator[tuple[str, Event]]:
        """Yield ``(field, event)`` for each due deadline or interval of the MQTT replay.

        Intervals in which no sensor was observed are left out.
        """
        for field, event in super().due():
            if isinstance(event, IntervalElapsed):
                self._intervals += event.intervals
                if not next(self._is_recorded):
                    continue
                event = IntervalElapsed(event.at, self._intervals)
                self._intervals = 0
            yield field, event


class Connect(Protocol):
    """Function that connects a replay to the broker."""

    def __call__(
        self, fields: Mapping[str, FieldSettings], *, wall: Callable[[], float]
    ) -> BrokerLink:
        """Return the MQTT replay's link to the broker for `fields`.

        `wall` returns the time of the replay in s since 1970.
        """
        ...


def replay_over_mqtt(
    backtest: Backtest,
    controller: Controller,
    connect: Connect,
    speed: float,
    watch: Callable[[Command], None] = lambda command: None,
) -> ReplayRecorder:
    """Replay the test days through `controller` and a broker, `speed` times as fast as real time.

    `connect` connects the replay to the broker. The sensors must already be connected; the function
    `sensor_process` starts them. `watch` is called with every command of the controller. Raises
    `KeyboardInterrupt` on SIGINT and SIGTERM.
    """
    recording, span = backtest.recording, backtest.test_span
    recorder = ReplayRecorder(recording, span, controller.policy)
    clock = ReplayClock(recording.start + span.first * recording.interval, speed)
    connection = connect({FIELD: _field(recording)}, wall=lambda: clock.wall(clock.elapsed()))
    link = cast(BrokerLink, OrderedReplies(connection, recording))

    def record(field: str, command: Command) -> None:
        if isinstance(command, Activate):  # on a slow machine, the reply must not seem late
            clock.hold(command.expires_at)
        recorder.record(command)
        watch(command)

    with closing(link), stop_on_signal() as (stop, wakeup):
        _connect(link, stop)
        schedule = RecordedIntervals(recording, span, clock)
        status = StatusCollector(clock)
        status.attach({FIELD: controller}, link)
        loop = Loop(
            link,
            {FIELD: controller},
            schedule,
            clock,
            observers=[record, status],
            services=[status],
        )
        loop.run(lambda: stop() or schedule.done(), wakeup)
        interrupted = stop()
    if interrupted:
        raise KeyboardInterrupt
    return recorder


def _field(recording: Recording) -> FieldSettings:
    """Return the settings of an MQTT replay's field: its sensors, its times and its topics."""
    return FieldSettings(
        sensors=tuple(recording.sensors),
        interval=recording.interval,
        reply_timeout=recording.interval,
        max_age=recording.interval,
        reading=ReadingSettings(topic=READING_TOPIC, payload="json", settings=CODEC_SETTINGS),
        activate=ActivateSettings(mode="live", topic=ACTIVATE_TOPIC, payload=ACTIVATE_PAYLOAD),
    )


def _connect(link: Link, stop: Callable[[], bool]) -> None:
    give_up = time.monotonic() + CONNECT_TIMEOUT_S
    while not (link.online or stop()):
        if time.monotonic() > give_up:
            raise EdgeTvboError(
                "The broker rejects the connection or a subscription; the lines above say why."
            )
        mask = sleep(link, min(0.1, link.wake_at() - time.monotonic()))
        for _ in link.service(mask, time.monotonic()):
            pass  # the replay has not begun


@contextmanager
def sensor_process(arguments: Sequence[str], mqtt: Mqtt) -> Iterator[subprocess.Popen[str]]:
    """Run the sensors of an MQTT replay in a second process, and wait until they are ready.

    The sensors connect to the broker that `mqtt` names. `arguments` contains the options of
    ``edge-tvbo simulate`` that name the recording. The process ends with the `with` block.
    """
    _check_broker(mqtt)
    command = [sys.executable, "-m", "edge_tvbo", "simulate", *arguments]
    command += ["--host", mqtt.host, "--port", str(mqtt.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not _read_line(process.stdout).startswith("ready"):
                raise EdgeTvboError("The simulated sensors did not start; the lines above say why.")
            yield process
        finally:
            process.terminate()


def _check_broker(mqtt: Mqtt) -> None:
    try:
        socket.create_connection((mqtt.host, mqtt.port), timeout=CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise EdgeTvboError(
            f"{mqtt.address}: {error.strerror or error}; is a broker running there?"
        ) from None


def _read_line(output: IO[str]) -> str:
    """Return the next line that the sensors of an MQTT replay write.

    If they write nothing for `CONNECT_TIMEOUT_S`, the result is "".
    """
    ready, _, _ = select.select([output], [], [], CONNECT_TIMEOUT_S)
    return output.readline() if ready else ""
