"""Where a run sends its figures besides its own files, one per file."""
