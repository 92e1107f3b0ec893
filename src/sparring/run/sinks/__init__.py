"""Sinks: where a run sends its figures besides its own files."""
