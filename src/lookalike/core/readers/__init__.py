"""Readers: items of files, tables and databases as columns, a page at a time."""
