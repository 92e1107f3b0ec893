"""A run that a study looks at, told in place of trained."""


def told_run(monkeypatch, study, lines, config):
    """Let a study's module find these lines of metrics, and this configuration, in any folder."""

    class Folder:
        @staticmethod
        def open(run):
            return Folder

        @staticmethod
        def config():
            return config

    monkeypatch.setattr(study, "metrics", lambda run: lines)
    monkeypatch.setattr(study, "RunFolder", Folder)
