"""HTTP protocol of the dashboard, with a time limit for each request."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

# Time limit for a request, in s. The time starts with the connection; for a later request on
# the same connection, the time starts with the first byte of the later request.
REQUEST_TIMEOUT_S = 5.0


class TimedH11Protocol(H11Protocol):
    """Uvicorn's HTTP protocol with a time limit for requests.

    Uvicorn limits the number of connections, but has no time limit for an incomplete request.
    """

    _cut: asyncio.TimerHandle | None = None

    # uvicorn also declares that `transport` is an `asyncio.Transport`.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first HTTP request of a dashboard connection."""
        super().connection_made(transport)
        self._time_request()

    def data_received(self, data: bytes) -> None:
        """Handle a part of an HTTP request; stop the timer when the request is complete."""
        super().data_received(data)
        self._time_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the wait for an HTTP request, because the dashboard connection is closed."""
        self._stop_timer()
        super().connection_lost(exc)

    def _time_request(self) -> None:
        """Start the timer if the dashboard awaits a request; otherwise stop the timer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._cut is None:
            self._cut = self.loop.call_later(REQUEST_TIMEOUT_S, self.transport.close)

    def _stop_timer(self) -> None:
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None
