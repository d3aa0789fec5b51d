"""A TCP proxy with the faults of networks: delays, corruption, cuts and half-open connections."""

import selectors
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from threading import Thread

IN, OUT = "in", "out"  # ways: from the broker, and to it
PUBACK = 0x40
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST


class Proxy:
    """A proxy between the clients of `port` and a broker.

    Set `delay` (s for each chunk), `corrupt` or `corrupt_out` (change every n-th byte from or to
    the broker), `frozen` (forward nothing and close nothing), `refusing` (close new connections) or
    `swallow` (drop every n-th PUBACK of the broker; 1 drops all).
    Call `cut` to end every connection, `cut_within` to end one in the middle of a chunk, and
    `abandon` to stop forwarding on the present connections without closing them.
    """

    def __init__(self, target):
        self._target = target
        self.delay, self.corrupt, self.corrupt_out = 0.0, 0, 0
        self.frozen = self.refusing = False
        self.swallow = self._pubacks = 0
        self._partial = {}  # by broker connection: the beginning of a packet
        self.connections = 0
        self._pairs = {}
        self._ways = {}
        self._short = {}  # by way: bytes of the next chunk to forward before the connection is cut
        self._todo = deque()  # calls for the thread, which owns the selector
        self._stop = False
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = Thread(target=self._run)
        self._thread.start()

    def cut(self):
        for each in list(self._pairs):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut_within(self, way, carried):
        """Cut the connection with the next bytes this way, after `carried` of them."""
        self._short[way] = carried

    def abandon(self, *ways):
        """Stop forwarding these ways on the present connections, and leave them open."""
        self._todo.extend(each for each, way in list(self._ways.items()) if way in ways)

    def close(self):
        self._stop = True
        self._thread.join()

    def _run(self):
        while not self._stop:
            while self._todo:
                self._unwatch(self._todo.popleft())
            for key, _ in self._selector.select(0.02):
                if key.fileobj is self._listener:
                    self._accept()
                elif not self.frozen:
                    self._carry(key.fileobj)
            if self.frozen:
                time.sleep(0.02)
        for each in (*self._pairs, self._listener):
            each.close()
        self._selector.close()

    def _unwatch(self, one):
        with suppress(KeyError, ValueError):
            self._selector.unregister(one)

    def _accept(self):
        theirs, _ = self._listener.accept()
        self.connections += 1
        if self.refusing:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            theirs.close()
            return
        try:
            ours = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            theirs.close()
            return
        for one, other, way in ((theirs, ours, OUT), (ours, theirs, IN)):
            self._ways[one] = way
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _carry(self, one):
        other = self._pairs.get(one)
        if other is None:
            return
        with suppress(OSError):
            if self._passed(one.recv(65536), other, self._ways[one]):
                return
        for each in (one, other):
            self._unwatch(each)
            del self._pairs[each], self._ways[each]
            each.close()

    def _passed(self, some, other, way):
        """Forward `some`; return whether the connection stays open."""
        if self.delay:
            time.sleep(self.delay)
        if every := self.corrupt if way == IN else self.corrupt_out:
            some = bytes(
                each ^ 0x55 if i % every == every // 2 else each for i, each in enumerate(some)
            )
        is_open = bool(some)
        if self.swallow and way == IN:
            some = self._without_pubacks(some, other)
        short = self._short.pop(way, None) if some else None
        other.sendall(some[:short])
        return is_open and short is None

    def _without_pubacks(self, some, client):
        """Return the complete packets of the broker's stream, without every n-th PUBACK."""
        rest, passed = self._partial.get(client, b"") + some, b""
        while size := packet_size(rest):
            packet, rest = rest[:size], rest[size:]
            if packet[0] == PUBACK:
                self._pubacks += 1
            if packet[0] != PUBACK or self._pubacks % self.swallow:
                passed += packet
        self._partial[client] = rest
        return passed


def packet_size(stream):
    """Return the size of the first MQTT packet in `stream`; 0 if it is not complete."""
    length = 0
    for at, byte in enumerate(stream[1:5]):
        length |= (byte & 127) << 7 * at
        if byte < 128:
            size = 2 + at + length
            return size if len(stream) >= size else 0
    return 0
