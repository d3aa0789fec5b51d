"""Outbox: the order of messages, newest states, unacknowledged notices, bounds."""

import pytest
from edge_tvbo_adapters.mqtt.outbox import (
    FOR_ACTIVATIONS,
    MAX_ATTEMPTS,
    MAX_IN_FLIGHT,
    MAX_NOTICES,
    MAX_NOTICES_IN_SESSION,
    Outbox,
)
from edge_tvbo_adapters.mqtt.publication import ActivationId
from hypothesis import given
from hypothesis import strategies as st


def send_all(outbox, mids):
    """Send what is ready; return the payloads."""
    left = []
    for each in outbox.pop_ready():
        outbox.mark_sent(next(mids), each)
        left.append(each.payload)
    return left


def opened(**settings):
    """Return an outbox in a session."""
    outbox = Outbox(**settings)
    outbox.begin()
    return outbox


def ids():
    return iter(range(1, 100_000))


def test_only_the_newest_of_two_unsent_states_is_sent_at_the_end_of_the_queue():
    outbox = opened()
    outbox.state("x", b"1")
    outbox.state("y", b"1")
    outbox.state("x", b"2")
    assert send_all(outbox, ids()) == [b"1", b"2"]


def test_a_new_session_sends_every_state_again_before_waiting_messages():
    outbox, mids = opened(), ids()
    outbox.state("x", b"x1")
    outbox.notice("n", b"n1")
    assert send_all(outbox, mids) == [b"x1", b"n1"]
    outbox.connection_lost()
    outbox.state("x", b"x2")
    outbox.notice("n", b"n2")
    outbox.begin()
    assert send_all(outbox, mids) == [b"x2", b"n1", b"n2"]
    assert outbox.lost == 0


def test_the_topics_that_come_first_are_sent_before_all_other_states_in_the_whole_session():
    outbox, mids = Outbox(), ids()
    for topic in "xyz":
        outbox.state(topic, topic.encode())
    outbox.notice("n", b"n1")
    outbox.notice("o", b"o1")
    outbox.begin(1, first={"z", "n", "d"})
    outbox.state("x", b"x2")
    outbox.description("d", b"d")
    outbox.notice("n", b"n2")
    assert list(waiting(outbox, mids)) == [b"d", b"z", b"n1", b"y", b"o1", b"x2", b"n2"]


def waiting(outbox, mids):
    """Yield the payloads of the waiting messages; each is sent and acknowledged alone."""
    for mid in mids:
        if not (sent := send_all(outbox, iter([mid]))):
            return
        yield from sent
        outbox.mark_acked(mid)


def test_described_states_follow_the_message_that_describes_them():
    outbox, mids = Outbox(described={"field/x", "field/y"}), ids()
    outbox.state("health", b"h1")
    outbox.state("field/x", b"x1")
    outbox.hold()
    outbox.begin()
    outbox.state("field/x", b"x2")
    outbox.state("field/y", b"y1")
    outbox.description("discovery", b"d1")
    assert send_all(outbox, mids) == [b"h1", b"d1"]
    outbox.release()
    assert send_all(outbox, mids) == [b"x2", b"y1"]
    outbox.state("field/x", b"x3")
    assert send_all(outbox, mids) == [b"x3"]
    outbox.release()  # after a later message, they are sent again
    assert send_all(outbox, mids) == [b"x3", b"y1"]


def test_a_message_awaits_its_acknowledgement_until_the_broker_has_sent_it():
    outbox = opened()
    outbox.description("discovery", b"d1")
    assert outbox.awaits_ack("discovery") and not outbox.awaits_ack("other")
    assert send_all(outbox, iter([7])) == [b"d1"]
    assert outbox.awaits_ack("discovery")
    outbox.mark_acked(7)
    assert not outbox.awaits_ack("discovery")


@pytest.mark.parametrize("breaks_before_the_acknowledgement", [False, True])
def test_a_topic_is_cleared_although_its_new_state_is_held(breaks_before_the_acknowledgement):
    outbox, mids = Outbox(described={"field/x"}), ids()
    outbox.clear("field/x")
    if breaks_before_the_acknowledgement:
        outbox.begin()
        assert send_all(outbox, mids) == [b""]
        outbox.connection_lost()
    outbox.state("field/x", b"new")
    outbox.hold()
    outbox.begin()
    assert send_all(outbox, mids) == [b""]
    outbox.release()
    assert send_all(outbox, mids) == [b"new"]


def test_a_cleared_state_does_not_wait_for_the_message_that_describes_it():
    outbox, mids = Outbox(described={"field/x", "field/y"}), ids()
    outbox.state("field/x", b"")
    outbox.state("field/y", b"y1")
    outbox.hold()
    outbox.begin()
    outbox.description("discovery", b"d1")

    assert send_all(outbox, mids) == [b"", b"d1"]


def test_an_acknowledged_notice_is_not_sent_again():
    outbox, mids = opened(), ids()
    outbox.notice("n", b"n1")
    send_all(outbox, mids)
    outbox.mark_acked(1)
    assert outbox.empty
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == []


def test_a_notice_is_dropped_after_several_broken_connections():
    outbox, mids = opened(), ids()
    outbox.notice("n", b"poison")
    for _ in range(MAX_ATTEMPTS):
        assert send_all(outbox, mids) == [b"poison"]
        outbox.connection_lost()
        outbox.begin()
    assert send_all(outbox, mids) == []
    assert outbox.lost == 1


def test_a_command_is_dropped_after_its_time_and_without_a_session():
    now = 0.0
    outbox, mids = opened(now=lambda: now), ids()
    outbox.command("go", b"late", 5.0)
    now = 6.0
    outbox.command("walk", b"soon", 5.0)
    assert send_all(outbox, mids) == [b"soon"]
    outbox.command("run", b"away", 5.0)
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == []
    assert outbox.lost == 3


def test_a_state_is_not_published_again_after_its_time():
    now = 0.0
    outbox, mids = opened(now=lambda: now), ids()
    outbox.state("asleep", b"measure", valid_s=5.0)
    outbox.state("stays", b"1")
    assert send_all(outbox, mids) == [b"measure", b"1"]
    now = 6.0
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == [b"1"]


steps = st.lists(
    st.tuples(st.just("state"), st.sampled_from("abc"))
    | st.tuples(st.sampled_from(["notice", "leave", "settle", "break"]), st.just("")),
    max_size=400,
)


@given(steps)
def test_the_outbox_is_bounded_and_the_newest_state_always_arrives(steps):
    outbox, mids = opened(), ids()
    newest, sent, left, settled = {}, {}, [], 1

    def publish():
        for each in outbox.pop_ready():
            left.append(next(mids))
            outbox.mark_sent(left[-1], each)
            if each.retained:
                assert sent.get(each.topic, -1) <= int(each.payload)
                sent[each.topic] = int(each.payload)

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
                outbox.mark_acked(settled)
                settled += settled in left
            case "break":
                outbox.connection_lost()
                assert len(outbox) <= MAX_NOTICES + 3 + 1
                outbox.begin()
        assert len(outbox) <= MAX_IN_FLIGHT + MAX_NOTICES_IN_SESSION + 3 + 1
    while not outbox.empty:
        publish()
        outbox.mark_acked(settled)
        settled += 1
    assert sent == newest
    assert outbox.empty


@given(
    st.integers(0, 3 * MAX_NOTICES), st.integers(0, 3 * MAX_NOTICES), st.integers(0, MAX_IN_FLIGHT)
)
def test_all_notices_of_a_session_arrive_and_the_newest_of_an_outage(before, away, acked):
    outbox, mids = opened(), ids()
    for number in range(before):
        outbox.notice("n", b"%d" % number)
    sent = send_all(outbox, mids)
    assert outbox.lost == 0
    for number in range(min(acked, len(sent))):
        outbox.mark_acked(number + 1)
    outbox.connection_lost()
    for number in range(before, before + away):
        outbox.notice("n", b"%d" % number)
    assert len(outbox) <= MAX_NOTICES
    outbox.begin()
    last, arrived = len(sent), []
    while not outbox.empty:
        arrived += send_all(outbox, mids)
        last += 1
        outbox.mark_acked(last)
    every = range(min(acked, len(sent)), before + away)
    assert arrived == [b"%d" % number for number in every[-MAX_NOTICES:]]
    assert outbox.lost == len(every) - len(arrived)


def test_the_notices_of_a_session_are_bounded():
    outbox = opened()
    for _ in range(MAX_IN_FLIGHT + MAX_NOTICES_IN_SESSION + 7):
        outbox.notice("n", b"")
    assert len(outbox) == MAX_NOTICES_IN_SESSION
    assert outbox.lost == MAX_IN_FLIGHT + 7


def test_a_refused_notice_is_lost_and_a_refused_document_is_not():
    outbox, mids = opened(), ids()
    outbox.notice("n", b"n1")
    outbox.state("x", b"1")
    assert send_all(outbox, mids) == [b"n1", b"1"]
    assert [outbox.mark_refused(number).topic for number in (1, 2)] == ["n", "x"]
    assert (outbox.lost, len(outbox)) == (1, 0)


def test_commands_and_notices_that_wait_at_the_end_are_lost():
    outbox = opened()
    outbox.notice("n", b"sent")
    assert send_all(outbox, ids()) == [b"sent"]
    outbox.notice("n", b"waits")
    outbox.command("go", b"waits", 5.0)
    outbox.state("x", b"document")
    outbox.close()
    assert outbox.lost == 3


def test_the_notices_of_a_closed_outbox_are_taken_over_in_order_and_bounded():
    before, after, mids = opened(), Outbox(), ids()
    before.notice("event", b"sent")
    send_all(before, mids)
    for number in range(MAX_NOTICES):
        before.notice("event", b"%d" % number)
    before.notice("removed/event", b"removed")
    before.command("go", b"command", 60.0)
    before.close()
    after.take_over(before, {"event"})
    after.notice("event", b"reload")
    after.state("x", b"document")
    after.begin()
    left = [each.payload for each in after.pop_ready()]
    assert left == [b"document", *(b"%d" % number for number in range(1, MAX_NOTICES)), b"reload"]
    assert before.lost + after.lost == len([b"sent", b"0", b"removed", b"command"])


def test_the_oldest_unacknowledged_publication_is_timed():
    now = 0.0
    outbox, mids = opened(now=lambda: now), ids()
    assert outbox.unacknowledged_s() == 0.0
    for number in range(3):
        outbox.notice("n", b"%d" % number)
    send_all(outbox, mids)
    now = 5.0
    outbox.mark_acked(2)  # the first is the oldest still
    assert outbox.unacknowledged_s() == 5.0
    outbox.mark_acked(1)  # a broker acknowledges in order: the third is awaited from now on
    assert outbox.unacknowledged_s() == 0.0
    now = 6.0
    assert outbox.unacknowledged_s() == 1.0
    outbox.mark_acked(3)
    assert outbox.unacknowledged_s() == 0.0
    outbox.notice("n", b"4")
    send_all(outbox, mids)
    outbox.connection_lost()
    assert outbox.unacknowledged_s() == 0.0


def test_an_activation_is_counted_once_and_only_when_it_is_sent():
    now = 0.0
    outbox, mids = opened(now=lambda: now), ids()
    outbox.command("go", b"1", 5.0, activates=ActivationId("hall", "a", 1))
    assert outbox.activated == {}
    send_all(outbox, mids)
    assert outbox.activated == {"hall": 1}
    outbox.command("go", b"2", 5.0, activates=ActivationId("hall", "a", 2))
    now = 6.0
    send_all(outbox, mids)
    assert outbox.activated == {"hall": 1}
    outbox.state("sleepy", b"3", activates=ActivationId("hall", "a", 3))
    send_all(outbox, mids)
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == [b"3"]
    assert outbox.activated == {"hall": 2}


# --- activations ----------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("activate"), st.sampled_from("abc"), st.booleans()),
    st.tuples(st.just("document"), st.sampled_from("xyz"), st.just(None)),
    st.tuples(
        st.sampled_from(["send", "ack", "recall", "lose", "begin"]), st.just(""), st.just(None)
    ),
)


def test_activations_leave_before_documents_that_wait_longer_and_have_places_of_their_own():
    outbox, mids = opened(), ids()
    for number in range(MAX_IN_FLIGHT):
        outbox.state(f"d{number}", b"document")
    assert send_all(outbox, mids) == [b"document"] * (MAX_IN_FLIGHT - FOR_ACTIVATIONS)
    outbox.command("a", b"go", 60.0, activates=ActivationId("lab", "a", 0))
    assert send_all(outbox, mids) == [b"go"]
    assert list(outbox.recall("lab")) == [(ActivationId("lab", "a", 0), True, False)]
    assert list(outbox.recall("lab")) == []


@pytest.mark.parametrize(("accepted", "documents"), [(1, 1), (4, 1), (5, 1), (10, 6), (99, 16)])
def test_no_more_messages_are_in_flight_than_the_broker_accepts(accepted, documents):
    outbox, mids = Outbox(), ids()
    outbox.begin(accepted)
    for number in range(MAX_IN_FLIGHT):
        outbox.state(f"d{number}", b"document")
    assert len(send_all(outbox, mids)) == documents
    for number in range(MAX_IN_FLIGHT):
        outbox.command(f"c{number}", b"go", 60.0)
    assert len(send_all(outbox, mids)) == min(accepted, MAX_IN_FLIGHT) - documents


def test_an_activation_that_the_broker_refuses_was_not_delivered():
    outbox, mids = opened(), ids()
    first, second = ActivationId("lab", "a", 0), ActivationId("lab", "b", 0)
    outbox.command("a", b"go", 60.0, activates=first)
    outbox.state("b", b"go", activates=second)
    assert send_all(outbox, mids) == [b"go", b"go"]
    assert outbox.mark_refused(1).topic == "a"
    assert list(outbox.recall("lab")) == [(first, False, True), (second, True, False)]
    assert outbox.mark_refused(1) is None


def test_a_refusal_after_the_recall_is_reported_too():
    outbox, mids = opened(), ids()
    activation = ActivationId("lab", "a", 0)
    outbox.command("a", b"go", 60.0, activates=activation)
    send_all(outbox, mids)
    assert list(outbox.recall("lab")) == [(activation, True, False)]
    assert outbox.mark_refused(1).topic == "a"
    assert (outbox.take_refused(), outbox.take_refused()) == ([activation], [])
    assert (list(outbox.recall("lab")), outbox.lost) == ([], 1)


def test_an_activation_that_is_too_large_to_be_sent_was_refused():
    outbox = opened()
    activation = ActivationId("lab", "a", 0)
    outbox.command("a", b"go", 60.0, activates=activation)
    (too_large,) = outbox.pop_ready()
    outbox.refuse(too_large)
    assert list(outbox.recall("lab")) == [(activation, False, True)]
    assert outbox.lost == 1


def test_a_refused_activation_of_a_sleepy_sensor_is_recalled_once():
    """A later session does not try it again."""
    outbox = opened()
    activation = ActivationId("lab", "a", 0)
    outbox.state("a", b"go", activates=activation)
    (too_large,) = outbox.pop_ready()
    outbox.refuse(too_large)
    outbox.connection_lost()
    outbox.begin()
    assert list(outbox.pop_ready()) == []
    assert list(outbox.recall("lab")) == [(activation, False, True)]


def test_no_later_session_sends_an_activation_that_the_broker_has_refused():
    """Its energy was refunded, and the rules of the broker may have changed."""
    outbox, mids = opened(), ids()
    outbox.state("a", b"go", activates=ActivationId("lab", "a", 0), valid_s=60.0)
    send_all(outbox, mids)
    outbox.mark_refused(1)
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == []


def sent_in_two_sessions():
    """Return an outbox whose second session has sent an activation again, and the activation."""
    outbox, mids = opened(), ids()
    activation = ActivationId("lab", "a", 0)
    outbox.state("a", b"go", activates=activation)
    send_all(outbox, mids)
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == [b"go"]
    return outbox, activation


def test_a_refused_state_confirms_no_activation_of_an_earlier_session():
    """The broker has received the activation again, but has not delivered it."""
    outbox, activation = sent_in_two_sessions()
    assert outbox.mark_refused(2).topic == "a"
    assert list(outbox.recall("lab")) == [(activation, True, False)]


def test_an_unsent_activation_of_a_sleepy_sensor_is_recalled_while_the_link_is_down():
    outbox, mids = opened(), ids()
    activation = ActivationId("lab", "a", 0)
    outbox.state("a", b"go", activates=activation)
    outbox.connection_lost()
    assert list(outbox.recall("lab")) == [(activation, False, False)]
    outbox.begin()
    assert send_all(outbox, mids) == []


def test_an_activation_that_is_recalled_or_replaced_unsent_is_lost():
    outbox = opened()
    first, second = ActivationId("lab", "a", 0), ActivationId("lab", "a", 1)
    asleep = ActivationId("lab", "b", 1)
    outbox.command("a", b"go", 60.0, activates=first)
    outbox.command("a", b"go", 60.0, activates=second)
    outbox.state("b", b"go", activates=asleep)
    assert outbox.lost == 1
    recalled = list(outbox.recall("lab"))
    assert recalled == [(each, False, False) for each in (first, second, asleep)]
    assert (list(outbox.recall("lab")), outbox.lost) == ([], 3)


def test_an_unsent_activation_that_expires_is_lost_once():
    now = 0.0
    outbox = opened(now=lambda: now)
    asleep, live = ActivationId("lab", "a", 0), ActivationId("lab", "b", 0)
    outbox.state("a", b"go", activates=asleep, valid_s=5.0)
    outbox.command("b", b"go", 5.0, activates=live)
    outbox.command("c", b"go", 5.0)
    now = 6.0
    assert send_all(outbox, ids()) == []
    assert list(outbox.recall("lab")) == [(asleep, False, False), (live, False, False)]
    assert outbox.lost == 3


def test_an_unsent_activation_of_a_sleepy_sensor_leaves_first_in_the_next_session():
    outbox, mids = opened(), ids()
    outbox.state("document", b"1")
    outbox.state("a", b"go", activates=ActivationId("lab", "a", 0))
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == [b"go", b"1"]
    assert (list(outbox.recall("lab")), outbox.lost) == (
        [(ActivationId("lab", "a", 0), True, False)],
        0,
    )


@given(st.lists(STEPS, max_size=60))
def test_each_activation_is_either_sent_or_recalled_as_unsent(steps):
    outbox, mids = opened(), ids()
    made, sent, unsent, late = [], [], [], []
    for step, name, retained in steps:
        match step:
            case "activate":
                activation = ActivationId("lab", name, len(made))
                made.append(activation)
                if retained:
                    outbox.state(f"go/{name}", b"%d" % activation.interval, activates=activation)
                elif not outbox.open:
                    outbox.drop(activation)
                else:
                    outbox.command(f"go/{name}", b"%d" % activation.interval, 9, 1, activation)
            case "document":
                outbox.state(name, b"document")
            case "send" if outbox.open:
                waiting = [each for each in outbox.pop_ready() if each.activates]
                for each in waiting:
                    outbox.mark_sent(next(mids), each)
                sent += [each.activates for each in waiting]
            case "ack":
                outbox.mark_acked(len(sent))
            case "recall":
                for activation, left, _ in outbox.recall("lab"):
                    (late if left else unsent).append(activation)
            case "lose" if outbox.open:
                outbox.connection_lost()
            case "begin" if not outbox.open:
                outbox.begin()
    unsent += [activation for activation, left, _ in outbox.recall("lab") if not left]
    assert not set(sent) & set(unsent)
    assert set(late) <= set(sent)
    assert len(set(late)) == len(late)
    assert len(set(unsent)) == len(unsent)
    assert {*sent, *unsent} == {*made}


def test_an_activation_replaces_only_the_waiting_activation_of_its_own_field_and_sensor():
    """Two quantities of a device, and two devices whose commands have one topic."""
    outbox = opened()
    first = [
        ActivationId("heat", "a", 0),
        ActivationId("damp", "a", 0),
        ActivationId("heat", "b", 0),
    ]
    newer = ActivationId("heat", "a", 1)
    for each in (*first, newer):
        outbox.command("get", str(each).encode(), 60.0, activates=each)
    assert [each.activates for each in outbox.pop_ready()] == [*first[1:], newer]
    assert list(outbox.recall("heat")) == [(first[0], False, False)]


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_document_of_a_former_field_is_cleared_in_the_next_session(was_sent):
    outbox, mids = opened(), ids()
    outbox.description("former/hotspot", b"")
    assert not was_sent or send_all(outbox, mids) == [b""]
    outbox.connection_lost()
    outbox.begin()
    (again,) = outbox.pop_ready()
    assert (again.topic, again.payload, again.retained) == ("former/hotspot", b"", True)
    outbox.mark_sent(7, again)
    outbox.mark_acked(7)
    outbox.connection_lost()
    outbox.begin()
    assert send_all(outbox, mids) == []
    assert outbox.lost == 0


@pytest.mark.parametrize("mode", ["live", "sleepy"])
@pytest.mark.parametrize("acks", [False, True])
def test_an_activation_in_flight_at_the_end_of_the_session_is_recalled_as_sent(mode, acks):
    outbox, mids = opened(), ids()
    activation = ActivationId("lab", "a", 0)
    if mode == "live":
        outbox.command("a", b"go", 60.0, activates=activation)
    else:
        outbox.state("a", b"go", activates=activation)
    assert send_all(outbox, mids) == [b"go"]
    if acks:
        outbox.mark_acked(1)
    outbox.connection_lost()
    assert list(outbox.recall("hall")) == []
    assert list(outbox.recall("lab")) == ([] if acks else [(activation, True, False)])
    assert list(outbox.recall("lab")) == []


@pytest.mark.parametrize("acks", [False, True])
def test_the_activation_of_a_sleepy_sensor_is_confirmed_in_the_next_session(acks):
    outbox, activation = sent_in_two_sessions()
    if acks:
        outbox.mark_acked(2)
    outbox.connection_lost()
    assert list(outbox.recall("lab")) == ([] if acks else [(activation, True, False)])


def test_a_live_command_does_not_replace_the_message_that_clears_its_topic():
    """The mode of a field was sleepy before a reload, and the topics are the same."""
    outbox, mids = opened(), ids()
    outbox.description("a", b"")
    outbox.command("a", b"go", 60.0)
    assert send_all(outbox, mids) == [b"go", b""]
    assert outbox.clears_former
    outbox.mark_acked(2)
    assert not outbox.clears_former
