"""Sink: Weights & Biases."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from sparring.core.errors import ConfigError
from sparring.core.trust import ONLINE
from sparring.run.sinks.base import Journal, RunStart

PACKAGE = "wandb"
QUIET_SETTINGS = {  # settings: log only metrics; no code, console or machine data
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "save_code": False,
    "silent": True,
    "symlink": False,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 0.01,  # seconds until metrics are on disk
}


class WandbRun:
    """A run of W&B; steps sent before a kill are not sent again."""

    def __init__(self, run: Any, journal: Journal, folder: Path) -> None:
        self._run, self._journal, self._folder = run, journal, folder
        self._remove_links()

    def _remove_links(self) -> None:
        """Remove W&B's link to its log, as a run folder must not link to other places."""
        for path in self._folder.rglob("*"):
            if path.is_symlink():
                path.unlink(missing_ok=True)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Send the figures of a step, if it is new."""
        if step > self._journal.last_step:
            self._run.log(dict(figures), step=step, commit=True)
            self._journal.note(step)

    def close(self) -> None:
        """Write buffered metrics and end the W&B run."""
        self._run.finish()
        self._remove_links()


def wandb(
    start: RunStart,
    *,
    project: str = "sparring",
    mode: Literal["offline", "online"] = "offline",
    entity: str | None = None,
    group: str | None = None,
) -> WandbRun:
    """Keep the figures as a run of Weights & Biases, on this machine unless ``mode`` says online.

    When to use: to compare runs in W&B's pages. Needs the extra ``wandb``. Offline, everything is
    in RUN/wandb, and ``wandb sync RUN/wandb/offline-run-*`` uploads it when you want to. Health
    events, plays and checkpoints are not sent.
    Pitfalls: a resumed run continues the same W&B run, by the id in RUN/sinks/wandb.jsonl. A step
    that is played again is not sent again, so W&B keeps its first timing. To send metrics, choose
    "online" on the command line or by WANDB_MODE=online. Set credentials before that
    (WANDB_API_KEY, or ``wandb login``): a run never asks for them. W&B sends reports of its own
    errors only if WANDB_ERROR_REPORTING is set.
    Reference: Biewald, 2020, Experiment Tracking with Weights and Biases.
    Verified by: tests/run/sinks/test_wandb.py, and with the package itself by `make sinks-test`.

    Args:
        project: name of the project.
        mode: "offline" (default): nothing leaves this machine. "online": figures are sent while the
            run goes on.
        entity: user or team that owns the project; null (default): the user that is logged in.
        group: name of a group of runs that W&B shows together, such as the seeds of one
            configuration.

    Raises:
        ConfigError: the package is missing; or "online" was chosen only in the recipe, or has no
            credentials.
    """
    is_online = mode == "online"
    if is_online and os.environ.get(ONLINE) != "online":
        raise ConfigError(
            "sink 'wandb' (logging.sinks): mode is online in the configuration, which another "
            "person may have written; to send your figures, write 'logging.sinks=[wandb "
            f"mode=online]' on the command line, or {ONLINE}=online before the command."
        )
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # the import reads it
    library = importlib.import_module(PACKAGE)
    if is_online and not library.login(prompt=False):
        raise ConfigError(
            "sink 'wandb' (logging.sinks): mode is online, and there are no credentials; set "
            "WANDB_API_KEY, run `wandb login` once, or leave out mode."
        )
    journal = Journal(start.folder, PACKAGE)
    run = library.init(
        id=journal.run_id,
        resume="allow" if is_online else None,  # offline, the id is enough
        project=project,
        entity=entity,
        group=group,
        name=start.title,
        config=dict(start.config),
        dir=str(start.folder),
        mode=mode,
        settings=library.Settings(**QUIET_SETTINGS),
    )
    return WandbRun(run, journal, start.folder / PACKAGE)
