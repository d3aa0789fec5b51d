"""Paths of this checkout, and of the recordings beside it."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DEPLOY = ROOT / "deploy"
DOCS = ROOT / "docs"
SHARED = ROOT.parent / "shared" / "data"
