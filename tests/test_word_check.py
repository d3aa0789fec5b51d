"""The word check of `make lint`: which files it reads, and what it finds in them."""

from pathlib import Path

import pytest
from support.check_words import findings, is_checked

WORD = "no" + "body"  # in two parts, because this file is checked, too


@pytest.mark.parametrize(
    "name",
    [
        "Makefile",
        "deploy/install.sh",
        "deploy/edge-tvbo.service",
        "deploy/docker/compose.yaml",
        "a.yml",
        "pyproject.toml",
        "docs/findings.md",
    ],
)
def test_comments_and_strings_of_all_text_files_are_checked(name, tmp_path):
    assert is_checked(name)
    path = tmp_path / Path(name).name
    path.write_text(f'reader = "{WORD}"\n\n# read by {WORD}\n', "utf-8")
    assert [line for line, _ in findings(path)] == [1, 3]


@pytest.mark.parametrize("name", ["CHANGELOG.md", "docs/contributing.md", "docs/favicon.png"])
def test_pages_that_quote_the_words_and_other_files_are_not_checked(name):
    assert not is_checked(name)
