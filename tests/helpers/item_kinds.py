"""The same items, written in every kind of file that commands read: by the libraries that people write them with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import scipy.io
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

import lookalike as la

MATLAB_7_3 = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM"


@dataclass(frozen=True)
class Sample:
    """Items to write: embeddings, bits, labels and ids."""

    embeddings: np.ndarray
    bits: np.ndarray
    labels: np.ndarray
    ids: np.ndarray

    @property
    def packed(self) -> np.ndarray:
        return la.Codes.pack(self.bits).to_bytes()

    def vectors(self, what: str) -> np.ndarray:
        return self.embeddings if what == "embeddings" else self.bits.astype(np.float32)


def digits(start: int, stop: int) -> Sample:
    """Some of the digits: pixels as floats that every type holds exactly, and bits of them."""
    data = la.datasets.load("digits")
    pixels = data.images.reshape(len(data.images), -1)[start:stop].astype(np.float32)
    bits = (pixels[:, 10:42] > 100).astype(np.uint8)
    return Sample(pixels, bits, np.asarray(data.labels)[start:stop], np.array([f"i{n:04}" for n in range(start, stop)]))


def table_of(items: Sample, what: str) -> pa.Table:
    """A table as people have it: a list of floats in a column, words for labels, a column of ids."""
    rows = items.vectors(what)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    labels = pa.array([f"digit {label}" for label in items.labels]).dictionary_encode()
    return pa.table({"emb": vectors, "class": labels, "image_id": items.ids, "price": np.arange(len(rows)) / 2})


Writer = Callable[[Path, Sample, str], Any]


def npz(path: Path, items: Sample, what: str) -> None:
    np.savez(path, features=items.vectors(what), target=items.labels)


def own_npz(path: Path, items: Sample, what: str) -> None:
    np.savez(path, **{what: items.vectors(what)}, labels=items.labels, ids=items.ids)


def parquet(path: Path, items: Sample, what: str) -> None:
    pq.write_table(table_of(items, what), path, row_group_size=50)


def list_of_double(path: Path, items: Sample, what: str) -> None:
    rows = pa.array(items.vectors(what).astype(float).tolist(), pa.list_(pa.float64()))
    pq.write_table(pa.table({"emb": rows, "label": items.labels.astype(np.int8)}), path)


def wide(path: Path, items: Sample, what: str) -> None:
    frame = pd.DataFrame(items.vectors(what), columns=[f"f{n}" for n in range(items.vectors(what).shape[1])])
    frame.assign(label=items.labels)[["label", *reversed(frame.columns)]].to_parquet(path)


def folder(path: Path, items: Sample, what: str) -> None:
    path.mkdir()
    table, third = table_of(items, what), len(items.ids) // 3
    for part, start in enumerate((0, third, 2 * third)):
        pq.write_table(table.slice(start, third if part < 2 else None), path / f"data-{part}.parquet")


def arrow_stream(path: Path, items: Sample, what: str) -> None:
    table = table_of(items, what)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=33)


def feather(path: Path, items: Sample, what: str) -> None:
    pyarrow.feather.write_feather(table_of(items, what), path)


def csv_columns(path: Path, items: Sample, what: str) -> None:
    rows = items.vectors(what)
    frame = pd.DataFrame(rows, columns=[f"emb_{n}" for n in range(rows.shape[1])])
    frame.assign(label=items.labels, id=items.ids).to_csv(path, index=False)


def csv_lists(path: Path, items: Sample, what: str) -> None:
    rows = [str(row.tolist()) for row in items.vectors(what)]
    pd.DataFrame({"id": items.ids, "emb": rows, "label": items.labels}).to_csv(path, index=False)


def csv_spaces(path: Path, items: Sample, what: str) -> None:
    with np.printoptions(threshold=10_000):
        rows = [str(row) for row in items.vectors(what)]  # as pandas writes arrays, over several lines
    pd.DataFrame({"id": items.ids, "emb": rows, "label": items.labels}).to_csv(path, index=False, sep=";")


def torch_dict(path: Path, items: Sample, what: str) -> None:
    tensors = {"features": torch.tensor(items.vectors(what)), "label": torch.tensor(items.labels)}
    torch.save(tensors | {"id": items.ids.tolist(), "epoch": 3}, path)


def torch_half(path: Path, items: Sample, what: str) -> None:
    rows = torch.tensor(items.vectors(what)).to(torch.bfloat16)
    labels = torch.tensor(items.labels)
    torch.save({"features": torch.nn.Parameter(rows), "label": labels}, path, _use_new_zipfile_serialization=False)


def safetensors(path: Path, items: Sample, what: str) -> None:
    save_file({"features": items.vectors(what).astype(np.float16), "label": items.labels}, path)


def bfloat16(path: Path, items: Sample, what: str) -> None:
    rows = torch.tensor(items.vectors(what)).to(torch.bfloat16)
    save_tensors({"features": rows, "label": torch.tensor(items.labels)}, path)


def matlab(path: Path, items: Sample, what: str) -> None:
    rows = items.vectors(what).astype(float)
    names = np.array([["a cell"]], object)
    scipy.io.savemat(
        path, {"X": rows, "label": items.labels[:, None].astype(float), "names": names}, do_compression=True
    )


def matlab_7_3(path: Path, items: Sample, what: str) -> None:
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, rows in (("X", items.vectors(what).astype(float)), ("label", items.labels[None].astype(float))):
            file[name] = rows.T if name == "X" else rows
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(MATLAB_7_3)


def hdf5(path: Path, items: Sample, what: str) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("train/emb", data=items.vectors(what), chunks=True, compression="gzip")
        file["label"] = [f"digit {label}" for label in items.labels]
        file["id"] = items.ids.astype("S")


WRITERS: dict[str, tuple[str, Writer]] = {
    "npz of our names": ("npz", own_npz),
    "npz": ("npz", npz),
    "Parquet": ("parquet", parquet),
    "Parquet, lists of double": ("pq", list_of_double),
    "Parquet, a number in each column": ("parquet", wide),
    "folder of Parquet": ("", folder),
    "Arrow stream": ("arrow", arrow_stream),
    "Feather": ("feather", feather),
    "Arrow file of no name": ("data", feather),
    "CSV, a number in each column": ("csv", csv_columns),
    "CSV, lists": ("csv", csv_lists),
    "CSV, numpy's text": ("csv", csv_spaces),
    "PyTorch": ("pt", torch_dict),
    "PyTorch of before 1.6, bfloat16": ("pth", torch_half),
    "safetensors, half": ("safetensors", safetensors),
    "safetensors, bfloat16": ("safetensors", bfloat16),
    "MATLAB 5": ("mat", matlab),
    "MATLAB 7.3": ("mat", matlab_7_3),
    "HDF5": ("h5", hdf5),
}


def write(folder_: Path, name: str, kind: str, items: Sample, what: str) -> Path:
    """Items as a file of some kind, in a folder."""
    ending, writer = WRITERS[kind]
    path = folder_ / (f"{name}.{ending}" if ending else name)
    writer(path, items, what)
    return path


def faiss_index(path: Path, items: Sample, what: str) -> None:
    """An index, which has no labels."""
    if what == "embeddings":
        index = faiss.IndexFlatIP(items.embeddings.shape[1])
        index.add(items.embeddings)
        faiss.write_index(index, str(path))
        return
    binary = faiss.IndexBinaryFlat(items.bits.shape[1])
    binary.add(items.packed)
    faiss.write_index_binary(binary, str(path))


def npy(path: Path, items: Sample, what: str) -> None:
    np.save(path, items.vectors(what))


def npy_by_columns(path: Path, items: Sample, what: str) -> None:
    np.save(path, np.asfortranarray(items.vectors(what).astype(">f8")))


def torch_alone(path: Path, items: Sample, what: str) -> None:
    torch.save(torch.tensor(items.vectors(what).T.copy()).T, path)


UNLABELLED: dict[str, tuple[str, Writer]] = {
    "faiss": ("faiss", faiss_index),
    "npy": ("npy", npy),
    "npy by columns, big-endian": ("npy", npy_by_columns),
    "a tensor alone": ("bin", torch_alone),
}


def label_file(path: Path, items: Sample, rows: Any = slice(None)) -> Path:
    """Labels of items in a file of their own, with ids where its kind has columns."""
    labels, ids = items.labels[rows], items.ids[rows]
    frame = pd.DataFrame({"id": ids, "label": labels})
    if path.suffix == ".npy":
        np.save(path, labels)
    elif path.suffix == ".txt":
        path.write_text("".join(f"{label}\n" for label in labels))
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".npz":
        np.savez(path, ids=ids, labels=labels)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["id"], file["label"] = ids.astype("S"), labels
    else:
        torch.save({"id": ids.tolist(), "label": torch.tensor(labels)}, path)
    return path
