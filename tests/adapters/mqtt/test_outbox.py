"""What is to be published: nothing overtakes, nothing old beats the new, nothing grows."""

from edge_tvbo_adapters.mqtt.outbox import ATTEMPTS, NOTICES, WINDOW, Outbox
from hypothesis import given
from hypothesis import strategies as st


def leave(outbox, mids):
    """Give the broker what it may have, and say what that was."""
    left = []
    for each in outbox.due():
        outbox.left(next(mids), each)
        left.append(each.payload)
    return left


def opened(**settings):
    """Give an outbox in a session."""
    outbox = Outbox(**settings)
    outbox.begin()
    return outbox


def ids():
    return iter(range(1, 100_000))


def test_of_a_state_that_has_not_left_only_the_newest_does_and_in_its_turn():
    outbox = opened()
    outbox.state("x", b"1")
    outbox.state("y", b"1")
    outbox.state("x", b"2")
    assert leave(outbox, ids()) == [b"1", b"2"]


def test_a_new_session_tells_every_state_again_and_then_what_waited():
    outbox, mids = opened(), ids()
    outbox.state("x", b"x1")
    outbox.notice("n", b"n1")
    assert leave(outbox, mids) == [b"x1", b"n1"]
    outbox.broken()
    outbox.state("x", b"x2")
    outbox.notice("n", b"n2")
    outbox.begin()
    assert leave(outbox, mids) == [b"x2", b"n1", b"n2"]
    assert outbox.lost == 0


def test_a_notice_that_was_acknowledged_is_not_told_again():
    outbox, mids = opened(), ids()
    outbox.notice("n", b"n1")
    leave(outbox, mids)
    outbox.settled(1)
    assert outbox.empty
    outbox.broken()
    outbox.begin()
    assert leave(outbox, mids) == []


def test_a_notice_with_which_the_connection_breaks_again_and_again_is_given_up():
    outbox, mids = opened(), ids()
    outbox.notice("n", b"poison")
    for _ in range(ATTEMPTS):
        assert leave(outbox, mids) == [b"poison"]
        outbox.broken()
        outbox.begin()
    assert leave(outbox, mids) == []
    assert outbox.lost == 1


def test_a_command_waits_for_no_broker_and_not_beyond_its_time():
    now = 0.0
    outbox, mids = opened(now=lambda: now), ids()
    outbox.command("go", b"late", 5.0)
    now = 6.0
    outbox.command("walk", b"soon", 5.0)
    assert leave(outbox, mids) == [b"soon"]
    outbox.command("run", b"away", 5.0)
    outbox.broken()
    outbox.begin()
    assert leave(outbox, mids) == []
    assert outbox.lost == 3


steps = st.lists(
    st.tuples(st.just("state"), st.sampled_from("abc"))
    | st.tuples(st.sampled_from(["notice", "leave", "settle", "break"]), st.just("")),
    max_size=400,
)


@given(steps)
def test_it_stays_small_and_the_newest_state_always_arrives(steps):
    outbox, mids = opened(), ids()
    newest, told, left, settled = {}, {}, [], 1

    def publish():
        for each in outbox.due():
            left.append(next(mids))
            outbox.left(left[-1], each)
            if each.kept:
                assert told.get(each.topic, -1) <= int(each.payload)
                told[each.topic] = int(each.payload)

    for number, (what, topic) in enumerate(steps):
        match what:
            case "state":
                newest[topic] = number
                outbox.state(topic, b"%d" % number)
            case "notice":
                outbox.notice("n", b"%d" % number)
            case "leave":
                publish()
            case "settle":
                outbox.settled(settled)
                settled += settled in left
            case "break":
                outbox.broken()
                outbox.begin()
        assert len(outbox) <= WINDOW + NOTICES + 3 + 1
    while not outbox.empty:
        publish()
        outbox.settled(settled)
        settled += 1
    assert told == newest
    assert outbox.empty
