"""Sparring trains, measures and improves language-model agents by letting them play."""

__version__ = "0.1.0"
