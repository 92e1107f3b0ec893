"""When a snapshot of a learner is taken into the league: a file each."""
