"""Takes the pictures of docs/home-assistant.md, in a real Home Assistant's own frontend.

    pictures.py CHROOT MINUTES

Start it as `run.sh` starts `checks.py`. For MINUTES the daemon makes decisions first, so that there
is a history.
"""

import json
import math
import sys
import time
from pathlib import Path

from client import URL, HomeAssistant
from lab import LIVE, PROJECT, Lab
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOMS = {"hall": "Hall", "attic": "Attic", "kitchen": "Kitchen", "office": "Office", "bath": "Bath"}
KERNEL = 'kernel = { name = "exchangeable", variance = 4.0, noise_variance = 0.02, mean = 21.0 }'
PICTURES = PROJECT / "docs"


def temperature(login):
    """Return the simulated temperature of a room now; the warmest room changes."""
    room, t = list(ROOMS.values()).index(login), time.time()
    return 21.0 + 0.3 * room + 1.8 * math.sin(t / 400.0 + 1.7 * room)


def browser(width, height):
    """Return a browser of this size."""
    options = webdriver.ChromeOptions()
    for each in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--force-device-scale-factor=1",
    ):
        options.add_argument(each)
    options.add_argument(f"--window-size={width},{height}")
    return webdriver.Chrome(options, Service("/usr/bin/chromedriver"))


def take(home, path, file, width, height):
    """Take a picture of a page."""
    driver = browser(width, height)
    try:
        driver.get(f"{URL}/manifest.json")
        tokens = home._tokens | {
            "hassUrl": URL,
            "clientId": f"{URL}/",
            "expires": int(time.time() * 1000) + 1_700_000,
            "refresh_token": home.refresh_token,
        }
        driver.execute_script("localStorage.hassTokens = arguments[0]", json.dumps(tokens))
        driver.get(URL + path)
        time.sleep(15.0)
        driver.save_screenshot(str(PICTURES / file))
    finally:
        driver.quit()


def main(chroot, minutes):
    lab = Lab(Path(chroot).parent / "pictures", chroot, ROOMS.values(), value=temperature)
    home = HomeAssistant()
    try:
        names = ", ".join(f'{sensor} = "{name}"' for sensor, name in ROOMS.items())
        rest = [
            *(KERNEL, f"names = {{ {names} }}", LIVE % "temperature"),
            "alert = { threshold = 26.0 }",
        ]
        fields = {"temperature": (list(ROOMS), "°C", "10s", "\n".join(rest))}
        links = 'dashboard_url = "http://gateway:8080/"\n'
        lab.configure(fields, homeassistant=links, silence="60s")
        lab.start_daemon()
        lab.configure_hass()
        lab.start_hass()
        home.onboard()
        home.add_mqtt(1883, "homeassistant", "homeassistant")
        time.sleep(60.0 * float(minutes))
        device = home.device("edge_tvbo_lab")["id"]
        home.log_in_again()
        page = f"/config/devices/device/{device}"
        take(home, page, "home-assistant-device.png", 1300, 1500)
        take(home, "/edge-tvbo/edge-tvbo", "home-assistant-dashboard.png", 1200, 800)
    finally:
        lab.processes.stop_all()


if __name__ == "__main__":
    main(*sys.argv[1:])
