"""Page with the pictures of the experiments, written to build/experiments before each build.

`edge-tvbo experiment NAME` writes pictures to the directory experiments-out. If this directory has
a picture, the page shows it. Otherwise the experiment is carried out before the build, with a few
runs.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.util.logging import getLogger

from edge_tvbo.cli.recordings import data_source
from edge_tvbo.research import experiments

ROOT = Path(__file__).resolve().parents[2]
FULL = ROOT / "experiments-out"
PAGES = ROOT / "build" / "experiments"
log = getLogger(__name__)

INTRODUCTION = """# Pictures of the experiments

[experiments.md](../../docs/experiments.md) has the numbers of the full runs, and explains these
numbers. The pictures on this page were in `experiments-out` when the site was built. A picture of
only a few runs shows what is measured, but not which policy is better.
"""


def write_page(app):
    """Write the page of pictures."""
    PAGES.mkdir(parents=True, exist_ok=True)
    data = data_source(())
    known = [experiments.load(name, data) for name in experiments.names() if name[1:].isdigit()]
    parts = [INTRODUCTION, *(section(each, app.config.experiments_runs) for each in known)]
    (PAGES / "index.md").write_text("\n".join(parts), "utf-8")


def section(experiment, runs):
    """Return the site's section about an experiment.

    The section contains the picture of the experiment, or says why there is none.
    """
    name = experiment.name
    text = f"## {name}: {experiment.title}\n\nPublished: {experiment.source}.\n"
    full, few = FULL / f"{name}-seed-0", PAGES / name
    reason = ""
    if not (full / "figure.svg").is_file() and not (few / "figure.svg").is_file():
        reason = (
            run(name, runs, few)
            if runs
            else f"run `edge-tvbo experiment {name}` before the site is built."
        )
    found = next((each for each in (full, few) if (each / "figure.svg").is_file()), None)
    if found is None:
        return f"{text}\nThere is no picture: {reason}\n"
    picture = PAGES / f"{name}.svg"
    shutil.copyfile(found / "figure.svg", picture)
    count = len(list((found / "parts").glob("*.json")))
    command = f"edge-tvbo experiment {name} --runs {count}"
    return f"{text}\n![{experiment.title}]({picture.name})\n\nMade by `{command}`.\n"


def run(name, runs, directory):
    """Run an experiment for the site's page of pictures; return the reason if it failed."""
    log.info("running experiment %s with %d runs", name, runs)
    command = ["-m", "edge_tvbo", "experiment", name, "--runs", str(runs), "--out", str(directory)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def setup(app):
    app.add_config_value("experiments_runs", 0, "env", [int])
    app.connect("builder-inited", write_page, priority=100)
