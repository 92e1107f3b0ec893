"""Workers that play a run's episodes."""
