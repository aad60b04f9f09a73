"""Hashers tried on a task, and their table: what `report` and `demo` share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookalike.cli.terminal import progress, prose, rich_table, tables, tell
from lookalike.core.figures import shown

if TYPE_CHECKING:
    from lookalike.experiments.task import Task
    from lookalike.experiments.trials import Trials
    from lookalike.hashers import Hasher

LENGTHS = "12 24 48"

__all__ = ["LENGTHS", "tell_trials", "try_all"]


def try_all(
    task: "Task", chosen: list[tuple[str, "Hasher"]], codes: Any = (), similarity: str = "euclidean"
) -> "Trials":
    """Try hashers, and codes made elsewhere, on a task, with a progress bar."""
    from lookalike.experiments.trials import try_hashers

    with progress():
        return try_hashers(task, chosen, codes, similarity=similarity)


def tell_trials(
    trials: "Trials", output: Path, printed: str, story: dict[str, Any] | None, ending: Callable[[], None]
) -> None:
    """Write the report of trials, and print them in the form that was asked for. ending: what follows on a terminal."""
    from lookalike.report import write_report

    write_report(trials, output)

    def show() -> None:
        _show(trials)
        ending()

    both = [trials.to_table(None), trials.to_table()]
    tell(printed, lambda: _facts(trials, output, story), lambda: both, show)


def _facts(trials: "Trials", output: Path, story: dict[str, Any] | None) -> dict[str, Any]:
    """Everything, for JSON."""
    exact, similarity = (trials.exact["AP"].mean, trials.exact.about["similarity"]) if trials.exact else (None, None)
    left_out = [{"hasher": name, "why": why} for name, why in trials.left_out]
    about = {
        "task": trials.task.about,
        "exact_mAP": exact,
        "exact_similarity": similarity,
        "left_out": left_out,
        "report": str(output),
    }
    return {**about, **({"story": story} if story else {}), "rows": trials.rows()}


def _show(trials: "Trials") -> None:
    """Print trials as a table."""
    task, say = trials.task, prose().print
    about = "".join(f"; {name}: {task.about[name]}" for name in ("features", "labels") if name in task.about)
    say(f"{task.title}: {len(task.query_labels):,} queries × {len(task.gallery_labels):,} items{about}\n")
    rows = rich_table(trials.to_table(None))
    if trials.exact is not None:
        ap = trials.exact["AP"]
        rows.add_row(
            f"no hashing ({trials.exact.about['similarity']})", "–", *map(shown, (ap.mean, ap.worst, ap.best)), *"–––––"
        )
    tables().print(rows)
    if undefined := trials.trials[0].evaluation["AP"].undefined:
        say(f"\n{undefined} of the queries have nothing relevant to find: mAP counts 0 for them")
    for name, why in trials.left_out:
        say(f"\nleft out: {name}: {why}")
