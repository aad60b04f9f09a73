"""Galleries in an object store: a server that speaks S3, and a proxy before it that fails as networks do.

Nothing is replaced in the library: bytes go through sockets. What a vacuous test would let pass: a failure that the
store's own client has already made good (there are such that it does not, and so many that it gives up), shards that
come from somewhere else (requests are counted at the proxy), sentences that hold a secret.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.clusters import (
    BUCKET,
    KEY,
    LOOPBACK,
    SCORED,
    SECRET,
    Collection,
    Faults,
    Job,
    Proxy,
    Store,
    by_judgements,
    by_label,
    by_tags,
    cluster,
    collection,
    differences,
    evaluated,
    evaluated_in_shards,
    surroundings,
)
from lookalike.shards import storage
from lookalike.shards.dask import connected
from lookalike.shards.gallery import Shards
from lookalike.shards.storage import Location

ALWAYS = float("inf")
OF_THE_CLIENT = 31  # times that the store's own client asks before it gives up
BOUND = 120.0  # seconds within which a store that stays away is given up
CUT = ["AP@10", "nDCG@5"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    running = Store(tmp_path_factory.mktemp("store"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def proxy(store: Store) -> Iterator[Proxy]:
    running = Proxy(store)
    yield running
    running.close()


@pytest.fixture(autouse=True)
def here(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment in which the store is found, by way of the proxy."""
    for name, value in surroundings(proxy.address).items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(storage, "PAUSE", 0.01)


@pytest.fixture(scope="module")
def shop(store: Store) -> tuple[Collection, str]:
    """A collection of 64 bits, and the address of its gallery in eleven shards; it is in four of them at few/."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(store.address).items():
            patch.setenv(name, value)
        found = collection("64 bits")
        found.write(f"s3://{BUCKET}/codes", 21)
        found.write(f"s3://{BUCKET}/few", 60)
    return found, f"s3://{BUCKET}/codes"


def files_asked(proxy: Proxy, method: str, within: str) -> list[str]:
    return [path for asked, path in proxy.asked if asked == method and within in path]


def check_sentence(error: BaseException, *words: str) -> None:
    """One sentence with these words and no secret."""
    said = str(error)
    assert "\n" not in said
    assert SECRET not in said
    assert KEY not in said
    for word in words:
        assert word in said


# What is written there is there


def test_a_gallery_is_written_and_read(store: Store, tmp_path: Path) -> None:
    found = collection("64 bits")
    here, there = found.write(tmp_path / "gallery", 21), found.write(f"s3://{BUCKET}/written/", 21)
    assert there.manifest == here.manifest
    for shard in here.shards:
        assert store.ask("GET", f"/{BUCKET}/written/{shard.file}") == (tmp_path / "gallery" / shard.file).read_bytes()
    assert store.ask("GET", f"/{BUCKET}/written/manifest.json") == (tmp_path / "gallery/manifest.json").read_bytes()
    part = there.read(10, ["ids", "tags"])
    assert part.start == 210
    assert np.array_equal(part.values["ids"], found.of_items["ids"][210:])
    assert np.array_equal(part.values["tags"], found.of_items["tags"][210:])


@pytest.mark.parametrize(
    ("kind", "ask", "metrics"),
    [
        ("64 bits", by_label, SCORED),
        ("64 bits", by_judgements, ["AUC(average='micro')"]),
        ("float32", by_label, CUT),
        ("float64", by_tags, ["AP", *CUT]),
    ],
    ids=["codes", "judged", "first ranks", "all ranks"],
)
def test_the_same_bits_as_in_memory(kind: str, ask: Any, metrics: list[str]) -> None:
    found = collection(kind)
    shards = found.write(f"s3://{BUCKET}/{kind.replace(' ', '-')}/of/{len(metrics)}", 21)
    assert differences(evaluated(found, ask, metrics), evaluated_in_shards(found, shards, ask, metrics)) == []


def test_partials_in_the_store(proxy: Proxy, shop: tuple[Collection, str]) -> None:
    """What was kept is taken: the shards are not read again, and nothing is written again."""
    found, where = shop
    partials = f"s3://{BUCKET}/partials/local"
    for already in (0, 11):
        proxy.asked.clear()
        evaluation = evaluated_in_shards(found, Shards.open(where), by_label, SCORED, partials=partials)
        assert differences(evaluated(found, by_label, SCORED), evaluation) == []
        assert len({*files_asked(proxy, "GET", "/codes/part-")}) == 11 - already
        written = [path for path in files_asked(proxy, "POST", "/partials/local/") if path.endswith("?uploads")]
        assert len(written) == 11 - already
    again = evaluated_in_shards(found, Shards.open(where), by_tags, ["AP"], partials=partials)
    assert differences(evaluated(found, by_tags, ["AP"]), again) == []  # not those of another question


def test_workers_read_the_store(
    proxy: Proxy, shop: tuple[Collection, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits, with partials there; then a shard stays away: the same words as here, and none of them secret."""
    found = shop[0]
    port = proxy.address.rpartition(":")[2]
    options = f"endpoint_override={LOOPBACK}:{port}&scheme=http&region=us-east-1"
    where, partials = (f"s3://{KEY}:{SECRET}@{BUCKET}/{path}?{options}" for path in ("codes", "partials/of/workers"))
    shards = Shards.open(where)
    with cluster(tmp_path, 2, **surroundings(proxy.address)) as made, connected(made.address) as client:
        how = {"client": client, "partials": partials}
        for already in (0, 11):
            proxy.asked.clear()
            job = Job(lambda: evaluated_in_shards(found, shards, by_label, SCORED, **how))
            assert differences(evaluated(found, by_label, SCORED), job.result()) == []
            assert len({*files_asked(proxy, "GET", "/codes/part-")}) == 11 - already
            assert len(files_asked(proxy, "PUT", "/partials/of/workers/")) == 11 - already
        vectors = collection("float32")
        of_vectors = vectors.write(f"s3://{BUCKET}/vectors", 21)
        job = Job(lambda: evaluated_in_shards(vectors, of_vectors, by_tags, ["AP"], **how))
        assert differences(evaluated(vectors, by_tags, ["AP"]), job.result()) == []
        monkeypatch.setattr(Shards, "check", lambda _: None)
        with proxy.failing(Faults(409, ALWAYS, within="part-00003", code="OperationAborted")):
            job = Job(lambda: evaluated_in_shards(found, shards, by_tags, ["AP"], **how))
            with pytest.raises(OSError, match="cannot read") as caught:
                job.result()
            with pytest.raises(OSError, match="cannot read") as expected:
                evaluated_in_shards(found, shards, by_tags, ["AP"])
        check_sentence(caught.value, f"s3://…@{BUCKET}/codes/part-00003.parquet", "after 5 tries")
        assert str(caught.value) == str(expected.value)
        job = Job(lambda: evaluated_in_shards(found, shards, by_tags, ["AP"], **how))
        assert differences(evaluated(found, by_tags, ["AP"]), job.result()) == []
        assert "part-00003" in made.said  # the error is in the logs
        assert SECRET not in made.said


# What is not there


def test_where_nothing_is() -> None:
    for where in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket/gallery"):
        with pytest.raises(FileNotFoundError) as caught:
            Shards.open(where)
        check_sentence(caught.value, f"no manifest.json in {where}")


def test_a_bucket_that_is_not_there_is_not_written_to(proxy: Proxy) -> None:
    proxy.asked.clear()
    with pytest.raises(OSError, match="cannot write") as caught:
        collection("64 bits").write("s3://no-such-bucket/gallery", 21)
    check_sentence(caught.value, "s3://no-such-bucket/gallery/part-00000.parquet", "NO_SUCH_BUCKET")
    assert [method for method, _ in proxy.asked].count("POST") == 1  # it has answered


@pytest.mark.parametrize("looked_at", [True, False], ids=["looked at first", "met on the way"])
def test_a_shard_that_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch, looked_at: bool) -> None:
    found = collection("64 bits")
    shards = found.write(f"s3://{BUCKET}/holey", 21)
    lost = shards.shards[4].file
    store.ask("DELETE", f"/{BUCKET}/holey/{lost}")
    if not looked_at:
        monkeypatch.setattr(Shards, "check", lambda _: None)
    with pytest.raises(FileNotFoundError) as caught:
        evaluated_in_shards(found, shards, by_label, SCORED)
    check_sentence(caught.value, f"s3://{BUCKET}/holey/{lost} is missing", "11 shards")


def test_a_shard_of_another_gallery() -> None:
    """Objects may be replaced, and be as long as before."""
    found, other = collection("64 bits"), collection("64 bits", seed=1)
    shards = found.write(f"s3://{BUCKET}/mixed", 21)
    content = Location.of(f"s3://{BUCKET}/mixed").read("part-00002.parquet")
    Location.of(f"s3://{BUCKET}/mixed").write("part-00002.parquet", content[:-50] + bytes(46) + content[-4:])
    with pytest.raises(ValueError, match="hash") as caught:
        evaluated_in_shards(found, shards, by_label, SCORED)
    check_sentence(caught.value, f"s3://{BUCKET}/mixed/part-00002.parquet")
    other.write(f"s3://{BUCKET}/mixed", 21)  # and the manifest with them: it is another gallery
    again = evaluated_in_shards(other, Shards.open(f"s3://{BUCKET}/mixed"), by_label, SCORED)
    assert differences(evaluated(other, by_label, SCORED), again) == []


# Who may not


def test_keys_that_the_store_does_not_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Store(tmp_path, knows_nobody=True)
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict.address)
        start = time.monotonic()
        with pytest.raises(OSError, match="cannot read") as caught:
            Shards.open(f"s3://{BUCKET}/gallery")
        check_sentence(caught.value, f"s3://{BUCKET}/gallery/manifest.json", "ACCESS_DENIED")
        with pytest.raises(OSError, match="cannot look into") as caught:
            collection("64 bits").write(f"s3://{BUCKET}/gallery", 21)
        check_sentence(caught.value, f"s3://{BUCKET}/gallery", "ACCESS_DENIED")
        in_address = f"s3://{KEY}:{SECRET}@{BUCKET}/gallery"
        with pytest.raises(OSError, match="cannot read") as caught:
            Shards.open(in_address)
        check_sentence(caught.value, f"@{BUCKET}/gallery/manifest.json")
        assert time.monotonic() - start < BOUND
    finally:
        strict.close()


@pytest.mark.parametrize("code", ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"])
def test_what_is_refused_is_not_asked_again(proxy: Proxy, shop: tuple[Collection, str], code: str) -> None:
    place, asks = Location.of(shop[1]), []
    actions: list[Callable[[], Any]] = [
        lambda: place.read("manifest.json"),
        lambda: place.write("new.txt", b"new"),
        lambda: place.sizes(["manifest.json"]),
    ]
    with proxy.failing(Faults(403, ALWAYS, code=code)):
        for action in actions:
            proxy.asked.clear()
            with pytest.raises(OSError, match=r"^cannot (read|write|look into) ") as caught:
                action()
            check_sentence(caught.value, f"s3://{BUCKET}/codes")
            asks.append(len(proxy.asked))
    assert asks == [1, 1, 1]


# Errors that come and go

PASSING = {
    "busy once": Faults(503, 1),
    "busy, and busy again": Faults(500, 3, methods=("GET", "POST"), within="0000"),
    "connections that break": Faults("close", 1),
    "answers that break off": Faults("cut", 2, methods=("GET",)),
    "conflicts": Faults(409, 2, code="OperationAborted"),  # which the store's own client does not try again
    "conflicts of four": Faults(409, 4, within="part-00003", code="OperationAborted"),
}


@pytest.mark.parametrize("case", PASSING)
def test_errors_that_come_and_go(proxy: Proxy, shop: tuple[Collection, str], case: str) -> None:
    """Opening, looking, reading, keeping and finding what was kept: each request fails at first."""
    found, where = shop[0], f"s3://{BUCKET}/few"
    partials = f"s3://{BUCKET}/partials/{case.replace(' ', '-').replace(',', '')}"
    expected = evaluated(found, by_label, SCORED)
    faults = Faults(**{**vars(PASSING[case]), "done": type(PASSING[case].done)()})
    with proxy.failing(faults):
        shards = Shards.open(where)
        evaluation = evaluated_in_shards(found, shards, by_label, SCORED, partials=partials)
    assert differences(expected, evaluation) == []
    assert sum(faults.done.values()) >= 4
    proxy.asked.clear()
    again = evaluated_in_shards(found, Shards.open(where), by_label, SCORED, partials=partials)
    assert differences(expected, again) == []
    assert files_asked(proxy, "GET", "/few/part-") == []  # what was kept is whole


def test_a_gallery_is_written_through_errors(proxy: Proxy, store: Store, tmp_path: Path) -> None:
    found = collection("64 bits")
    here = found.write(tmp_path / "gallery", 100)
    for number, faults in enumerate([Faults(409, 2, code="OperationAborted"), Faults(503, 1), Faults("close", 1)]):
        with proxy.failing(faults):
            there = found.write(f"s3://{BUCKET}/through/{number}", 100)
        assert sum(faults.done.values()) >= 4
        assert there.manifest == here.manifest
        for shard in here.shards:
            content = store.ask("GET", f"/{BUCKET}/through/{number}/{shard.file}")
            assert content == (tmp_path / "gallery" / shard.file).read_bytes()


# Errors that stay


def test_conflicts_that_stay(proxy: Proxy, shop: tuple[Collection, str]) -> None:
    """As many tries as are said, each later than the one before."""
    place = Location.of(shop[1])
    with proxy.failing(Faults(409, ALWAYS, code="OperationAborted")):
        for action in (lambda: place.read("manifest.json"), lambda: place.write("new.txt", b"")):
            proxy.asked.clear()
            with pytest.raises(OSError, match=r"^cannot \w+ .* after 5 tries: .*409|OperationAborted") as caught:
                action()
            check_sentence(caught.value, f"s3://{BUCKET}/codes/")
            assert len(proxy.asked) == storage.TRIES


def test_a_store_that_stays_away(
    proxy: Proxy, store: Store, shop: tuple[Collection, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy for ever, or not there: given up after a while; each try is many of the store's own client.

    Busy for longer than this client bears, and then no more: it gives up, and is asked again. All side by side.
    """
    monkeypatch.setattr(storage, "TRIES", 2)
    at = "endpoint_override={}&scheme=http&region=us-east-1"
    nowhere = f"s3://{KEY}:{SECRET}@{BUCKET}/codes?{at.format(f'{LOOPBACK}:1')}"
    place, elsewhere = Location.of(shop[1]), Location.of(nowhere)
    assert place.has("manifest.json")
    _ = elsewhere._store  # made now: clients of the store are made one after the other
    another = Proxy(store)
    busy = Shards.open(f"s3://{KEY}:{SECRET}@{BUCKET}/codes?{at.format(another.address.removeprefix('http://'))}")
    jobs: dict[str, Job] = {}
    start = time.monotonic()
    faults = Faults(503, OF_THE_CLIENT + 2, methods=("GET",), within="part-00003")
    with proxy.failing(Faults(503, ALWAYS)), another.failing(faults):
        passing = Job(lambda: busy.read(3))
        jobs["read"] = Job(lambda: place.read("manifest.json"))
        jobs["write"] = Job(lambda: place.write("new.txt", b"new"))
        jobs["look into"] = Job(lambda: place.sizes(["manifest.json"]))
        jobs["read s3://…@"] = Job(lambda: elsewhere.read("manifest.json"))
        for what, job in jobs.items():
            with pytest.raises(OSError, match=f"^cannot {re.escape(what)}.* after 2 tries: ") as caught:
                job.result(BOUND)
            check_sentence(caught.value, f"{BUCKET}/codes")
        assert len(passing.result(BOUND)) == 21
    another.close()
    assert faults.done["GET", f"/{BUCKET}/codes/part-00003.parquet"] == OF_THE_CLIENT + 2
    assert time.monotonic() - start < BOUND
