"""Recorded messages of device integrations, from documentation and users' logs.

The bytes are as recorded, with other ids, and without parts that no codec reads. The source of each
message is beside it.
"""

from datetime import timedelta
from typing import NamedTuple

from edge_tvbo_adapters.payloads.formats import make_codec


class Message(NamedTuple):
    """One message, and the expected result of its codec."""

    payload: str  # name of the format
    settings: dict[str, str]
    topic: str
    body: bytes
    expected: tuple[float, float | timedelta | None] | str  # or the reason of its rejection
    source: str

    def codec(self):
        return make_codec(self.payload, self.settings)


Z2M = "zigbee2mqtt.io, guide/usage/mqtt_topics_and_messages"
RFC = "RFC 8428, section 5.1"
SHELLY = "shelly-api-docs.shelly.cloud, gen2/General/Notifications"
TTS = "thethingsindustries.com, the-things-stack/concepts/data-formats"
CHIRPSTACK = "chirpstack.io, docs/chirpstack/integrations/events"
THINGSBOARD = "thingsboard.io, docs/reference/mqtt-api/telemetry"
GATEWAY = "thingsboard.io, docs/reference/gateway-api/telemetry"
HOMIE = "homieiot/convention, convention.md"
HOMIE_2 = "a user's log of Homie 2.0.0: gist of nzben, a02d3839b3aa6d17fe1f9a53f6ca985b"
SHELLY_USB = "a user's log of an H&T on USB: gist of NelsonMinar, 494a0f53785c20290b395639548349fa"
GATEWAY_CLOCK = "a user's log: UniCT-ARSLab/LWN-Simulator#20"

_FULL_STATUS = b"""{"src":"shellyplusht-08b61f000000","dst":"shelly-ht/events",
"method":"NotifyFullStatus","params":{"ts":1674473304.12,"ble":{},"cloud":{"connected":false},
"devicepower:0":{"id": 0,"battery":{"V":6.17, "percent":100},"external":{"present":false}},
"ht_ui":{},"humidity:0":{"id": 0,"rh":54.3},"mqtt":{"connected":true},"sys":{"uptime":1,
"wakeup_reason":{"boot":"deepsleep_wake","cause":"periodic"},"wakeup_period":7200},
"temperature:0":{"id": 0,"tC":19.9, "tF":67.8},"ws":{"connected":false}}}"""

_ON_USB = b"""{"src":"shellyplusht-b8d61a000000","dst":"shellyplusht-b8d61a000000/events",
"method":"NotifyFullStatus","params":{"ts":1680962879.62,"devicepower:0":{"id":0,
"battery":{"V":0.43,"percent":0},"external":{"present":true}},"humidity:0":{"id":0,"rh":42.2},
"sys":{"time":null,"unixtime":null,"uptime":3},"temperature:0":{"id":0,"tC":19.8,"tF":67.6}}}"""

_UPLINK = b"""{"end_device_ids":{"device_id":"lab-node","application_ids":{"application_id":"app1"},
"dev_eui":"0004A30B001C0530","join_eui":"800000000000000C","dev_addr":"00BCB929"},
"correlation_ids":["as:up:01"],"received_at":"2021-12-02T09:34:06.596658678Z",
"uplink_message":{"session_key_id":"AXBSH1Pk6Z0G166","f_port":2,"f_cnt":1222,
"frm_payload":"W7ErAg==","decoded_payload":{"light":177,"pressure":995.5,"temperature":23.2},
"rx_metadata":[{"gateway_ids":{"gateway_id":"gtw1"},"time":"2021-12-02T09:34:06.372269Z",
"rssi":-93}],"settings":{"frequency":"868300000"},"received_at":"2021-12-02T09:34:06.385345Z",
"consumed_airtime":"0.051456s"}}"""

_JOIN = b"""{"end_device_ids":{"device_id":"dev1","application_ids":{"application_id":"app1"}},
"received_at":"2020-02-12T15:15:45.787Z","join_accept":{"session_key_id":"AXBSH1Pk6Z0G166",
"received_at":"2020-02-17T07:49:12Z"}}"""

_CHIRPSTACK = b"""{"deduplicationId":"3ac7e3c4-4401-4b8d-9386-a5c902f9202d",
"time":"2022-07-18T09:34:15.775023242+00:00","deviceInfo":{"applicationName":"Test application",
"deviceName":"Test device","devEui":"0101010101010101","tags":{"key":"value"}},
"devAddr":"00189440","dr":1,"fPort":1,"data":"qg==","object":{"temperatureSensor":{"1":25}},
"rxInfo":[{"gatewayId":"0016c001f153a14c","rssi":-36,"snr":10.5}]}"""

_CHIRPSTACK_1980 = b"""{"deduplicationId":"a7fed1c4-6243-44af-9310-f3f4e3e3eb00",
"time":"1980-01-21T23:17:20.234+00:00","deviceInfo":{"deviceName":"dev3",
"devEui":"0101010101010101"},"dr":0,"fCnt":183,"fPort":1,"object":{"temperature":21.5},
"rxInfo":[{"gatewayId":"285bd82c7d76e7e1","time":"2023-09-27T08:57:14+00:00",
"timeSinceGpsEpoch":"1379840.234s","rssi":-60,"snr":7}]}"""

_CHIRPSTACK_STATUS = b"""{"deduplicationId":"bf2a9746-1c8b-49be-a92e-f0b89c8534e4",
"time":"2022-07-18T09:35:06.927172638+00:00","deviceInfo":{"devEui":"0101010101010101"},
"margin":10,"batteryLevel":88.3}"""

_TASMOTA_F = b"""{"Time":"2022-09-06T08:52:59","ANALOG":{"A0":542},"SCD30":{"CarbonDioxide":814,
"eCO2":787,"Temperature":71.8,"Humidity":61.6,"DewPoint":57.9},"TempUnit":"F"}"""

_PACK = b"""[{"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,"bu":"A","bver":5,
"n":"voltage","u":"V","v":120.1},{"n":"current","t":-5,"v":1.2},{"n":"current","t":-4,"v":1.3},
{"n":"current","t":-3,"v":1.4},{"n":"current","t":-2,"v":1.5},{"n":"current","t":-1,"v":1.6},
{"n":"current","v":1.7}]"""

_MOBILE = b"""[{"bn":"urn:dev:ow:10e2073a01080063","bt":1.320067464e+09,"bu":"%RH","v":20},
{"u":"lon","v":24.30621},{"u":"lat","v":60.07965},{"t":60,"v":20.3},
{"u":"lon","t":60,"v":24.30622},{"u":"lat","t":60,"v":60.07965},{"t":120,"v":20.7},
{"u":"lon","t":120,"v":24.30623},{"u":"lat","t":120,"v":60.07966},{"u":"%EL","t":150,"v":98},
{"t":180,"v":21.2},{"u":"lon","t":180,"v":24.30628},{"u":"lat","t":180,"v":60.07967}]"""

_GATEWAY_OF_TWO = b"""{"Device A":[{"ts":1483228800000,"values":{"temperature":42,"humidity":80}},
{"ts":1483228801000,"values":{"temperature":43,"humidity":82}}],
"Device B":[{"ts":1483228800000,"values":{"temperature":42,"humidity":80}}]}"""

_Z2M_HALL = "zigbee2mqtt/hall"
_Z2M_SEEN = b'{"battery":97,"temperature":20.16,"last_seen":"2024-01-15T12:00:00.500Z"}'
_TASMOTA = "tele/tasmota_4F2A1B/SENSOR"
_TASMOTA_AM = (
    b'{"Time":"2017-02-16T10:13:52","AM2301":{"Temperature":24.6,"Humidity":58.2},"TempUnit":"C"}'
)
_TASMOTA_TWO = (
    b'{"Time":"2024-06-01T12:00:00","DS18B20-1":{"Id":"030EA2794B8A","Temperature":21.3},'
    b'"DS18B20-2":{"Id":"0516A42B5DFF","Temperature":22.9},"TempUnit":"C"}'
)
_SHELLY = "shellyplusht-08b61f000000"
_SHELLY_SWITCH = (
    b'{"src":"shellypro4pm-000000","dst":"user_1","method":"NotifyStatus",'
    b'"params":{"ts":1631186545.04,"switch:0":{"id":0,"output":true,"source":"button"}}}'
)
_SHELLY_UNSET = (
    b'{"method":"NotifyFullStatus","params":{"ts":1.33,"temperature:0":{"id":0,"tC":19.9}}}'
)
_TTS = "v3/app1@ttn/devices/lab-node/up"
_CHIRP = "application/17c82e96-be03/device/0101010101010101/event/"
_TB_PAIR = (
    b'[{"ts":1451649600000,"values":{"temperature":22.5,"humidity":61}},'
    b'{"ts":1451649601000,"values":{"temperature":22.7,"humidity":60}}]'
)
_TB_STAMPED = b'{"ts":1451649600512,"values":{"temperature":22.5,"humidity":61}}'
_TB_GATEWAY = b'{"Device A":[{"ts":1700000000000,"values":{"temperature":23.5,"humidity":61}}]}'
_ANY = "any/x"

MESSAGES = [
    Message(
        "zigbee2mqtt", {}, _Z2M_HALL, b'{"temperature":27.34,"humidity":44.72}', (27.34, None), Z2M
    ),
    Message(
        "zigbee2mqtt", {"value": "humidity"}, _Z2M_HALL, b'{"humidity":44.72}', (44.72, None), Z2M
    ),
    Message("zigbee2mqtt", {}, _Z2M_HALL, _Z2M_SEEN, (20.16, 1705320000.5), "last_seen: ISO_8601"),
    Message(
        "zigbee2mqtt",
        {},
        _Z2M_HALL,
        b'{"temperature":20.16,"last_seen":1705320000500}',
        (20.16, 1705320000.5),
        "last_seen: epoch",
    ),
    Message("zigbee2mqtt", {}, _Z2M_HALL, b'{"state":"online"}', "availability", Z2M),
    Message("zigbee2mqtt", {}, _Z2M_HALL, b'{"action":"single"}', "missing-value", Z2M),
    Message("zigbee2mqtt", {}, _Z2M_HALL, b'{"temperature":null}', "not-a-number", "after pairing"),
    Message("tasmota", {}, _TASMOTA, _TASMOTA_AM, (24.6, None), "tasmota.github.io, MQTT"),
    Message(
        "tasmota",
        {"value": "AM2301.Humidity", "timezone": "Europe/Berlin"},
        _TASMOTA,
        _TASMOTA_AM,
        (58.2, 1487236432.0),
        "tasmota.github.io, MQTT",
    ),
    Message("tasmota", {}, _TASMOTA, _TASMOTA_F, (22.111111, None), "solarslurpi/growbuddy"),
    Message("tasmota", {"unit": "F"}, _TASMOTA, _TASMOTA_F, (71.8, None), "solarslurpi/growbuddy"),
    Message(
        "tasmota",
        {"value": "Humidity"},
        _TASMOTA,
        _TASMOTA_F,
        (61.6, None),
        "solarslurpi/growbuddy",
    ),
    Message("tasmota", {}, _TASMOTA, _TASMOTA_TWO, "ambiguous", "tasmota.github.io, DS18x20"),
    Message(
        "tasmota",
        {"value": "DS18B20-2.Temperature"},
        _TASMOTA,
        _TASMOTA_TWO,
        (22.9, None),
        "tasmota.github.io, DS18x20",
    ),
    Message(
        "tasmota",
        {},
        _TASMOTA,
        b'{"AM2301":{"Temperature":294.6},"TempUnit":"K"}',
        "wrong-unit",
        "constructed",
    ),
    Message(
        "tasmota", {}, _TASMOTA, b'{"AM2301":{"Temperature":null}}', "not-a-number", "Tasmota#4147"
    ),
    Message("esphome", {}, "attic/sensor/bme280/state", b"21.3", (21.3, None), "esphome.io, mqtt"),
    Message(
        "esphome", {}, "attic/sensor/bme280/state", b"nan", "non-finite", "esphome/issues#1436"
    ),
    Message(
        "shelly", {}, f"{_SHELLY}/events/rpc", _FULL_STATUS, (19.9, 1674473304.12), "a user's log"
    ),
    Message(
        "shelly",
        {"value": "humidity:0.rh"},
        f"{_SHELLY}/events/rpc",
        _FULL_STATUS,
        (54.3, 1674473304.12),
        "a user's log",
    ),
    Message(
        "shelly",
        {},
        f"{_SHELLY}/status/temperature:0",
        b'{"id": 0,"tC":19.9, "tF":67.8}',
        (19.9, None),
        SHELLY,
    ),
    Message("shelly", {}, f"{_SHELLY}/events/rpc", _SHELLY_UNSET, (19.9, None), "a user's log"),
    Message("shelly", {}, f"{_SHELLY}/events/rpc", _SHELLY_SWITCH, "missing-value", SHELLY),
    Message(
        "shelly",
        {},
        f"{_SHELLY}/events/rpc",
        b'{"method":"NotifyEvent","params":{"ts":1631186545.04,"events":[]}}',
        "other-event",
        SHELLY,
    ),
    Message(
        "shelly",
        {"value": "devicepower:0.battery.percent"},
        f"{_SHELLY}/events/rpc",
        _ON_USB,
        (100.0, 1680962879.62),
        SHELLY_USB,
    ),
    Message(
        "shelly",
        {"value": "devicepower:0.battery.percent"},
        f"{_SHELLY}/status/devicepower:0",
        b'{"id":0,"battery":{"V":0.43,"percent":0},"external":{"present":true}}',
        (100.0, None),
        SHELLY_USB,
    ),
    Message(
        "shelly",
        {"value": "devicepower:0.battery.percent"},
        f"{_SHELLY}/status/devicepower:0",
        b'{"id":0,"battery":{"V":4.7,"percent":5},"external":{"present":false}}',
        (5.0, None),
        SHELLY,
    ),
    Message("the-things-stack", {}, _TTS, _UPLINK, (23.2, 1638437646.385345), "a user's log"),
    Message(
        "the-things-stack",
        {"value": "light"},
        _TTS,
        _UPLINK,
        (177.0, 1638437646.385345),
        "a user's log",
    ),
    Message("the-things-stack", {"value": "co2"}, _TTS, _UPLINK, "missing-value", "a user's log"),
    Message("the-things-stack", {}, _TTS, _JOIN, "other-event", TTS),
    Message(
        "chirpstack",
        {"value": "temperatureSensor.1"},
        f"{_CHIRP}up",
        _CHIRPSTACK,
        (25.0, 1658136855.775023),
        CHIRPSTACK,
    ),
    Message("chirpstack", {}, f"{_CHIRP}up", _CHIRPSTACK_1980, (21.5, None), GATEWAY_CLOCK),
    Message("chirpstack", {}, f"{_CHIRP}status", _CHIRPSTACK_STATUS, "other-event", CHIRPSTACK),
    Message(
        "thingsboard", {}, _ANY, b'{"temperature":22.5,"humidity":61}', (22.5, None), THINGSBOARD
    ),
    Message("thingsboard", {}, _ANY, _TB_STAMPED, (22.5, 1451649600.512), THINGSBOARD),
    Message(
        "thingsboard", {"value": "humidity"}, _ANY, _TB_PAIR, (60.0, 1451649601.0), THINGSBOARD
    ),
    Message("thingsboard", {}, _ANY, _TB_GATEWAY, (23.5, 1700000000.0), GATEWAY),
    Message("thingsboard", {}, _ANY, _GATEWAY_OF_TWO, "several-devices", GATEWAY),
    Message("senml", {"value": "current"}, _ANY, _PACK, (1.7, 1276020076.001), RFC),
    Message(
        "senml",
        {"value": "urn:dev:ow:10e2073a0108006:voltage", "unit": "V"},
        _ANY,
        _PACK,
        (120.1, 1276020076.001),
        RFC,
    ),
    Message("senml", {"unit": "%RH"}, _ANY, _MOBILE, (21.2, 1320067644.0), RFC),
    Message("senml", {"unit": "%EL"}, _ANY, _MOBILE, (98.0, 1320067614.0), RFC),
    Message("senml", {"unit": "Cel"}, _ANY, _MOBILE, "wrong-unit", RFC),
    Message(
        "senml",
        {},
        _ANY,
        b'[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]',
        (23.1, timedelta(0)),
        RFC,
    ),
    Message("homie", {}, "homie/5/super-car/engine/temperature", b"21.5", (21.5, None), HOMIE),
    Message("homie", {}, "homie/5/super-car/engine/temperature", b"NaN", "non-finite", HOMIE),
    Message("homie", {}, "homie/5/super-car/engine/temperature", b"", "empty", HOMIE),
    Message(
        "homie", {}, "homie/multi-sensor-1/temperature/degrees", b"20.62", (20.62, None), HOMIE_2
    ),
    Message(
        "jmespath",
        {"value": "max_by(probes, &at).t", "time": "max_by(probes, &at).at"},
        _ANY,
        b'{"probes":[{"t":20.5,"at":1078646400},{"t":21.5,"at":1078646500}]}',
        (21.5, 1078646500.0),
        "constructed",
    ),
    Message("jmespath", {"value": "a.b"}, _ANY, b'{"a":1}', "missing-value", "constructed"),
    Message("jmespath", {"value": "abs(a)"}, _ANY, b'{"a":"x"}', "missing-value", "constructed"),
]
