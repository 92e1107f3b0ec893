"""Records, errors, names, random streams, schedules, files and processes."""
