"""A client of Home Assistant's REST and websocket API, as its own frontend uses them."""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager

from websockets.sync.client import connect

URL = "http://127.0.0.1:8123"
CLIENT = f"{URL}/"
START_TIMEOUT_S = 120.0


class HomeAssistant:
    """A user who is logged in."""

    def __init__(self):
        self.token = self.refresh_token = None
        self._numbers = iter(range(1, 10**9))

    # --- login ------------------------------------------------------------------------------------

    def onboard(self):
        """Create the first user and finish the onboarding."""
        self.wait()
        user = {"client_id": CLIENT, "name": "t", "username": "t", "password": "test-test"}
        code = self.request("POST", "/api/onboarding/users", user | {"language": "en"})
        grant = {"grant_type": "authorization_code", "code": code["auth_code"]}
        self._log_in(grant)
        self.refresh_token = self._tokens["refresh_token"]
        for step in ("core_config", "analytics"):
            self.request("POST", f"/api/onboarding/{step}", {})
        redirect = {"client_id": CLIENT, "redirect_uri": CLIENT}
        self.request("POST", "/api/onboarding/integration", redirect)

    def log_in_again(self):
        """Wait until Home Assistant has started again, and get a new token."""
        self.wait()
        self._log_in({"grant_type": "refresh_token", "refresh_token": self.refresh_token})

    def wait(self):
        """Wait until Home Assistant serves its API."""
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(f"{URL}/api/onboarding", timeout=10)
                return
            except urllib.error.HTTPError:
                return  # 404 once the onboarding is done
            except OSError:
                assert time.monotonic() < end, "Home Assistant did not start"
                time.sleep(0.5)

    def _log_in(self, grant):
        body = urllib.parse.urlencode({"client_id": CLIENT, **grant}).encode()
        with urllib.request.urlopen(f"{URL}/auth/token", body, timeout=30) as response:
            self._tokens = json.load(response)
        self.token = self._tokens["access_token"]

    # --- requests ---------------------------------------------------------------------------------

    def request(self, method, path, body=None):
        """Return the answer to a REST request."""
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(URL + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.loads(response.read() or b"null")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read()[:500]}") from error

    def command(self, kind, **data):
        """Return the result of a websocket command."""
        with self._socket() as socket:
            number = next(self._numbers)
            socket.send(json.dumps({"id": number, "type": kind, **data}))
            while (answer := json.loads(socket.recv(60))).get("id") != number:
                pass
        assert answer["success"], answer
        return answer["result"]

    def call(self, service, **data):
        """Call a service, such as switch.turn_on."""
        return self.request("POST", f"/api/services/{service.replace('.', '/')}", data)

    @contextmanager
    def _socket(self):
        with connect(f"ws{URL[4:]}/api/websocket", max_size=None) as socket:
            socket.recv(60)
            socket.send(json.dumps({"type": "auth", "access_token": self.token}))
            assert json.loads(socket.recv(60))["type"] == "auth_ok"
            yield socket

    # --- what it shows ----------------------------------------------------------------------------

    def states(self):
        """Return the states of our entities, by their ids."""
        states = self.request("GET", "/api/states")
        return {each["entity_id"]: each for each in states if "edge_tvbo_" in each["entity_id"]}

    def entities(self):
        """Return our entries in the entity registry, by their ids."""
        entries = self.command("config/entity_registry/list")
        return {each["entity_id"]: each for each in entries if "edge_tvbo_" in each["entity_id"]}

    def device(self, identifier):
        """Return the device with an MQTT identifier; None if there is none."""
        devices = self.command("config/device_registry/list")
        return next((e for e in devices if ["mqtt", identifier] in e["identifiers"]), None)

    def add_mqtt(self, port, username, password):
        """Set up the MQTT integration by its configuration flow, with the defaults of its form."""
        path = "/api/config/config_entries/flow"
        flow = self.request("POST", path, {"handler": "mqtt", "show_advanced_options": False})
        path = f"{path}/{flow['flow_id']}"
        if flow["type"] == "menu":
            flow = self.request("POST", path, {"next_step_id": "broker"})
        broker = {"broker": "127.0.0.1", "port": port, "username": username, "password": password}
        done = self.request("POST", path, filled(flow["data_schema"]) | broker)
        assert done["type"] == "create_entry", done
        return done["result"]["entry_id"]

    def enable_all(self):
        """Enable our entities that are disabled at first; return their ids."""
        disabled = [each for each, entry in self.entities().items() if entry["disabled_by"]]
        for each in disabled:
            self.command("config/entity_registry/update", entity_id=each, disabled_by=None)
        return disabled


def filled(schema):
    """Return the answers to a form with its own defaults."""
    data = {}
    for each in schema:
        if each.get("type") == "expandable":
            data[each["name"]] = filled(each["schema"])
        elif "default" in each:
            data[each["name"]] = each["default"]
        elif each.get("required") and "boolean" in each.get("selector", {}):
            data[each["name"]] = False
        elif each.get("required") and "select" in each.get("selector", {}):
            first = each["selector"]["select"]["options"][0]
            data[each["name"]] = first["value"] if isinstance(first, dict) else first
    return data


class Availability(threading.Thread):
    """Follows our entities, and notes for how long each was unavailable."""

    def __init__(self, home):
        super().__init__(daemon=True)
        self._home, self._since, self._ended = home, {}, threading.Event()
        self.spans = []  # (seconds, entity)
        self._ready = threading.Event()
        self.start()
        assert self._ready.wait(30)

    def run(self):
        with self._home._socket() as socket:
            request = {"id": 1, "type": "subscribe_events", "event_type": "state_changed"}
            socket.send(json.dumps(request))
            socket.recv(60)
            self._ready.set()
            while not self._ended.is_set():
                try:
                    message = json.loads(socket.recv(0.2))
                except TimeoutError:
                    continue
                if message["type"] == "event":
                    self._note(message["event"]["data"])

    def _note(self, data):
        entity, new = data["entity_id"], data["new_state"]
        if "edge_tvbo_" not in entity:
            return
        since = self._since.pop(entity, None)
        if since is not None and new is not None:
            self.spans.append((time.monotonic() - since, entity))
        if new is not None and new["state"] == "unavailable":
            self._since[entity] = time.monotonic()

    def longest(self):
        """End, and return the longest time that an entity was unavailable, in s, and its id."""
        self._ended.set()
        self.join()
        now = time.monotonic()
        spans = self.spans + [(now - since, entity) for entity, since in self._since.items()]
        return max(spans, default=(0.0, None))
