"""`lookalike judge` as its users have it: real servers, real databases, commands in processes of their own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.judges import Server as PostgreSQL
from helpers.panels import Visitor, make_vases, serving
from lookalike.cli import main
from lookalike.judging.store.store import Store
from lookalike.judging.store.types import Briefing
from lookalike.study.study import Study

EXPERTS = ["ann", "bob", "eve"]


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQL]:
    running = PostgreSQL()
    yield running
    running.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judged")
    make_vases(folder, side=48)
    return folder


@pytest.fixture
def study(template: Path, tmp_path: Path) -> Study:
    shutil.copytree(template, tmp_path / "shop")
    return Study.open(tmp_path / "shop" / "study")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, postgresql: PostgreSQL) -> list[str]:
    """Options that say where votes are kept."""
    return ["--database", postgresql.new_database()] if request.param == "postgresql" else []


def lookalike(*arguments: object, code: int = 0) -> str:
    """What a command prints, on standard error where it fails."""
    ended, out, err = ran(*arguments)
    assert ended == code, out + err
    return out if code == 0 else err


def ran(*arguments: object) -> tuple[int, str, str]:
    """The exit code of a command, and what it prints on both outputs."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as error:
            ended = int(error.code or 0)
    return ended, out.getvalue(), err.getvalue()


def wait_until(true: Any) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_from_links_to_a_leaderboard(study: Study, database: list[str]) -> None:
    with serving(study.path, EXPERTS, "--experts-per-pair", "2", *database) as server:
        visitors = {name: Visitor(link) for name, link in server.experts.items()}
        threads = [threading.Thread(target=visitor.judge, args=(1000,)) for visitor in visitors.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "120 of 120 answers" in re.sub(r"<[^>]+>", "", Visitor(server.organiser).page)
        status = json.loads(lookalike("judge", "status", study.path, "--json"))
    n_pairs = len(study.pool())
    assert status["coverage"]["by_experts"] == {"2": n_pairs}
    assert status["everybody_done"] == status["everybody_total"] == 2 * n_pairs
    shown = lookalike("leaderboard", study.path)
    covered = (
        f"{n_pairs} of {n_pairs} pairs of the pool (100.0%) are judged, can't tell not counted: {n_pairs} by 2 expert"
    )
    assert covered in shown
    assert "Krippendorff's alpha" in shown
    found = json.loads(lookalike("leaderboard", study.path, "--json"))
    assert found["coverage"]["judged"] == n_pairs
    assert [row["expert"] for row in found["agreement"]["experts"]] == EXPERTS
    assert Counter(study.votes().pairs) == dict.fromkeys(study.pool().pairs, 2)


def test_too_few_experts_for_a_pair_are_told_at_once(study: Study) -> None:
    with serving(study.path, ["ann", "bob"]) as server:
        assert "2 experts judge, but each pair needs the answers of 3, so no pair can be finished" in server.said
        assert "add experts with --expert NAME, or ask for fewer with --experts-per-pair 2" in server.said
    assert "no pair can be finished" in ran("judge", "status", study.path)[2]
    with serving(study.path, ["eve"]) as server:  # beside the two of before
        assert "can be finished" not in server.said
    assert "can be finished" not in ran("judge", "status", study.path)[2]


def test_votes_come_out_and_go_in_again_with_nothing_lost(
    study: Study, template: Path, database: list[str], tmp_path: Path
) -> None:
    with serving(study.path, EXPERTS, *database) as server:
        Visitor(server.experts["ann"]).judge(7, lambda pair: pair % 3 - 1)
        Visitor(server.experts["bob"]).judge(5)
        lookalike("judge", "export", study.path, tmp_path / "votes.csv")
    for kind in ("csv", "parquet"):
        file = tmp_path / f"votes.{kind}"
        lookalike("judge", "export", study.path, file)
        other = tmp_path / kind
        shutil.copytree(template, other)
        assert "not known here" in lookalike("judge", "import", other / "study", file, code=2)
        assert "12 votes were added" in lookalike("judge", "import", other / "study", file, "--add-experts")
        assert "0 votes were added, 12 were there" in lookalike("judge", "import", other / "study", file)
        assert Study.open(other / "study").votes().digest == study.votes().digest
    for kind in ("qrels", "json"):
        file = tmp_path / f"judged.{kind}"
        assert "judgements to" in lookalike("judge", "export", study.path, file, "--rule", "unanimous")
        added = lookalike("judge", "import", tmp_path / "csv" / "study", file, "--expert", kind, "--add-experts")
        assert re.match(r"[1-9]\d* votes were added, 0 were there already", added), added


def test_workers_share_a_port_and_those_killed_are_started_again(study: Study, database: list[str]) -> None:
    with serving(study.path, EXPERTS, "--workers", "2", *database) as server:
        first, second = server.workers
        assert "postgresql" not in Path(f"/proc/{first}/cmdline").read_text()  # which everybody can read
        ann = Visitor(server.experts["ann"])
        assert ann.judge(10) == ["kept"] * 10
        os.kill(first, signal.SIGKILL)
        threads = [
            threading.Thread(target=patient, args=(Visitor(server.experts[name]), 20)) for name in ("bob", "eve")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.kill(second, signal.SIGKILL)
        assert patient(ann, 10) >= 10
        wait_until(lambda: server.said.count("a worker has ended, signal 9: started again") == 2)
    with Store.open(None, study) as store:
        assert store.check() == []
        assert Counter(store.votes().experts.tolist()) == {"ann": 20, "bob": 20, "eve": 20}


def patient(visitor: Visitor, n: int) -> int:
    """Judge n pairs, and come again when a connection breaks."""
    done = 0
    while done < n:
        try:
            done += len(visitor.judge(1))
        except (ConnectionError, urllib.error.URLError):
            time.sleep(0.1)
    return done


def test_workers_end_when_their_parent_is_killed(study: Study) -> None:
    with serving(study.path, ["ann"], "--workers", "2") as server:
        Visitor(server.experts["ann"]).judge(3)
        server.process.kill()
        wait_until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in server.workers))
    assert len(study.votes()) == 3


def test_workers_that_cannot_serve_are_not_started_for_ever(study: Study) -> None:
    with serving(study.path, ["ann"], "--workers", "2") as server:
        (study.path / "study.toml").rename(study.path / "away")
        for pid in server.workers:
            with contextlib.suppress(ProcessLookupError):  # it was still starting
                os.kill(pid, signal.SIGKILL)
        assert server.process.wait(120) == 2
        (study.path / "away").rename(study.path / "study.toml")
    assert "workers end as soon as they are started" in server.said


def test_two_servers_of_one_study(study: Study, database: list[str]) -> None:
    with serving(study.path, EXPERTS, *database) as one, serving(study.path, EXPERTS) as two:
        visitors = [Visitor(server.experts[name]) for server in (one, two) for name in EXPERTS]
        threads = [threading.Thread(target=visitor.judge, args=(1000,)) for visitor in visitors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lookalike("study", "show", study.path)
    assert Counter(study.votes().last().pairs) == dict.fromkeys(study.pool().pairs, 3)  # two tabs: the last counts


def test_a_database_that_is_restarted_mid_work(study: Study, postgresql: PostgreSQL) -> None:
    with serving(study.path, ["ann"], "--database", postgresql.new_database()) as server:
        ann = Visitor(server.experts["ann"])
        said = ann.judge(5)
        worker = threading.Thread(target=lambda: said.extend(ann.judge(20)))
        worker.start()
        postgresql.crash()
        time.sleep(0.5)
        postgresql.start()
        worker.join()
        assert len(said) == 25
        assert set(said) <= {"kept", "known"}  # known: kept, and the crash came before that was said
    lookalike("leaderboard", study.path)
    assert len(study.votes()) == 25


def test_a_database_that_is_away_when_results_are_wanted(study: Study, postgresql: PostgreSQL) -> None:
    with serving(study.path, ["ann"], "--database", postgresql.new_database()) as server:
        Visitor(server.experts["ann"]).judge(5)
        lookalike("study", "show", study.path)
    postgresql.crash()
    try:
        code, out, remarks = ran("study", "show", study.path)
        assert code == 0
        assert "goes on with the votes that were copied before" in remarks
        assert re.search(r"ann +5", out)
        refused = lookalike("judge", "status", study.path, code=2)
        assert "the database cannot be used now" in refused
    finally:
        postgresql.start()


def test_going_to_a_server_and_back_takes_votes_and_links_along(study: Study, postgresql: PostgreSQL) -> None:
    with serving(study.path, EXPERTS) as server:
        old = server.experts
        Visitor(old["ann"]).judge(3)
    lookalike("judge", "revoke", study.path, "bob")
    with serving(study.path, ["ann"], "--database", postgresql.new_database()) as server:
        assert Visitor(server.experts["ann"]).judge(2) == ["kept"] * 2
        refused(server.address + "/join/" + old["bob"].partition("/join/")[2])
        lookalike("judge", "revoke", study.path, "eve")
    with serving(study.path, ["ann"], "--database", "sqlite") as server:
        Visitor(server.experts["ann"]).judge(1)
        for name in ("bob", "eve"):
            refused(server.address + "/join/" + old[name].partition("/join/")[2])
    assert not (study.path / "judging" / "database").exists()
    assert len(study.votes()) == 6


def refused(link: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        Visitor(link)
    assert caught.value.code == 401
    caught.value.close()


def test_a_link_that_is_taken_back_or_renewed_is_dead_at_once(study: Study) -> None:
    with serving(study.path, EXPERTS) as server:
        bob, organiser = Visitor(server.experts["bob"]), Visitor(server.organiser)
        assert "taken back: the link of bob" in lookalike("judge", "revoke", study.path, "bob")
        with pytest.raises(urllib.error.HTTPError) as caught:
            bob.judge(1)
        assert caught.value.code == 401
        caught.value.close()
        renewed = json.loads(lookalike("judge", "renew", study.path, "bob", "--json"))["experts"]["bob"]
        assert Visitor(renewed).judge(1) == ["kept"]
        lookalike("judge", "revoke", study.path, "--organiser")
        with pytest.raises(urllib.error.HTTPError) as caught:
            organiser.get("/organise")
        assert caught.value.code == 401
        caught.value.close()
    assert "there is no expert 'zoe'" in lookalike("judge", "revoke", study.path, "ann", "zoe", code=2)
    with Store.open(None, study) as store:
        assert [expert.name for expert in store.experts() if expert.revoked is not None] == []


def test_a_disk_that_is_full_refuses_votes_in_words_and_goes_on(study: Study) -> None:
    with serving(study.path, ["ann"]) as server:
        ann = Visitor(server.experts["ann"])
        ann.judge(2)
        tasks = ann.post("/api/claim", n=6)["tasks"]
        size = sum(file.stat().st_size for file in study.path.glob("votes.sqlite*"))
        (pid,) = server.workers
        hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
        wal = (study.path / "votes.sqlite-wal").stat().st_size
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (wal, hard))  # no file may grow beyond this: like a full disk
        vote = {"client": "00000000-0000-4000-8000-000000000001", "pair": tasks[0]["pair"], "answer": 1}
        with pytest.raises(urllib.error.HTTPError) as caught:
            ann.post("/api/votes", votes=[vote])
        assert caught.value.code == 507
        assert "full" in json.load(caught.value)["problem"]
        caught.value.close()
        assert sum(file.stat().st_size for file in study.path.glob("votes.sqlite*")) <= size
        assert "Judge" in ann.get("/judge") or "judge" in ann.get("/judge")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        assert ann.post("/api/votes", votes=[vote])["votes"][0]["status"] == "kept"
        assert ann.judge(3) == ["kept"] * 3
    assert len(study.votes()) == 6


def test_settings_and_experts_are_those_of_before_unless_given(study: Study, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    query, item = study.pool().pairs[0]
    gold.write_text(f"query,item,grade\n{query},{item},1\n")
    options = ("--experts-per-pair", "1", "--order", "adaptive", "--budget", "20", "--gold", str(gold))
    with serving(study.path, ["ann"], *options):
        pass
    lookalike("judge", "status", study.path)
    with serving(study.path, []) as server:
        assert list(server.experts) == ["ann"]
        Visitor(server.experts["ann"]).judge(1000)
    status = json.loads(lookalike("judge", "status", study.path, "--json"))
    assert status["settings"] == {"experts_per_pair": 1, "order": "adaptive", "budget": 20, "seed": 0}
    assert (status["pairs"], status["complete"], status["gold"]) == (20, 20, 1)
    assert status["agreement"]["experts"][0]["gold_asked"] == 1


def test_links_expire(study: Study) -> None:
    begun = time.time()
    with serving(study.path, ["ann"], "--expires", "0.5") as server:
        ann = Visitor(server.experts["ann"])
        assert begun < json_of(study)["experts"][0]["expires"] / 1000 - 43_200 < time.time()
        with contextlib.closing(sqlite3.connect(study.path / "votes.sqlite", timeout=20)) as record:
            record.execute("UPDATE experts SET expires = ?", [int(time.time() * 1000)])  # as if half a day had passed
            record.commit()
        with pytest.raises(urllib.error.HTTPError) as caught:
            ann.get("/judge")
        assert caught.value.code == 401
        caught.value.close()
        refused(server.experts["ann"])
    assert "expired" in lookalike("judge", "status", study.path)


def json_of(study: Study) -> Any:
    return json.loads(lookalike("judge", "status", study.path, "--json"))


def test_the_address_and_the_port_are_remembered(study: Study) -> None:
    with serving(study.path, ["ann"], "--address", "https://judge.example/", port=free_port()) as server:
        assert server.address == "https://judge.example"
    with serving(study.path, [], port=None) as server:  # by the port of before, or it could not be
        assert server.experts["ann"].startswith("https://judge.example/join/")
        renewed = json.loads(lookalike("judge", "renew", study.path, "ann", "--json"))["experts"]["ann"]
        assert renewed.startswith("https://judge.example/join/")
        with serving(study.path, [], "--address", "none") as other:  # on a free port, which is nobody's business
            assert other.address.startswith("http://127.0.0.1:")
    with serving(study.path, [], "--address", "none", port=None) as server:
        assert Visitor(server.experts["ann"]).judge(1) == ["kept"]
        renewed = json.loads(lookalike("judge", "renew", study.path, "ann", "--json"))["experts"]["ann"]
        assert Visitor(renewed).judge(1) == ["kept"]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return str(listening.getsockname()[1])


def test_on_all_addresses_links_are_those_that_others_can_follow(study: Study) -> None:
    with serving(study.path, ["ann"], "--host", "0.0.0.0") as server:
        assert "0.0.0.0" not in server.experts["ann"]
        assert Visitor(server.experts["ann"]).judge(1) == ["kept"]


def test_a_pool_that_grows_comes_to_experts_at_once(study: Study) -> None:
    with serving(study.path, ["ann"], "--experts-per-pair", "1") as server:
        ann = Visitor(server.experts["ann"])
        ann.judge(1000)
        assert ann.post("/api/claim", n=1)["tasks"] == []
        run = {query: dict.fromkeys(study.catalogue.ids[-3:].tolist(), 1.0) for query in study.queries.ids.tolist()}
        study.add_model("late", run=run)
        lookalike("pool", study.path, "--top-up", "late")
        assert ann.judge(1000) == ["kept"] * (len(study.pool()) - 60)


def test_a_budget_can_be_set_and_lifted(study: Study) -> None:
    with serving(study.path, ["ann"], "--budget", "7", "--experts-per-pair", "1"):
        assert "0 of 7 answers (0.0%) to 7 pairs of the 60 of the pool" in lookalike("judge", "status", study.path)
    with serving(study.path, ["ann"], "--budget", "all"):
        assert "0 of 60 answers (0.0%) to 60 pairs;" in lookalike("judge", "status", study.path)


def test_experts_are_told_what_is_asked(study: Study, tmp_path: Path) -> None:
    (tmp_path / "guide.txt").write_text("Look at the shape.\n\n- not at the <b>colour</b>\n", encoding="utf-8")
    options = ("--question", "Would a customer take <one> for the other?", "--guide", str(tmp_path / "guide.txt"))
    with serving(study.path, ["ann"], *options):
        pass
    with Store.open(None, study) as store:
        assert store.briefing() == Briefing(
            "Would a customer take <one> for the other?", "Look at the shape.\n\n- not at the <b>colour</b>"
        )


def test_images_that_are_gone_are_said_before_experts_find_out(study: Study) -> None:
    (study.path.parent / "photos" / "vase-000.png").unlink()
    with serving(study.path, ["ann"]) as server:
        pass
    assert "images of the pool are missing, such as" in server.said


def test_what_is_kept_beside_the_votes_is_for_the_owner_alone(study: Study, postgresql: PostgreSQL) -> None:
    with serving(study.path, ["ann"], "--database", postgresql.new_database()):
        pass
    folder = study.path / "judging"
    assert folder.stat().st_mode & 0o077 == 0
    assert all((folder / name).stat().st_mode & 0o077 == 0 for name in ("key", "database"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--expert", " ann"], "no space at its ends"),
        (["--expires", "-1", "--expert", "ann"], "--expires takes days"),
        (["--database", "mysql://x@y/z"], "must be like postgresql://"),
        (["--address", "judge.example"], "--address must be like https://judge.example"),
        (["--address", "https://judge.example/path"], "with no path"),
        (["--allow-host", "a:80"], "--allow-host takes a name"),
        (["--gold", "no.csv"], "no.csv"),
        (["--guide", "no.txt"], "no.txt"),
        (["--question", "a\nb"], "one line"),
        (["--budget", "0"], "from 1, or all"),
        (["--workers", "0"], "workers"),
        (["--order", "random"], "order"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(study: Study, options: list[str], words: str) -> None:
    said = lookalike("judge", study.path, "--port", "0", *options, code=2)
    assert words in said
    assert len(said.splitlines()) == 1


def test_studies_that_cannot_be_judged_say_what_is_missing(study: Study, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("id\na\nb\n")
    lookalike("study", "new", tmp_path / "bare", "--catalogue", tmp_path / "items.csv", "--draw", "1")
    assert "has no column path" in lookalike("judge", tmp_path / "bare", code=2)
    study.pool_path.unlink()
    assert "has no pool yet" in lookalike("judge", study.path, code=2)
    assert "say whose link" in lookalike("judge", "revoke", study.path, code=2)
    assert "was never served" in lookalike("judge", "renew", study.path, "ann", code=2)


def test_without_its_packages_judging_says_what_to_install(study: Study) -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None; from lookalike.cli import main; "
        f"main(['judge', {str(study.path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "lookalike: judging needs sqlalchemy, which is not installed: pip install 'lookalike[judge]'\n"
    )
