"""Checkpoint documents: their formats, and the time that has elapsed since a document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.lives import BOOT, NOW, Time
from support.old_state import large_controller, run_controller

from edge_tvbo.config.environment import variables
from edge_tvbo.daemon import checkpoint_document
from edge_tvbo.daemon.checkpoint_document import (
    BOOT_VARIABLE,
    FORMAT,
    MIGRATIONS,
    Anchor,
    Document,
    FieldCheckpoint,
    clock_anchor,
    decode,
    elapsed_between,
    encode,
    resume_point,
    used_number,
)
from edge_tvbo.errors import SnapshotError

DOCUMENT = Document(BOOT, False, {"lab": FieldCheckpoint(b"controller", 3, 9, 600.0, 12.5)})


def test_decoded_document_equals_the_encoded_one():
    assert decode(encode(DOCUMENT)) == DOCUMENT


def test_newer_format_is_rejected_with_the_reason(monkeypatch):
    monkeypatch.setattr(checkpoint_document, "FORMAT", 7)
    data = encode(DOCUMENT)
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match="format 7, .* reads up to format 1"):
        decode(data)


def test_older_format_is_migrated_step_by_step(monkeypatch):
    data = encode(DOCUMENT)
    renamed = []

    def step(body):
        renamed.append(len(renamed))
        return {**body, "fields": {f"{name}'": each for name, each in body["fields"].items()}}

    monkeypatch.setattr(checkpoint_document, "FORMAT", 3)
    monkeypatch.setattr(checkpoint_document, "MIGRATIONS", {1: step, 2: step})
    assert list(decode(data).fields) == ["lab''"]
    assert renamed == [0, 1]


def test_every_older_format_has_a_migration():
    assert sorted(MIGRATIONS) == list(range(1, FORMAT))


TIMES = st.floats(0.0, 1e7)


@given(st.floats(0.01, 1e5), st.floats(0.0, 1.0), TIMES, st.booleans())
def test_next_interval_begins_after_the_running_one_and_within_an_interval(
    every, share, away, final
):
    next_in = share * every
    begins_in, skipped = resume_point(
        FieldCheckpoint(b"", 3, 9, every, next_in), away, every, final=final
    )
    assert begins_in >= next_in - away - 1e-9 * away
    assert 0.0 <= begins_in <= every * (1 + 1e-9) + 1e-9 * away
    overdue = (away - next_in) / every
    tolerance = 1e-6 + 1e-14 * away / every
    if final:
        assert skipped <= max(0.0, overdue) + tolerance
        assert skipped >= overdue - 1.0 - tolerance
    else:  # at a multiple of the interval, as in the process before
        assert skipped == pytest.approx(overdue + begins_in / every, abs=tolerance)


@pytest.mark.parametrize(("every", "skipped"), [(60.0, 120), (600.0, 12), (3600.0, 2)])
@pytest.mark.parametrize("final", [True, False])
def test_skipped_intervals_in_a_document_of_an_old_version_have_the_present_length(
    every, skipped, final
):
    """Old versions let the intervals of a downtime pass only with the first interval."""
    field = FieldCheckpoint(b"", 3, 9, 600.0, 50.0, intervals=13)
    assert resume_point(field, 0.0, every, final=final) == (50.0, skipped)
    _, later = resume_point(field, 50.0 + every, every, final=final)
    assert later == skipped + (1 if final else 2)


@pytest.mark.parametrize(("every", "highest"), [(60.0, 129), (600.0, 21), (3600.0, 21)])
def test_no_number_is_used_again_after_a_kill_that_left_a_document_of_an_old_version(
    every, highest
):
    """The document counts 12 intervals of an earlier downtime that have not passed."""
    field = FieldCheckpoint(b"", 3, 9, 600.0, 50.0, intervals=13)
    skipped = resume_point(field, 0.0, every, final=False).skipped
    assert used_number(field, 0.0, every) + skipped == highest


@given(TIMES, TIMES, st.floats(-1e12, 1e12), st.sampled_from(["", "x"]))
def test_elapsed_time_is_never_negative(before, now, wall, boot):
    assert elapsed_between(Anchor(NOW, before, boot), Anchor(wall, now, boot)) >= 0.0
    assert elapsed_between(Anchor(wall, before, "a"), Anchor(NOW, now, "b")) >= 0.0


@given(st.integers(0, 30), st.integers(1, 30))
@max_examples(20)
def test_a_field_with_a_large_covariance_continues_bit_for_bit(before, after):
    controller, other = large_controller(), large_controller()
    run_controller(controller, 0, before)
    field = FieldCheckpoint(controller.snapshot(), before, before + 1, 600.0, 0.0)
    data = encode(Document(Anchor(NOW, 70.0, ""), final=False, fields={"hall": field}))
    other.restore(decode(data).fields["hall"].controller)
    end = before + after
    assert run_controller(other, before, end) == run_controller(controller, before, end)
    assert other.snapshot() == controller.snapshot()


FILE = "e66ced38-e8f1-4e98-8177-af8129a8e2f0\n"  # as the kernel writes it
VARIABLE = "e66ced38e8f14e988177af8129a8e2f0"  # as systemd writes it


@pytest.mark.parametrize(
    ("file", "variable", "boot"),
    [
        (FILE, None, FILE.strip()),
        (FILE, VARIABLE[::-1], FILE.strip()),
        (None, VARIABLE, FILE.strip()),
        (None, "%b", ""),
        (None, None, ""),
        ("\xff", "", ""),
    ],
)
def test_boot_id_of_an_anchor_is_that_of_the_file_or_else_of_the_variable(
    file, variable, boot, tmp_path, monkeypatch
):
    path = tmp_path / "boot_id"
    if file is not None:
        path.write_text(file, "latin-1")
    monkeypatch.setattr(checkpoint_document, "_BOOT", path)
    monkeypatch.delenv(BOOT_VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(BOOT_VARIABLE, variable)
    assert clock_anchor(Time()) == Anchor(BOOT.wall, BOOT.monotonic, boot)


def test_variable_of_the_boot_id_overrides_no_setting():
    assert variables({BOOT_VARIABLE: VARIABLE}) == {}
