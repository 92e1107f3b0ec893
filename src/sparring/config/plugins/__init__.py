"""Finds plug-ins by name and binds them to their options."""
