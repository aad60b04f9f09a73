"""Other people's libraries and databases: their metric classes with our numbers, and their vectors as items."""
