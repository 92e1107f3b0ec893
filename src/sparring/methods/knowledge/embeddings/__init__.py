"""Embedding plug-ins: texts as vectors, where similar statements are near each other."""
