"""The pages on which experts judge, and the organiser's."""
