"""Valid files changed by chance: bytes, tokens, structure. The same random numbers give the same change."""

from __future__ import annotations

import contextlib
import copy
import gzip
import hashlib
import io
import json
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WHOLE = [0, 1, -1, 2, 7, 127, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30]
NUMBERS = [*WHOLE, 0.5, -0.0, 1e-320, 1e308, -1e308, 1e400, -1e400, float("nan")]
DEEP = 100_000  # levels of nesting, which no reader may follow
TEXTS = [
    "", " ", "0", "-1", "nan", "inf", "1e400", "0x10", "1_000", "٣", "null", "true", "[]", "{}", '"', "'", "\0", "\n",
    "\t", "\r", "\ufeff", "\u2028", "é", "e\u0301", "\U0001f600", "a b", "a,b", "a/b", "..", "../../etc/passwd", "/",
    "\\", "%00", "%", "{0}", "<script>", "'; DROP TABLE votes; --", "2024-13-45", "0001-01-01T00:00:00",
    "9999-12-31T23:59:59Z", "similar", "cosine", "x" * 5000,
]  # fmt: skip
SHAPES = [
    "()",
    "(0,)",
    "(-1, 3)",
    "(2, 3)",
    "(1000000000000,)",
    "(99999999999, 99999999999)",
    "(4294967296, 1)",
    "(1.5,)",
    "None",
]
TYPES = [
    "'|O'",
    "'<f8'",
    "'<f2'",
    "'|b1'",
    "'<U1000000000'",
    "'|V0'",
    "'<m8[ns]'",
    "[('a', '<f8')]",
    "'x'",
    "1",
    "'|S0'",
]
OTHER_TYPES = ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "c16", "U9", "S3", ">i4", ">f8", "M8[s]", "g"]
Change = Callable[[bytes, Random], bytes]


def changed(data: bytes, name: str, rng: Random) -> bytes:
    """The bytes of a file of this name, changed once or a few times: as bytes, or as what the file is."""
    kind = KINDS.get(Path(name).suffix, damaged)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        way = damaged if rng.random() < 0.2 else kind
        try:
            data = way(data, rng)
        except Exception:  # it is damaged already, and no longer what its name says
            data = damaged(data, rng)
    return data


def damaged(data: bytes, rng: Random) -> bytes:
    """Bytes flipped, cut, put in, repeated, swapped, or made an extreme number."""
    size = len(data)
    at, n = rng.randrange(size + 1), min(size, rng.choice([1, 2, 4, 8, 64, 4096]))
    other = rng.randrange(size + 1)
    if size > 400 and rng.random() < 0.5:  # formats say what they hold at their start or at their end
        at = rng.choice([rng.randrange(200), size - rng.randrange(200)])
    number = (rng.choice(WHOLE) % 2**64).to_bytes(8, rng.choice(["little", "big"]))[: rng.choice([1, 2, 4, 8])]
    return rng.choice([
        lambda: data[:at] + bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + n]) + data[at + n :],
        lambda: data[:at],
        lambda: data[:at] + data[at + n :],
        lambda: data[:at] + rng.randbytes(n) + data[at:],
        lambda: data[:at] + rng.choice(TEXTS).encode() + data[at:],
        lambda: data[: at + n] + data[at:],
        lambda: data[:at] + data[other : other + n] + data[at + n :],
        lambda: data[:at] + bytes([rng.choice([0, 255, 32])]) * n + data[at + n :],
        lambda: data[:at] + number + data[at + len(number) :],
        lambda: data + rng.randbytes(n),
    ])()  # fmt: skip


def text(data: bytes, rng: Random) -> bytes:
    """Words, numbers and lines replaced, left out, repeated, swapped."""
    words = data.decode("utf-8", "surrogateescape")
    parts = re.split(r"(\n)" if rng.random() < 0.3 else r"([\w.+-]+)", words)
    at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
    parts[at] = rng.choice([
        lambda: rng.choice(TEXTS), lambda: str(rng.choice(NUMBERS)), lambda: "", lambda: parts[at] * 2,
        lambda: parts[other], lambda: f'"{parts[at]}"',
        lambda: rng.choice(["[", "(", "{a=", '"']) * rng.choice([2, DEEP]),
    ])()  # fmt: skip
    return "".join(parts).encode("utf-8", "surrogateescape")


def json_text(data: bytes, rng: Random) -> bytes:
    """Values and names of a JSON text replaced, left out, repeated, nested."""
    root = [json.loads(data)]
    places: list[tuple[Any, Any]] = [(root, 0)]
    for where, key in places:  # which grows meanwhile
        value = where[key]
        places += [
            (value, name)
            for name in (value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0))
        ]
    where, key = rng.choice(places)
    value, (elsewhere, name) = where[key], rng.choice(places)
    deep = f"deep {rng.random()}"
    new = rng.choice(
        [
            rng.choice(NUMBERS),
            rng.choice(TEXTS),
            None,
            True,
            [],
            {},
            [value],
            {"a": value},
            copy.deepcopy(elsewhere[name]),
            deep,
        ]
    )
    if rng.random() < 0.25 and where is not root:
        removed = where.pop(key)
        if isinstance(where, dict):
            where[rng.choice([*TEXTS, *where, key])] = removed
    elif isinstance(value, list) and value and rng.random() < 0.3:
        where[key] = rng.choice([value[:-1], value * 2, value[::-1], [*value, new]])
    else:
        where[key] = new
    return json.dumps(root[0], ensure_ascii=rng.random() < 0.5).replace(f'"{deep}"', "[" * DEEP + "]" * DEEP).encode()


def array(values: np.ndarray, rng: Random) -> np.ndarray:
    """Another type, another shape, fewer or more of them, or extreme values; of a JSON text, that changed."""
    if values.ndim == 0 and values.dtype.kind == "U" and rng.random() < 0.8:
        return np.array(json_text(str(values).encode(), rng).decode())
    at = np.random.default_rng(rng.randrange(2**32)).integers(0, max(1, values.size), 3)

    def extreme() -> np.ndarray:
        flat = values.flatten()
        if flat.dtype.kind in "iu":
            flat[at] = rng.choice([np.iinfo(flat.dtype).min, np.iinfo(flat.dtype).max, 0, 1])
        else:
            flat[at] = rng.choice(TEXTS) if flat.dtype.kind == "U" else rng.choice(NUMBERS[-8:])
        return flat.reshape(values.shape)

    return rng.choice([
        extreme, extreme, lambda: values[:0], lambda: values[:-1], lambda: values[::-1], lambda: values.T,
        lambda: np.concatenate([values, values]), lambda: values.reshape(-1), lambda: values[None],
        lambda: values[..., None], lambda: np.array(values.flat[0]), lambda: np.zeros((0, 0), values.dtype),
        lambda: values[:, :0], lambda: np.asfortranarray(values), lambda: values.astype([("a", values.dtype)]),
        lambda: values.astype(rng.choice(OTHER_TYPES)), lambda: values.astype(rng.choice(OTHER_TYPES)),
    ])()  # fmt: skip


def npy(data: bytes, rng: Random) -> bytes:
    """The array changed, or what its header says of it."""
    if rng.random() < 0.6:
        file = io.BytesIO()
        np.save(file, array(np.load(io.BytesIO(data)), rng))
        return file.getvalue()
    head = 10 + int.from_bytes(data[8:10], "little")
    said = data[10:head].decode("latin-1")
    said = rng.choice([
        re.sub(r"'shape': \(.*?\)", lambda _: f"'shape': {rng.choice(SHAPES)}", said),
        re.sub(r"'descr': '[^']*'", lambda _: f"'descr': {rng.choice(TYPES)}", said),
        said.replace("False", "True"), said.replace("shape", rng.choice(TEXTS)), text(said.encode(), rng).decode(),
    ])  # fmt: skip
    begun = said.encode("utf-8", "replace")[:60_000].rstrip() + b"\n"
    return data[:8] + len(begun).to_bytes(2, "little") + begun + data[head:]


def packed(data: bytes, rng: Random) -> bytes:
    """The members of a zip file changed, renamed, left out, doubled, swapped; it is whole as a zip file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at, other = rng.randrange(len(members)), rng.randrange(len(members))
    name, content = members[at]
    way = rng.random()
    if way < 0.7:
        members[at] = (name, changed(content, name, rng))
    elif way < 0.8:
        members[at] = (
            rng.choice([name + "x", name.removesuffix(".npy"), f"../{name}", members[other][0], *TEXTS]),
            content,
        )
    elif way < 0.9:
        members[at] = (name, members[other][1])
    else:
        del members[at]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name.replace("\0", "") or "x"), content)
    return file.getvalue()


def zipped(data: bytes, rng: Random) -> bytes:
    """What is compressed changed, or rarely a quarter of a gigabyte of the same byte."""
    if rng.random() < 0.02:
        return gzip.compress(bytes([rng.choice([32, 97])]) * 2**20, mtime=0) * 2**8
    return gzip.compress(text(gzip.decompress(data), rng), mtime=0)


def parquet(data: bytes, rng: Random) -> bytes:
    """Columns changed, renamed, left out, doubled, emptied; the text about them changed; the footer damaged."""
    if rng.random() < 0.25:
        at = max(4, len(data) - rng.choice([9, 50, 200, 1000]))
        return data[:at] + damaged(data[at:-8], rng) + data[-8:]
    table = pq.read_table(io.BytesIO(data))
    said, names = table.schema.metadata or {}, list(table.column_names)
    at = rng.randrange(len(names))
    name, column = names[at], table[at].combine_chunks()
    way = rng.random()
    if way < 0.25 and b"lookalike" in said:
        table = table.replace_schema_metadata({**said, b"lookalike": json_text(said[b"lookalike"], rng)})
    elif way < 0.35:
        table = table.remove_column(at)
    elif way < 0.5:
        names[at] = rng.choice([*TEXTS, *names])
        table = table.rename_columns(names)
    elif way < 0.55:
        table = rng.choice([table[:0], table[:1], pa.concat_tables([table, table]), table.append_column(name, column)])
    else:
        values = column.to_pylist()
        values[rng.randrange(len(values))] = rng.choice([None, values[0], *TEXTS, *NUMBERS])
        kind = rng.choice([column.type, pa.string(), pa.int64(), pa.uint8(), pa.float64(), pa.float16(), pa.bool_()])
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            column = rng.choice([
                lambda: pa.array(values), lambda: pa.array(values, kind), lambda: column.cast(kind, safe=False),
                lambda: column.dictionary_encode(), lambda: pa.array([[value] for value in values]),
                lambda: pa.nulls(len(values), kind), lambda: pa.array([{"a": value} for value in values]),
                lambda: pa.array([str(value).encode() + b"\xff" for value in values]),
            ])()  # fmt: skip
        table = table.set_column(at, name, column)
    file = io.BytesIO()
    pq.write_table(table, file, compression=rng.choice(["snappy", "none", "gzip"]), row_group_size=rng.choice([999, 3]))
    return file.getvalue()


def sqlite(data: bytes, rng: Random) -> bytes:
    """Pages damaged, or what stands in tables, and the tables themselves, changed."""
    if rng.random() < 0.5:
        at = 4096 * rng.randrange(max(1, len(data) // 4096))
        return data[:at] + damaged(data[at : at + 4096], rng)[:4096].ljust(4096, b"\0") + data[at + 4096 :]
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        file.deserialize(data)
        file.execute("PRAGMA ignore_check_constraints = 1")
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        for (trigger,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            file.execute(f'DROP TRIGGER "{trigger}"')
        table = rng.choice(tables)
        columns = [row[1] for row in file.execute(f'PRAGMA table_info("{table}")')]
        column = rng.choice(columns)
        value = rng.choice([None, b"\xff\0", rng.choice(TEXTS), rng.choice(WHOLE[:14]), rng.choice(NUMBERS[-8:])])
        with contextlib.suppress(sqlite3.Error):
            if rng.random() < 0.6:
                file.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid % 3 = 1', [value])
            else:
                file.execute(rng.choice([
                    f'DROP TABLE "{table}"', f'DELETE FROM "{table}"', f'ALTER TABLE "{table}" RENAME TO other',
                    f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO other',
                    f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
                    f'ALTER TABLE "{table}" ADD COLUMN more NOT NULL DEFAULT 1',
                    f"PRAGMA user_version = {rng.choice([0, 1, 2, 3, 99, -1])}",
                    f"PRAGMA application_id = {rng.choice([0, 1, -1])}",
                ]))  # fmt: skip
        return file.serialize()


def png(data: bytes, rng: Random) -> bytes:
    """Chunks damaged, with the sum that belongs to them."""
    chunks, at = [], 8
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : end]))
        at = end + 4
    number = rng.randrange(len(chunks))
    kind, body = chunks[number]
    other = rng.choice([b"IDAT", b"tRNS", b"iCCP", b"acTL", b"eXIf"])
    chunks[number] = (kind, damaged(body, rng)) if rng.random() < 0.8 else (other, body)
    if rng.random() < 0.2:
        chunks.insert(number, chunks[rng.randrange(len(chunks))])
    whole = (len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4) for kind, body in chunks)
    return data[:8] + b"".join(whole)


def overwritten(data: bytes, rng: Random) -> bytes:
    """A byte or a few made others, so that every length that is said of what follows stays right."""
    at, n = rng.randrange(len(data)), rng.choice([1, 1, 2, 4])
    return data[:at] + rng.choice([rng.randbytes(n), b"\0" * n, b"\x7f" * n])[: len(data) - at] + data[at + n :]


def partial(data: bytes, rng: Random) -> bytes:
    """An npz file behind its hash, changed, and the hash with it."""
    content = packed(data[64:], rng)
    return hashlib.sha256(content).hexdigest().encode() + content


KINDS: dict[str, Change] = {
    **dict.fromkeys(["", ".toml", ".csv", ".txt", ".qrels", ".run"], text),
    **dict.fromkeys([".npz", ".pt"], packed),
    ".json": json_text, ".gz": zipped, ".npy": npy, ".parquet": parquet, ".sqlite": sqlite, ".png": png,
    ".onnx": overwritten, ".faiss": overwritten, ".index": overwritten, ".partial": partial,
}  # fmt: skip
