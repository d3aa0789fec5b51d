"""Journal: what it contains, and how a state follows from a document and its journal."""

import logging
from unittest.mock import Mock

import numpy as np
import pytest
from edge_tvbo_adapters.storage.state_files import FileStore
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.lives import NOW, Life, Memory, Time

from edge_tvbo.config.energy_settings import EnergySettings
from edge_tvbo.control.controller import Controller
from edge_tvbo.daemon import checkpoint_document, checkpoints, journal, restoration
from edge_tvbo.messages.events import (
    ActivationRequested,
    ClockStepped,
    PauseRequested,
    Reading,
    Unreadable,
)

PERIOD = 900.0  # s between two entries
ANCHOR = checkpoint_document.Anchor(NOW, 1.0, "")


@pytest.fixture
def timed(monkeypatch):
    """Return a clock that the checkpoints use, too; every state counts as large."""
    clock = Time()
    monkeypatch.setattr(checkpoints.time, "monotonic", clock.elapsed)
    monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
    return clock


def read(life, *values):
    """Let the sensor b report so many values, one a second."""
    for value in values:
        at = life.clock.now.wall
        life.commands(Reading("b", value, at, at, stamped=False))
        life.clock.move(1.0)


def write_entry(life):
    """Let the time until the next entry pass, without an interval, and write the entry."""
    before = len(entries(life))
    life.clock.move(life.checkpoints.wake_at() - life.clock.elapsed())
    life.checkpoints.service(life.clock.elapsed())
    assert len(entries(life)) == before + 1


def entries(life):
    return Memory.entries[life.store.kept[0]]


def said(caplog, *words):
    texts = [each.getMessage() for each in caplog.records]
    return [each for each in texts if all(word in each for word in words)]


def values(life):
    """Return the last value of the sensor b, and the number of readings in the model."""
    last = life.controller.last_readings().get("b")
    return last.value if last else None, life.controller.policy.observations


def test_a_kill_loses_only_the_events_after_the_last_entry(timed, caplog):
    caplog.set_level(logging.INFO)
    stored = []
    life = Life(timed, stored)
    read(life, 0.1, 0.2)
    write_entry(life)
    read(life, 0.3)
    write_entry(life)
    mean = life.controller.policy.posterior()
    read(life, 0.4)
    documents = list(stored)
    later = Life(timed, stored)
    assert values(later) == (0.3, 3)
    np.testing.assert_array_equal(later.controller.policy.posterior(), mean)
    assert said(caplog, "3 events read from the event journal")
    assert stored != documents  # the journal is not replayed again


def test_entries_are_written_as_often_as_small_documents(timed):
    life = Life(timed, [])
    assert life.checkpoints.wake_at() == timed.elapsed() + PERIOD
    for _ in range(2):
        write_entry(life)
        assert life.checkpoints.wake_at() == timed.elapsed() + PERIOD


def test_a_small_state_has_no_journal(timed, monkeypatch):
    monkeypatch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 2**18)
    life = Life(timed, [])
    for _ in range(20):
        read(life, 0.1)
        timed.move(PERIOD)
        life.checkpoints.service(timed.elapsed())
    assert entries(life) == []


def flipped(entry):
    return entry[:-1] + bytes([entry[-1] ^ 1])


def three_entries(clock, stored, **options):
    """Return a run with three readings, each in an entry of its own."""
    life = Life(clock, stored, **options)
    for value in (0.1, 0.2, 0.3):
        read(life, value)
        write_entry(life)
    return life


@pytest.mark.parametrize("cut", [1, 30, -1])
def test_a_torn_last_entry_is_dropped_and_logged(timed, caplog, cut):
    stored = []
    life = three_entries(timed, stored)
    entries(life)[-1] = entries(life)[-1][:cut]
    assert values(Life(timed, stored)) == (0.2, 2)
    assert said(caplog, "the end of the event journal cannot be used: it is incomplete")


def test_the_entries_after_a_damaged_one_are_dropped(timed, caplog):
    stored = []
    life = three_entries(timed, stored)
    entries(life)[1] = flipped(entries(life)[1])
    assert values(Life(timed, stored)) == (0.1, 1)
    assert said(caplog, "the end of the event journal cannot be used: the checksum does not match")


def test_after_a_damaged_entry_all_intervals_until_the_next_document_are_charged(timed):
    """Entries after the damaged one may be lost. A torn entry is the last one."""
    spent, energy = [], EnergySettings(field_budget=1000.0)
    for damaged in (False, True):
        stored = []
        life = three_entries(timed, stored, energy=energy)
        if damaged:
            entries(life)[2] = flipped(entries(life)[2])
        timed.move(36_000.0)
        later = Life(timed, stored, energy=energy)
        activated = later.live(600.0)
        spent.append(later.controller.health().energy.spent - len(activated))
    assert spent[0] == 4 < 50 < spent[1]


def test_the_journal_of_another_document_is_ignored(timed, caplog):
    stored, others = [], []
    life = three_entries(timed, stored)
    other = Life(timed, others)
    read(other, 0.9)
    write_entry(other)
    entries(life)[:] = entries(other)
    assert values(Life(timed, stored)) == (None, 0)
    assert not said(caplog, "journal")


def test_with_other_settings_the_field_continues_from_the_document(timed, caplog):
    stored = []
    life = Life(timed, stored)
    read(life, 0.1)
    life.checkpoints.save()
    read(life, 0.2, 5000.0)
    write_entry(life)
    later = Life(timed, stored, plausible=(-1e4, 1e4))
    assert values(later) == (0.1, 1)
    assert said(caplog, "the event journal cannot be used for the field lab", "have changed")


def test_with_another_model_the_field_continues_as_without_a_journal(timed, caplog):
    stored = []
    three_entries(timed, stored)
    later = Life(timed, stored, unit=2.0)
    assert values(later)[1] == 0
    assert said(caplog, "the event journal cannot be used for the field lab")
    assert said(caplog, "the field lab starts without readings")


def test_an_event_that_fails_does_not_prevent_the_start(timed, caplog, monkeypatch):
    stored = []
    life = Life(timed, stored)
    life.live(0.0)
    life.commands(ActivationRequested("b", NOW))
    write_entry(life)

    handle = Controller.handle

    def failing(self, event):
        if isinstance(event, ActivationRequested):
            raise KeyError(event.sensor)
        return handle(self, event)

    monkeypatch.setattr(Controller, "handle", failing)
    later = Life(timed, stored)
    assert later.controller.used > 0
    assert said(caplog, "the event journal cannot be used for the field lab", "an event failed")


class Ended(BaseException):
    """The end of a process, such as by systemd because it needs too much memory."""


def test_a_journal_with_which_five_starts_end_is_not_used_again(
    timed, tmp_path, caplog, monkeypatch
):
    life = Life(timed, FileStore(tmp_path, "k"))
    read(life, 0.1)
    life.clock.move(PERIOD)
    life.checkpoints.service(life.clock.elapsed())
    with monkeypatch.context() as patched:
        patched.setattr(restoration, "replay", Mock(side_effect=Ended))
        for _ in range(5):
            with pytest.raises(Ended):
                Life(timed, FileStore(tmp_path, "k"))
        later = Life(timed, FileStore(tmp_path, "k"))
    assert values(later) == (None, 0)
    assert later.controller.used > life.controller.used
    assert said(caplog, "stopped in each of its last 5 starts while it read the event journal")
    read(later, 0.2)
    timed.move(PERIOD)
    later.checkpoints.service(timed.elapsed())
    assert values(Life(timed, FileStore(tmp_path, "k"))) == (0.2, 1)


class FullDisk(FileStore):
    """A store on a disk on which no further document fits."""

    def save(self, document):
        return False


def test_starts_that_cannot_store_the_state_use_the_journal_again_and_again(timed, tmp_path):
    life = Life(timed, FileStore(tmp_path, "k"))
    read(life, 0.1)
    life.clock.move(PERIOD)
    life.checkpoints.service(life.clock.elapsed())
    for _ in range(7):
        assert values(Life(timed, FullDisk(tmp_path, "k"))) == (0.1, 1)


def test_commands_of_the_journal_are_not_carried_out_again(timed):
    stored = []
    life = Life(timed, stored)
    life.live(0.0)
    life.commands(PauseRequested(timed.now.wall))
    write_entry(life)
    later = Life(timed, stored)
    assert later.controller.paused
    assert later.commands(PauseRequested(timed.now.wall)) == []  # no second notice
    assert later.live(1300.0) == []


@pytest.mark.usefixtures("first_timeout_counts")
def test_a_sensor_that_was_silent_before_the_last_entry_is_backed_off(timed):
    """But not one that was silent when the process was killed."""
    stored, options = [], {"reply_timeout": 100.0}
    life = Life(timed, stored, **options)
    life.live(1000.0)
    lost = life.controller.health().suspects
    assert lost
    write_entry(life)
    later = Life(timed, stored, **options)
    assert later.controller.health().suspects == lost


def test_if_an_entry_cannot_be_stored_a_document_is_written(timed):
    stored = []
    life = three_entries(timed, stored)
    life.store.full = True
    timed.move(PERIOD)
    life.checkpoints.service(timed.elapsed())
    assert life.checkpoints.failing
    assert life.checkpoints.wake_at() == timed.elapsed() + 60.0
    life.store.full = False
    documents = list(stored)
    timed.move(60.0)
    life.checkpoints.service(timed.elapsed())
    assert not life.checkpoints.failing
    assert not set(stored) & set(documents)  # both generations are new


def test_a_full_journal_ends_and_the_document_is_written_early(timed, monkeypatch):
    monkeypatch.setattr(journal, "MAX_REPLAY_S", 1.0)
    life = Life(timed, [])
    life.checkpoints.note("lab", Unreadable("late", "topic", "detail"), 2.0)
    document = life.store.kept[0]
    write_entry(life)
    (entry,) = journal.read(life.store.journals(), journal.document_id(document)).entries
    due = life.checkpoints.wake_at()
    assert timed.elapsed() + PERIOD < due < timed.elapsed() + 6 * PERIOD
    assert entry.fields["lab"].next_write >= (due - timed.elapsed()) / 600.0
    assert entry.events == [("lab", Unreadable("late", "", ""))]
    timed.move(due - timed.elapsed())
    life.checkpoints.service(timed.elapsed())
    assert life.store.kept[0] != document


def test_a_journal_that_takes_too_long_to_replay_ends_at_once(timed, monkeypatch):
    """Otherwise the events until the next entry could make each start take too long."""
    monkeypatch.setattr(journal, "MAX_REPLAY_S", 1.0)
    life = Life(timed, [])
    for _ in range(3):
        life.checkpoints.note("lab", Unreadable("late", "topic", "detail"), 1.0)
        life.checkpoints.service(timed.elapsed())
    assert len(entries(life)) == 1
    assert life.checkpoints.wake_at() > timed.elapsed() + PERIOD


def test_a_journal_of_many_short_events_is_full_before_they_need_too_much_memory():
    """Rejected messages take hardly any time, and can be compressed to hardly any bytes."""
    buffer = journal.EventBuffer(bytes(2**20))
    data = b""
    while not buffer.is_full:
        for _ in range(5000):
            buffer.add("lab", Unreadable("flooding", "topic", "detail"), 1e-6)
        data += buffer.entry(ANCHOR, {})
    events = sum(len(each.events) for each in journal.read([data], buffer.document).entries)
    assert 50_000 < events <= 200_000


def test_many_events_are_written_early(timed, monkeypatch):
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    life = Life(timed, [])
    read(life, *np.linspace(0.0, 1.0, 6).tolist())
    life.checkpoints.service(timed.elapsed())
    assert len(entries(life)) == 1


def test_very_many_events_in_one_turn_of_the_loop_cause_entries_and_no_documents(
    timed, monkeypatch
):
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    stored = []
    life = Life(timed, stored)
    document = life.store.kept[0]
    read(life, *np.linspace(0.0, 1.0, 25).tolist())
    life.checkpoints.service(timed.elapsed())
    assert life.store.kept[0] == document
    assert values(Life(timed, stored)) == (1.0, 25)


def test_a_journal_that_is_filled_in_one_turn_of_the_loop_ends(timed, monkeypatch):
    """The next document is not earlier than without a journal."""
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    monkeypatch.setattr(journal, "MAX_JOURNAL_EVENTS", 30)
    life = Life(timed, [])
    document = life.store.kept[0]
    read(life, *np.linspace(0.0, 1.0, 50).tolist())
    life.checkpoints.service(timed.elapsed())
    assert life.store.kept[0] == document
    assert len(entries(life)) == 3
    timed.move(life.checkpoints.wake_at() - timed.elapsed())
    life.checkpoints.service(timed.elapsed())
    assert life.store.kept[0] != document


def test_too_many_events_after_a_step_of_the_clock_are_written_as_a_document(timed, monkeypatch):
    """Until the controllers know of the step, no entry can be written."""
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    stepped = []
    timed.is_stepped = lambda: bool(stepped)
    life = Life(timed, [])
    document = life.store.kept[0]
    stepped.append(True)
    read(life, *np.linspace(0.0, 1.0, 12).tolist())
    life.checkpoints.service(timed.elapsed())
    assert entries(life) == []
    stepped.clear()
    life.checkpoints.service(timed.elapsed())
    assert life.store.kept[0] != document


def test_an_entry_that_lacks_events_is_not_written(timed, monkeypatch):
    """The digest would differ, so a start after a kill could not use the earlier entries either."""
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    stepped, stored = [], []
    timed.is_stepped = lambda: bool(stepped)
    life = Life(timed, stored)
    read(life, 0.1, 0.2)
    write_entry(life)
    stepped.append(True)
    read(life, *np.linspace(0.0, 1.0, 12).tolist())
    stepped.clear()
    read(life, 0.5)  # in the next turn of the loop, before its services
    assert len(entries(life)) == 1
    assert values(Life(timed, stored)) == (0.2, 2)


def test_no_entry_is_written_until_all_controllers_know_of_a_step_of_the_clock(timed, monkeypatch):
    """The entry would have the time of the set clock, and other fields the times before."""
    monkeypatch.setattr(journal, "MAX_EVENTS", 10)
    stored = []
    life = Life(timed, stored)
    read(life, *np.linspace(0.0, 1.0, 9).tolist())
    life.commands(ClockStepped(3600.0, timed.now.wall + 3600.0))
    assert entries(life) == []
    life.checkpoints.service(timed.elapsed())
    assert len(entries(life)) == 1


def test_an_entry_waits_until_the_loop_knows_that_the_clock_was_stepped(timed):
    stepped = [True]
    timed.is_stepped = lambda: bool(stepped) and life_exists
    life_exists = False
    life = Life(timed, [])
    life_exists = True
    timed.move(PERIOD)
    life.checkpoints.service(timed.elapsed())
    assert entries(life) == []
    stepped.clear()
    life.checkpoints.service(timed.elapsed())
    assert len(entries(life)) == 1


@max_examples(200)
@given(st.integers(0, 2), st.floats(0.0, 0.999), st.integers(0, 7), st.booleans())
def test_with_any_damage_the_controller_has_the_state_of_an_entry_before_it(
    number, where, bit, truncates
):
    clock, stored = Time(), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.time, "monotonic", clock.elapsed)
        patch.setattr(checkpoints, "LARGE_DOCUMENT_BYTES", 300)
        life = three_entries(clock, stored)
        entry = entries(life)[number]
        at = int(where * len(entry))
        changed = b"" if truncates else bytes([entry[at] ^ 1 << bit]) + entry[at + 1 :]
        entries(life)[number] = entry[:at] + changed
        del entries(life)[number + 1 if truncates else 3 :]
        assert values(Life(clock, stored))[1] == number


def sample_entries():
    entry = journal.Entry(b"id", ANCHOR, {}, [("lab", Reading("b", 0.5, NOW, NOW, stamped=False))])
    return [journal.encode(entry) for _ in range(3)]


@max_examples(200)
@given(st.integers(0, 2), st.integers(0, 3), st.integers(0, 7))
def test_a_damaged_length_of_an_entry_is_not_mistaken_for_a_torn_end(number, at, bit):
    entries = sample_entries()
    entry = entries[number]
    entries[number] = entry[:at] + bytes([entry[at] ^ 1 << bit]) + entry[at + 1 :]
    found = journal.read([b"".join(entries)], b"id")
    assert len(found.entries) == number
    assert found.is_damaged and found.problem


def test_a_damaged_header_is_not_mistaken_for_a_torn_end():
    data = b"".join(sample_entries())
    damaged = data + b"\xff\xff\xff\xff" + bytes(20)
    assert journal.read([damaged], b"id").is_damaged


@max_examples(200)
@given(st.floats(0.0, 0.999))
def test_a_journal_that_ends_anywhere_is_only_torn(where):
    entries = sample_entries()
    data = b"".join(entries)
    end = int(where * len(data))
    found = journal.read([data[:end]], b"id")
    assert len(found.entries) == end // len(entries[0])
    assert not found.is_damaged
    assert bool(found.problem) == (end % len(entries[0]) > 0)


@max_examples(100)
@given(st.binary(max_size=300))
def test_an_invalid_journal_has_no_entries(data):
    assert journal.read([data], b"").entries == []
