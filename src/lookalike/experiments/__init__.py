"""Hashers and encoders tried on data sets."""
