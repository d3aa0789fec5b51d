"""Fuzzing of model files: any bytes give a field on which a policy works, or a `ConfigError`."""

import json
import tempfile
from functools import cache
from math import isfinite
from pathlib import Path
from random import Random

from fuzz.fuzzing import main
from fuzz.trees import changed

from edge_tvbo.errors import ConfigError
from edge_tvbo.policy import make_policy
from edge_tvbo.training import model_file

MODEL = {
    "format": 5,
    "unit": "°C",
    "objective": "max",
    "center": 21.0,
    "scale": 2.0,
    "log1p_scale": 3.0,
    "noise_variance": 0.01,
    "sensors": ["a", "b"],
    "kernel": [[1.0, 0.5], [0.5, 1.0]],
    "positions": [[0.0, 0.0], [1.0, 2.0]],
    "structure": {
        "period": 604800.0,
        "cycle": 86400.0,
        "interval": 21600.0,
        "rows": 8,
        "course": [[0.0, 0.1], [0.2, 0.3], [0.1, 0.1], [0.0, 0.2]],
        "spread": [1.0, 0.5],
        "liveliness": [1.0] * 24,
        "correlation": [[1.0, 0.5], [0.5, 1.0]],
        "components": {
            "level": {"variance": 1.0, "time": 1e6, "common": 0.5},
            "slow": {"variance": 0.3, "time": 86400.0, "common": 0.0},
            "fast": {"variance": 0.5, "time": 7200.0, "common": 0.0},
            "offset": {"variance": 0.1, "time": 1e6, "common": 0.0},
            "season": {"variance": 0.5, "time": 1e6, "common": 0.0},
            "decay": 2.0,
            "noise_variance": 0.01,
        },
        "state": {
            "end": 1.8e9,
            "mean": [[0.1, 0.2]] * 10,
            "covariances": [[[0.1 if a == b else 0.0 for a in range(10)] for b in range(10)]] * 2,
        },
    },
}


def seeds() -> list[bytes]:
    """Return a model with a structure and positions, and one without."""
    short = {key: value for key, value in MODEL.items() if key not in ("positions", "structure")}
    return [json.dumps(each).encode() for each in (MODEL, {**short, "format": 1})]


def check(data: bytes) -> None:
    """Read `data` as a model file, and let a policy take one interval over its field."""
    file = _file()
    file.write_bytes(data)
    try:
        field = model_file.read(file)
    except ConfigError as error:
        assert str(error).encode()
        return
    try:
        policy = make_policy("auto", field)
    except ConfigError:
        return
    policy.set_time(2e9)
    choice = policy.select()
    policy.observe(choice.arm, field.to_model(field.to_unit(0.5)))
    assert isfinite(field.std_to_unit(choice.mean, choice.std))
    policy.advance()
    assert all(map(isfinite, (choice.mean, choice.std, choice.ucb, policy.select().ucb)))
    model_file.write(file, field)
    assert model_file.read(file).fingerprint() == field.fingerprint()


def mutate(data: bytes, random: Random) -> bytes:
    """Change one value somewhere in the document."""
    try:
        return json.dumps(changed(json.loads(data), random)).encode()
    except (ValueError, TypeError, RecursionError):
        return b""


@cache
def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-model-")) / "model.json"


if __name__ == "__main__":
    main("fuzz_model_file")
