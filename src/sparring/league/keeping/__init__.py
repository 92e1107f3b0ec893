"""Which snapshots stay in the league, one rule per file."""
