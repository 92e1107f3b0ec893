"""Rules that decide which snapshots stay in the league, one per file."""
