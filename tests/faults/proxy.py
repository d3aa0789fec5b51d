"""A TCP proxy that does to a connection what networks do."""

import selectors
import socket
import time
from contextlib import suppress
from threading import Thread


class Proxy:
    """Carries bytes between whoever connects to `port` and a broker, until told otherwise.

    Set `delay` (s for each piece) or `corrupt` (change every so many bytes that come from the
    broker); call `cut` to end every connection, `freeze` to carry nothing and close nothing, and
    `refuse` to listen no more.
    """

    def __init__(self, target):
        self._target = target
        self.delay, self.corrupt, self.frozen = 0.0, 0, False
        self.connections = 0
        self._pairs = {}
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

    def close(self):
        self._stop = True
        self._thread.join()

    def _run(self):
        while not self._stop:
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

    def _accept(self):
        theirs, _ = self._listener.accept()
        self.connections += 1
        try:
            ours = socket.create_connection(("127.0.0.1", self._target), timeout=5)
        except OSError:
            theirs.close()
            return
        for one, other in ((theirs, ours), (ours, theirs)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)
        self._brokers = ours

    def _carry(self, one):
        other = self._pairs.get(one)
        if other is None:
            return
        try:
            some = one.recv(65536)
            if self.delay:
                time.sleep(self.delay)
            if self.corrupt and one is self._brokers:
                some = bytes(
                    each ^ 0x55 if i % self.corrupt == 0 else each for i, each in enumerate(some)
                )
            if some:
                other.sendall(some)
                return
        except OSError:
            pass
        for each in (one, other):
            self._selector.unregister(each)
            del self._pairs[each]
            each.close()
