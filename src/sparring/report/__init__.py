"""From records to pages, tables and pictures."""
