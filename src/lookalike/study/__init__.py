"""One folder that holds a user's whole project."""
