"""Oracle plug-ins: exact or strong judges of states."""
