"""A gallery on disk or in an object store, read here or on Dask."""
