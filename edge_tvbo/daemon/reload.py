"""Reload: replaces the running daemon with a new daemon that has the changed configuration."""

import logging
from collections.abc import Callable
from pathlib import Path

from edge_tvbo.config.changes import changes
from edge_tvbo.config.errors import ConfigErrors
from edge_tvbo.daemon.daemon import Daemon
from edge_tvbo.daemon.restoration import log_removed, restore_controller
from edge_tvbo.errors import EdgeTvboError, error_text
from edge_tvbo.messages.documents import Notice
from edge_tvbo.messages.formatting import rfc3339

log = logging.getLogger(__name__)


def reload(daemon: Daemon, make_successor: Callable[[Daemon], Daemon]) -> Daemon:
    """Return a daemon with the changed configuration, or `daemon` itself if the reload fails."""
    try:
        successor = make_successor(daemon)
    except ConfigErrors as error:
        for finding in error.findings:
            log.error("reload: %s", finding)
        log.error("reload: nothing is changed; fix the errors above and send SIGHUP again")
        return daemon
    except (EdgeTvboError, OSError) as error:
        log.error("reload: nothing is changed, because of an error: %s", error_text(error))
        return daemon
    daemon.recall_activations()
    log_removed("reload", daemon.controllers.keys() - successor.controllers.keys())
    for name in successor.controllers:
        transfer_state(name, daemon, successor)
    successor.take_over_records(daemon)
    daemon.close_recorders()
    daemon.surroundings.status.add_written(daemon.written)
    _log_left_databases(daemon, successor)
    if successor.checkpoints:
        successor.checkpoints.save()
        # A second checkpoint, so that both files reserve numbers for the new intervals:
        successor.checkpoints.save()
    successor.withdraw_former_units()
    successor.restore_decisions()
    successor.surroundings.rejection_log.reset()
    daemon.link.close()  # late, because the broker drops commands that arrive without a link
    successor.link.take_over(daemon.link)
    _log_changes(daemon, successor)
    text = f"done; the fields are {', '.join(successor.controllers)}"
    log.info("reload: %s", text)
    clock = daemon.surroundings.clock
    at = round(clock.wall(clock.elapsed()), 3)
    successor.link.announce(Notice("reload", rfc3339(at), text))
    return successor


def transfer_state(name: str, daemon: Daemon, successor: Daemon) -> None:
    """Transfer the model, counters and running interval of a field to the reloaded daemon.

    The field is called `name`, and the reloaded daemon is `successor`. If the model does not fit
    the changed field, the running interval is not transferred, and the model only partly or not at
    all; see `Controller.restore_partial`.
    """
    before = daemon.controllers.get(name)
    if before is None:
        log.info("reload: the field %s is new, and starts without readings", name)
        return
    controller = successor.controllers[name]
    continues = not restore_controller("reload", name, controller, before.snapshot())
    controller.reserve_numbers(before.used)
    _, begins_in = daemon.scheduler.next_interval(name)
    reply = daemon.scheduler.awaited_reply(name)
    waits = continues and controller.keeps_waiting
    successor.scheduler.resume(name, begins_in, reply if waits else None)


def _log_changes(daemon: Daemon, successor: Daemon) -> None:
    """Log which settings and sensors the reload has changed, in one line for each field."""
    for text in changes(daemon.settings, successor.settings):
        log.info("reload: %s", text)
    if daemon.settings == successor.settings:
        log.info("reload: no setting has changed; the files that the settings name are read again")


def _log_left_databases(daemon: Daemon, successor: Daemon) -> None:
    """Warn of new databases if the reloaded daemon has another state directory or instance."""
    both = daemon, successor
    before, after = (
        Path(each.settings.state.dir).resolve() / each.settings.instance for each in both
    )
    if before != after and all(each.recorder or each.readings for each in both):
        log.warning(
            "reload: the databases %s.*.db are no longer used, and %s.*.db are new; to use the "
            "former records again, stop the daemon, and rename the former files to the new names",
            before,
            after,
        )
