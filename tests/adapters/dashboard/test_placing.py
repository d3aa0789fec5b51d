"""Placing sensors in chromium: the plan image, dragging, the keyboard, the file of positions."""

import json
import re
import struct
import urllib.request
import zlib

import pytest
from click.testing import CliRunner
from edge_tvbo_adapters.dashboard.plan import MAX_SIZE, read_plan
from support.dashboard import DashboardProcess, wait_for

from edge_tvbo.cli import main
from edge_tvbo.config.errors import Report
from edge_tvbo.config.sensor_positions import of_sensors
from edge_tvbo.errors import ConfigError

WIDTH_M = 20.0
PIXELS = (40, 30)  # of the plan
CONFIG = """\
[mqtt]
host = "127.0.0.1"

[fields.temperature]
interval = "1min"
unit = "°C"
sensors = ["attic", "cellar", "kitchen"]
reading = { topic = "home/{sensor}/t" }
kernel = { name = "se", length_scale = 4.0, variance = 4.0, noise_variance = 0.05, mean = 20.0 }
positions = { attic = [2.0, 3.0], cellar = [9.0, 5.0], kitchen = [15.0, 12.0] }
names = { attic = "Dachboden" }
"""
PLACE = """
const picture = document.querySelector("#plan .picture").getBoundingClientRect();
const box = [...document.querySelectorAll("#plan .place")]
    .find(e => e.getAttribute("aria-label").startsWith(arguments[0]))
    .querySelector(".disc").getBoundingClientRect();
const metres = arguments[1] / picture.width;
return [(box.left + box.width / 2 - picture.left) * metres,
    (picture.bottom - box.top - box.height / 2) * metres, metres];
"""


def png(width, height):
    """Return a white image in PNG format."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\xff" * width) * height)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@pytest.fixture(scope="module")
def home(shared, tmp_path_factory):
    """Return a dashboard with a plan image, without a daemon and a broker."""
    directory = tmp_path_factory.mktemp("home")
    (directory / "plan.png").write_bytes(png(*PIXELS))
    config = directory / "home.toml"
    config.write_text(CONFIG)
    options = ("--plan", directory / "plan.png", "--plan-width", WIDTH_M)
    dashboard = DashboardProcess(directory / "log", config, *options)
    shared.callback(dashboard.stop)
    dashboard.config = config
    return dashboard


def open_map(page, dashboard):
    page.driver.get("about:blank")
    page.driver.get(dashboard.address)
    wait_for(lambda: page.script("return document.querySelectorAll('#plan .place').length") == 3)


def downloaded(page, directory):
    """Return the path of the positions that the page lets a user download."""
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(directory)}
    )
    page.click("download-positions")
    file = directory / "temperature-positions.txt"
    wait_for(lambda: file.is_file() and file.stat().st_size)  # it is empty at first
    return file


def test_dragged_sensor_is_in_the_file_that_the_configuration_reads(page, home, tmp_path):
    from selenium.webdriver import ActionChains

    open_map(page, home)
    page.click("place")
    place = page.driver.find_element("css selector", ".place[aria-label^=Dachboden]")
    metres = page.script(PLACE, "Dachboden", WIDTH_M)[2]
    ActionChains(page.driver).drag_and_drop_by_offset(place, 90, -45).perform()
    expected = pytest.approx((2 + 90 * metres, 3 + 45 * metres), abs=2 * metres)
    wait_for(lambda: tuple(page.script(PLACE, "Dachboden", WIDTH_M)[:2]) == expected)

    file = downloaded(page, tmp_path)
    report = Report(home.config, dict, {})
    sensors = ["attic", "cellar", "kitchen"]
    positions = of_sensors(file.name, tmp_path, sensors, ("positions",), report)
    assert positions["attic"] == expected
    assert positions["cellar"] == (9.0, 5.0)

    config = tmp_path / "home.toml"
    lines = [line for line in CONFIG.splitlines() if not line.startswith("positions")]
    config.write_text("\n".join([*lines, f'positions = "{file.name}"']))
    result = CliRunner().invoke(main, ["check", str(config)])
    assert result.exit_code == 0, result.output


def test_sensor_is_moved_by_keyboard_and_changes_can_be_discarded(page, home, tmp_path):
    open_map(page, home)
    page.click("place")
    page.script("document.querySelectorAll('#plan .place')[1].focus()")
    page.press("\ue014", times=3)  # arrow right: 0.1 m each
    page.press("\ue013")  # arrow up
    assert "cellar 9.30 5.10\n" in downloaded(page, tmp_path).read_text()
    page.script("document.querySelector('#placing-tools button:last-child').click()")
    page.click("place")
    (tmp_path / "temperature-positions.txt").unlink()
    assert "cellar 9.00 5.00\n" in downloaded(page, tmp_path).read_text()


def test_every_sensor_can_be_moved_by_keyboard(page, home, tmp_path):
    open_map(page, home)
    page.click("place")
    page.script("document.getElementById('download-positions').focus()")
    page.press("\ue004")  # Tab: to the second button
    for _ in range(3):
        page.press("\ue004")
        page.press("\ue014")  # arrow right
    text = downloaded(page, tmp_path).read_text()
    assert [line.split()[1] for line in text.splitlines()[1:]] == ["2.10", "9.10", "15.10"]
    page.script("document.querySelector('#placing-tools button:last-child').click()")


def test_arrow_keys_move_the_sensor_that_was_clicked(page, home, tmp_path):
    from selenium.webdriver import ActionChains

    open_map(page, home)
    page.click("place")
    disc = page.driver.find_elements("css selector", "#plan .place .disc")[2]
    ActionChains(page.driver).click(disc).send_keys("\ue014").perform()
    assert "kitchen 15.10 12.00\n" in downloaded(page, tmp_path).read_text()
    page.script("document.querySelector('#placing-tools button:last-child').click()")


def test_sensors_without_positions_can_be_placed(page, tmp_path, shared):
    config = tmp_path / "home.toml"
    text = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("positions"))
    config.write_text(text.replace('"se", length_scale = 4.0', '"exchangeable"'))
    dashboard = DashboardProcess(tmp_path / "log", config)
    shared.callback(dashboard.stop)
    open_map(page, dashboard)
    assert "Place sensors" in page.text("plan-note")
    page.click("place")
    lines = downloaded(page, tmp_path).read_text().splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["attic", "cellar", "kitchen"]


def test_file_can_be_used_with_a_model_without_positions(tmp_path):
    sensors = ["attic", "cellar", "kitchen"]
    model = {"format": 2, "unit": "°C", "objective": "max", "center": 20.0, "scale": 2.0}
    kernel = [[1.0 if a == b else 0.5 for a in sensors] for b in sensors]
    model |= {"noise_variance": 0.05, "sensors": sensors, "kernel": kernel}
    (tmp_path / "model.json").write_text(json.dumps(model))
    (tmp_path / "places.txt").write_text("attic 2.0 3.0\ncellar 9.0 5.0\nkitchen 15.0 12.0\n")
    config = tmp_path / "home.toml"
    by = 'model = "model.json"\npolicy = { name = "auto", length_scale = "learned" }'
    text = re.sub("(?m)^kernel.*$", by, CONFIG)
    config.write_text(re.sub("(?m)^positions.*\n", "", text))
    refused = CliRunner().invoke(main, ["check", str(config)])
    assert refused.exit_code != 0 and "positions" in refused.output + str(refused.exception)
    config.write_text(re.sub("(?m)^positions.*$", 'positions = "places.txt"', text))
    assert CliRunner().invoke(main, ["check", str(config)]).exit_code == 0


def test_image_is_behind_the_map_and_keeps_its_proportions(page, home):
    open_map(page, home)
    box = page.script(
        "const b = document.querySelector('#plan .picture').getBoundingClientRect();"
        "return [b.width, b.height]"
    )
    assert box[0] / box[1] == pytest.approx(PIXELS[0] / PIXELS[1], rel=0.01)
    place = page.script(PLACE, "Dachboden", WIDTH_M)[:2]
    assert place == pytest.approx((2.0, 3.0), abs=0.1)
    assert page.console() == []
    page.save_screenshots("plan")


MOVE_UP = """
const place = document.querySelector("#plan .place[aria-label^=kitchen]");
for (let k = 0; k < 9; k++)
    place.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", shiftKey: true }));
"""
IS_PEAK_DRAWN = """
const peak = document.querySelector("#plan .place[aria-label^=kitchen] .peak");
peak.removeAttribute("visibility");
peak.scrollIntoView({ block: "center" });
const box = peak.getBoundingClientRect();
return document.elementFromPoint(box.left + box.width / 2, box.top + 2) === peak;
"""


def test_symbols_of_a_sensor_at_the_edge_of_the_map_are_not_cut(page, home):
    """A sensor can be on an outer wall of the plan, or outside."""
    open_map(page, home)
    page.click("place")
    page.script(MOVE_UP)
    page.click("place")
    assert page.script(IS_PEAK_DRAWN)


SHOW_OTHER_DAY = """
const at = "2026-11-24T08:00:00Z", model = { observations: 1, resets: 0 };
const decision = { interval: 0, at, expires_at: at, sensor: "attic", reason: "explore", text: "",
    mean: 20, std: 1, ucb: 22, unit: "°C", factors: [], earlier: [], ineligible: {}, model };
const frames = [{ decision, ending: null, value: null, hotspot: null, readings: {} }];
const day = { day: "2026-11-24", days: ["2026-11-24"], frames, before: [], notices: [] };
window.fetch = async () => ({ ok: true, json: async () => ({ ...day, complete: arguments[0] }) });
location.hash = new URLSearchParams({ field: "temperature", day: "2020-01-01", n: arguments[0] });
"""


@pytest.mark.slow  # it starts a dashboard
def test_page_says_that_the_browser_cannot_read_the_plan(page, shared, tmp_path):
    (tmp_path / "home.toml").write_text(CONFIG)
    (tmp_path / "plan.png").write_bytes(png(*PIXELS)[:8])
    options = ("--plan", tmp_path / "plan.png", "--plan-width", WIDTH_M)
    dashboard = DashboardProcess(tmp_path / "log", tmp_path / "home.toml", *options)
    shared.callback(dashboard.stop)
    open_map(page, dashboard)
    for mode in ("live", "replay", "live"):
        page.click(mode)
        page.wait_for_text("zone", "The browser cannot read the plan image.")
    for complete, words in ((False, "The history cannot be read"), (True, "2020-01-01 is not")):
        page.script(SHOW_OTHER_DAY, complete)
        page.wait_for_text("zone", words)
        page.wait_for_text("zone", "The browser cannot read the plan image.")


@pytest.mark.slow  # it starts a dashboard
def test_image_is_served_with_the_security_headers(home):
    with urllib.request.urlopen(f"{home.address}plan") as response:
        assert response.read() == png(*PIXELS)
        assert response.headers["content-type"] == "image/png"
        assert "default-src 'none'" in response.headers["content-security-policy"]
    with urllib.request.urlopen(f"{home.address}fields.json") as response:
        document = json.load(response)
    assert document["plan"] == {"width": WIDTH_M}
    assert str(home.config.parent) not in json.dumps(document)


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, expected",
    [
        (None, "must name an image"),
        (b"<svg onload='alert(1)'/>", "is not an image in PNG, JPEG or GIF format"),
        (b"\x89PNG\r\n\x1a\n" + bytes(MAX_SIZE), "is larger than 16 MiB"),
    ],
)
def test_invalid_image_is_rejected(tmp_path, content, expected):
    file = tmp_path / "plan.png"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=expected):
        read_plan(file, 10.0)


@pytest.mark.parametrize("options", [("--plan", "plan.png"), ("--plan-width", "10")])
def test_image_and_width_belong_together(options):
    result = CliRunner().invoke(main, ["dashboard", "--dataset", "lab-sample", *options])
    assert isinstance(result.exception, ConfigError | SystemExit)
    assert "belong together" in str(result.exception) + result.output
