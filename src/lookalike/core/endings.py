"""Endings of file names: which files each reader takes, said once for readers, errors and help."""

from collections.abc import Collection

ARRAYS = (".npz", ".parquet")
SOURCES = (  # codes or embeddings, with labels and ids; each has a reader in core/readers
    *(".npz", ".npy", ".parquet", ".pq", ".arrow", ".feather", ".ipc", ".csv", ".tsv", ".pt", ".pth", ".bin"),
    *(".safetensors", ".mat", ".h5", ".hdf5", ".faiss", ".index"),
)
ITEMS = ".npz, .npy, .parquet, .arrow, .csv, .pt, .safetensors, .mat, .h5, .faiss"  # the same for help
TABLES = (".csv", ".parquet")
TREC = (".qrels", ".txt", ".trec")  # also with .gz
JUDGEMENTS = (".json", *TABLES, *TREC)
FINETUNED = ".lookalike"  # an encoder that was fine-tuned

__all__ = ["ARRAYS", "FINETUNED", "ITEMS", "JUDGEMENTS", "JUDGEMENT_FILES", "SOURCES", "TABLES", "TREC", "either"]


def either(endings: Collection[str]) -> str:
    """Endings in a sentence.

    >>> either(JUDGEMENTS[:3]), either([".npz"])
    ('.json, .csv or .parquet', '.npz')
    """
    *first, last = endings
    return f"{', '.join(first)} or {last}" if first else last


JUDGEMENT_FILES = f"{either(JUDGEMENTS)} (the last three also with .gz)"
