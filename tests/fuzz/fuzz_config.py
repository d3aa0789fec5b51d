"""Fuzzing of configurations: any bytes are accepted, or give findings whose lines exist."""

import tempfile
from functools import cache
from pathlib import Path
from random import Random

from edge_tvbo_adapters.payloads.formats import FORMATS
from fuzz.fuzzing import main
from support.paths import ROOT

from edge_tvbo.config import loader
from edge_tvbo.config.errors import Finding
from edge_tvbo.config.settings import Settings

VALUES = (
    *("0", "-1", "1e400", "nan", "-inf", "9" * 30, "1.5", "true", '""', "'x'", "[]", "{}", "[[]]"),
    *('"10min"', '"1e9d"', '"on-reading"', '"{sensor}"', '"a/{sensor}/b"', '"{at}"', '"é\\u0000"'),
    *('"auto"', '"json"', '"live"', '"min"', '"fitted"', "1979-05-27T07:32:00Z", "07:32:00"),
    *("{ c1 = 0, c2 = 1 }", "[0, 0]", "{ a = [0, 1e10] }", '"""\n"""', "0x7f", "'''\n'''"),
)
KEYS = ("mqtt", "fields", "heat", "policy", "beta", "sensors", "reading", "tls", '"a\\nb"', "''")


def seeds() -> list[bytes]:
    """Return the deployed example and each of its tables."""
    text = (ROOT / "deploy" / "config.example.toml").read_text(encoding="utf-8")
    tables = text.split("\n[")
    live = text.replace('"advise"', '"live"').replace("# [", "[").replace("# password", "password")
    return [each.encode() for each in (text, live, *tables[1:], "[[a]]\nb.c = [1, {d = 2}]\n")]


def check(data: bytes) -> None:
    """Read `data` as a configuration."""
    path = _directory() / "config.toml"
    path.write_bytes(data)
    try:
        settings = loader.load(path, FORMATS)
    except loader.ConfigErrors as error:
        assert error.findings
        for finding in error.findings:
            _check_finding(finding, path, data)
        return
    assert isinstance(settings, Settings)


def _check_finding(finding: Finding, path: Path, data: bytes) -> None:
    assert str(finding).isprintable(), "it can be shown on one line"
    assert str(finding).encode()
    if finding.file == str(path):
        assert 0 <= finding.line <= data.count(b"\n") + 1, "the line exists"


def mutate(data: bytes, random: Random) -> bytes:
    """Change a line, or the order of lines."""
    lines = data.decode(errors="replace").split("\n")
    at = random.randrange(len(lines))
    key, equals, value = lines[at].partition("=")
    match random.randrange(7):
        case 0:
            lines.insert(random.randrange(len(lines) + 1), lines[at])
        case 1:
            del lines[at]
        case 2 if equals:
            lines[at] = f"{key}= {random.choice(VALUES)}"
        case 3 if equals:
            lines[at] = f"{random.choice(KEYS)} ={value}"
        case 4:
            lines.insert(at, f"{random.choice(KEYS)} = {random.choice(VALUES)}")
        case 5:
            lines[at] = f"[{random.choice(KEYS)}.{random.choice(KEYS)}]"
        case _:
            words = lines[at].split(" ")
            words[random.randrange(len(words))] = random.choice((*VALUES, *KEYS))
            lines[at] = " ".join(words)
    return "\n".join(lines).encode()


@cache
def _directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-config-"))


if __name__ == "__main__":
    main("fuzz_config")
