"""Schedules that decide when a learner's snapshot joins the league, one per file."""
