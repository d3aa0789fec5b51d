"""Word check: each of its patterns refuses the texts that it is for, and no similar ones.

In the examples, | divides a word that the check refuses, because the check also reads this file.
"""

import re
from pathlib import Path

import pytest
from support.check_words import TEXT, findings, is_checked

EXAMPLES = [  # refused, allowed
    ("who|ever reads it", "the user who ever reads it"),
    ("some|body reads it", "some|body of the text"),
    ("no|body reads it", "the body of the message"),
    ("the user who loo|ks on", "the user who looks at the page"),
    ("the model beg|ins anew", "the model begins again"),
    ("it lets g|o of the socket", "it lets the socket go"),
    ("what is be|lieved of a sensor", "what the user believed"),
    ("the link is to|ld that it ends", "it is to|ld apart from others"),
    ("the observers are to|ld", "the sensors are to|ld apart"),
    ("the reason, and what me|nds it", "the amended text recommends it"),
    ("it names what would d|o", "it names what it would do"),
    ("in on|e's own files", "in its own files"),
    ("a topic of ou|rs", "one of our topics"),
    ("it waits in va|in", "it waits in a vain attempt"),
    ("what be|came of each interval", "it became one of the intervals"),
    ("what has be|come of it", "it has become of use"),
    ("it is out of all propor|tion", "it is in proportion to all"),
    ("it is left al|one until 30", "it is left of the text, alone"),
    ("a topic that is no|ne", "a topic that is not valid"),
    ("it says goo|d-bye", "a good byte"),
    ("a li|ar", "a familiar word"),
    ("in hin|dsight", "in the history"),
    ("a rehe|arsal", "hearsay"),
    ("three training s|d", 'the label "training s|d"'),
]
DOCSTRINGS = [
    "Asks the sensor.", "Be the value.", "Believe the value.", "Come to the end.",
    "Give the value.", "Go to the end.", "Have the value.", "Hear the value.",
    "Let go the value.", "Look at the value.", "Men|ds the value.", "Say the value.",
    "Sees the value.", "Take in the value.", "Tells the value.", "Welcome the value.",
]  # fmt: skip
QUESTIONS = ("How", "What", "Whatever", "Who", "Who|ever", "Whose")
CONSTANTS = [
    "MOST", "LEAST_SHARE", "FEWEST", "LARGEST_FIELD", "_SMALLEST", "LONGEST_TOPIC", "SHORTEST",
    "GREATEST", "HIGHEST", "LOWEST", "PATIENCE", "GENEROUS", "ENOUGH", "SOON", "_AGES",
    "SEVERAL", "NEAR", "_FAR", "MEMORY",
]  # fmt: skip


@pytest.fixture
def check(tmp_path):
    """Return a function that returns the findings in a text, which is the content of a file."""

    def check(text, name="page.md"):
        path = tmp_path / name
        path.write_text(text.replace("|", ""), "utf-8")
        return list(findings(path))

    return check


@pytest.mark.parametrize(("refused", "allowed"), EXAMPLES)
def test_words_are_refused_in_a_page_but_no_similar_ones(check, refused, allowed):
    ((line, text),) = check(f"A page.\n\nHere, {refused}.\n")
    assert line == 3
    assert text.split('"')[1] in refused.replace("|", "")
    assert check(f"A page.\n\nHere, {allowed}.\n") == []


def test_every_pattern_has_an_example():
    refused = [each.replace("|", "") for each, _ in EXAMPLES]
    assert [each for each in TEXT if not any(re.search(each, text) for text in refused)] == []


def test_words_are_refused_in_the_texts_of_a_module_but_not_in_its_code(check):
    code = (
        '"""A module."""\nin_vain = 1  # waits in va|in\ntext = "in va|in"\n'
        "def in_va|in():\n    pass\n"
    )
    assert [line for line, _ in check(code, "module.py")] == [2, 3, 4]


@pytest.mark.parametrize("text", DOCSTRINGS)
@pytest.mark.parametrize("kind", ["def f():", "async def f():", "class C:"])
def test_docstrings_that_begin_with_an_unusual_verb_are_refused(check, kind, text):
    found = check(f'{kind}\n    """{text}"""\n', "module.py")
    assert any("Return ..., Compute ..." in each for _, each in found)


@pytest.mark.parametrize(
    "text",
    ["Return the value.", "Behave as a list.", "Seed the generator.", "Given a list.", "Sayings."],
)
def test_docstrings_that_begin_with_another_word_are_allowed(check, text):
    assert check(f'def f():\n    """{text} Give it."""\n', "module.py") == []


@pytest.mark.parametrize("word", QUESTIONS)
def test_modules_and_classes_are_named_by_a_noun(check, word):
    for code in (f'"""{word} is read."""\n', f'class C:\n    """{word} is read."""\n'):
        found = check(code, "module.py")
        assert any("begin with a noun" in each for _, each in found)


def test_a_noun_that_begins_as_a_question_is_allowed(check):
    assert check('"""Whole numbers: their sum."""\n', "module.py") == []
    assert check('def f():\n    """What a function returns."""\n', "module.py") == []


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_that_do_not_say_what_they_limit_are_refused(check, name):
    ((line, text),) = check(f'"""Module."""\n\n{name} = 1\n', "module.py")
    assert (line, text.split(":")[0]) == (3, name)


@pytest.mark.parametrize("name", ["MAX_MOST", "MOSTLY", "AGESET", "LEAST1", "least", "SOONER_S"])
def test_constants_with_other_names_are_allowed(check, name):
    assert check(f'"""Module."""\n\n{name} = 1\n', "module.py") == []


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
    path.write_text('reader = "no|body"\n\n# read by no|body\n'.replace("|", ""), "utf-8")
    assert [line for line, _ in findings(path)] == [1, 3]


@pytest.mark.parametrize(
    "name", ["CHANGELOG.md", "docs/contributing.md", "docs/favicon.png", "tests/data/a.toml"]
)
def test_pages_that_quote_the_words_and_other_files_are_not_checked(name):
    assert not is_checked(name)
