"""The learner, which updates weights from packed episodes, and snapshots of its weights."""
