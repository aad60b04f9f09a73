"""Endings of file names: which files each reader takes, said once for readers, errors and help."""

from collections.abc import Collection

ARRAYS = (".npz", ".parquet")
ITEMS = (".npz", ".npy", ".parquet")  # codes or embeddings
TABLES = (".csv", ".parquet")
TREC = (".qrels", ".txt", ".trec")  # also with .gz
JUDGEMENTS = (".json", *TABLES, *TREC)
FINETUNED = ".lookalike"  # an encoder that was fine-tuned

__all__ = ["ARRAYS", "FINETUNED", "ITEMS", "JUDGEMENTS", "JUDGEMENT_FILES", "TABLES", "TREC", "either"]


def either(endings: Collection[str]) -> str:
    """Endings in a sentence.

    >>> either(ITEMS), either([".npz"])
    ('.npz, .npy or .parquet', '.npz')
    """
    *first, last = endings
    return f"{', '.join(first)} or {last}" if first else last


JUDGEMENT_FILES = f"{either(JUDGEMENTS)} (the last three also with .gz)"
