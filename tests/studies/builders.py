"""Shared helpers of study tests: an untrained run, the configuration of an arm, and fixed answers to commands."""

import json

from sparring.config import recipe, resolve


def stub_run(monkeypatch, study, lines, config):
    """Let a study's module read these metrics lines and this configuration from any folder."""

    class Folder:
        @staticmethod
        def open(run):
            return Folder

        @staticmethod
        def config():
            return config

    monkeypatch.setattr(study, "metrics", lambda run: lines)
    monkeypatch.setattr(study, "RunFolder", Folder)


def config_of(study, arm, *changes):
    """Return the configuration of an arm's first seed."""
    cells = study.cells({**study.STUDY.setting, "changes": list(changes)})
    (command,) = (cell.command for cell in cells if cell.key == (arm, 0))
    return resolve(recipe.apply_overrides(recipe.load_recipe(command[2]), command[3:]))


class Commands:
    """Return the same document for every command; ``words`` collects the words of all commands."""

    def __init__(self, document):
        self.words, self.document = [], document

    def __call__(self, words):
        self.words += words
        return json.dumps(self.document)
