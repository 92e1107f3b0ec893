"""Plug-ins: found by name, and bound to their options."""
