"""Fuzzing: runs a fuzzer for some seconds, and prints its result in one line.

A fuzzer is a module with

    seeds() -> bytes, ...            initial inputs
    check(data) -> None              raises if a property does not hold; deterministic
    mutate(data, random) -> bytes    optional: a change that keeps the input's structure; b"" if
                                     the input has none, for a change of any byte

It needs no atheris, so plain tests call its `check` too. `main` starts it in another process, so
that a crash or a hang does not lose the result. What `check` raises is a finding: its input is kept
beside the corpus, in ``fuzz-out/``, once for each place that raises.
"""

import argparse
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random

from support.paths import ROOT

OUT = ROOT / "fuzz-out"
INSTRUMENTED = ("edge_tvbo", "edge_tvbo_adapters", "msgspec", "tomllib")
MAX_INPUT_SIZE = 2**16  # bytes
CHECK_TIMEOUT_S = 60
MAX_MEMORY_MIB = 4096
SHARE = 0.8  # of the fuzzer's own mutations, where it has some
_TOTAL = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_COVERAGE = re.compile(r"cov: (\d+) ft: (\d+)")


def main(name: str) -> None:
    """Run the fuzzer `name`, print its result, and exit with 1 if it found something."""
    options = argparse.ArgumentParser(prog=name)
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--out", type=Path, default=OUT)
    chosen = options.parse_args()
    out = chosen.out / name
    (out / "corpus").mkdir(parents=True, exist_ok=True)
    child = [sys.executable, "-m", "fuzz.fuzzing", name, *map(str, (chosen.seconds, chosen.seed))]
    begun = time.monotonic()
    with (out / "log").open("wb") as log:
        status = subprocess.run([*child, str(out)], stdout=log, stderr=log, check=False).returncode
    seconds = time.monotonic() - begun
    text = (out / "log").read_text(errors="replace")
    executions = _TOTAL.findall(text) or ["0"]
    edges, features = (_COVERAGE.findall(text) or [("0", "0")])[-1]
    found = len(list(out.glob("found-*.txt")))
    print(
        f"{name}: {executions[-1]} executions in {seconds:.0f} s, {edges} edges, "
        f"{features} features, {found} findings, seed {chosen.seed}"
        + (f"; it ended with status {status}, see {out / 'log'}" if status else "")
    )
    sys.exit(bool(found or status))


class Findings:
    """A check that keeps one input for each place that raises."""

    def __init__(self, check: Callable[[bytes], None], out: Path) -> None:
        self._check = check
        self._out = out
        self._places: set[str] = set()

    def __call__(self, data: bytes) -> None:
        try:
            self._check(data)
        except Exception as error:
            place = _place(error)
            if place not in self._places:
                self._places.add(place)
                self._keep(data, "".join(traceback.format_exception(error)), place)

    def _keep(self, data: bytes, text: str, place: str) -> None:
        stem = self._out / f"found-{sha256(place.encode()).hexdigest()[:8]}"
        stem.with_suffix(".bin").write_bytes(data)
        stem.with_suffix(".txt").write_text(f"{data!r}\n\n{text}", errors="backslashreplace")


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}"


def _fuzz(name: str, seconds: int, seed: int, out: Path) -> None:
    """Fuzz in this process, which ends with it."""
    import atheris

    for before in out.glob("found-*"):
        before.unlink()
    with atheris.instrument_imports(list(INSTRUMENTED), _compiled()):
        target = import_module(f"fuzz.{name}")
        check = Findings(target.check, out)
        for each in target.seeds():  # which has the modules imported that are needed last
            check(each)
            (out / "corpus" / sha256(each).hexdigest()).write_bytes(each)
    change = getattr(target, "mutate", None)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        random = Random(number)
        changed = change(data, random) if random.random() < SHARE else b""
        return changed if 0 < len(changed) <= most else atheris.Mutate(data, most)

    limits = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": MAX_INPUT_SIZE,
        "timeout": CHECK_TIMEOUT_S,
        "rss_limit_mb": MAX_MEMORY_MIB,
        "print_final_stats": 1,
        "artifact_prefix": f"{out}/crash-",
    }
    arguments = [name, *(f"-{key}={value}" for key, value in limits.items()), str(out / "corpus")]
    atheris.Setup(arguments, check, **({"custom_mutator": mutate} if change else {}))
    atheris.Fuzz()


def _compiled() -> list[str]:
    """Return the modules that numba compiles; it cannot compile instrumented code."""
    spec = find_spec("edge_tvbo")
    assert spec and spec.origin
    numerics = Path(spec.origin).parent / "numerics"
    return [f"edge_tvbo.numerics.{each.stem}" for each in numerics.glob("*.py")]


if __name__ == "__main__":
    _name, _seconds, _seed, _out = sys.argv[1:]
    _fuzz(_name, int(_seconds), int(_seed), Path(_out))
