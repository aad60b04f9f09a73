"""`lookalike demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lookalike.cli.hashers import choose_all
from lookalike.cli.options import DATA_NAMES, FORMAT, JSON, LABELS, SEED, SETTING, SOURCE, chosen_format
from lookalike.cli.outputs import Output
from lookalike.cli.tasks import task_and_shape
from lookalike.cli.terminal import prose, say_how_to_open, tables
from lookalike.cli.trials import LENGTHS, tell_trials, try_all

if TYPE_CHECKING:
    from lookalike.experiments.demo import Story

__all__ = ["demo"]


def demo(
    *,
    data: Annotated[str, Parameter(help=f"{DATA_NAMES}, or a folder of images")] = "digits",
    bits: Annotated[str, Parameter(help="lengths of the codes")] = LENGTHS,
    output: Annotated[Path, Parameter(help="where to write the report"), Output(".html")] = Path("lookalike-demo.html"),
    setting: SETTING = None,
    source: SOURCE = None,
    labels: LABELS = None,
    seed: SEED = 0,
    as_json: JSON = False,
    form: FORMAT = None,
) -> None:
    """Compare eight hashers on handwritten digits, in a table and in a report to look at.

    Example: lookalike demo

    Example: lookalike demo --data cifar10
    """
    from lookalike.experiments.demo import tell
    from lookalike.report import check_installed

    check_installed()
    printed = chosen_format(form, as_json)
    chosen = choose_all(None, bits, seed)
    trials = try_all(task_and_shape(data, source, labels, setting, seed)[0], chosen)
    story = tell(trials)
    ap = story.ap
    facts = {"hasher": story.trial.name, "bits": story.trial.n_bits, "queries": story.n_queries, "mAP": ap.mean}
    facts |= {"best": ap.best, "worst": ap.worst, "argsort": story.argsort}
    facts |= {"argsort_by_class": story.argsort_by_class, "AP@100": story.at_100}

    def ending() -> None:
        _show_story(story)
        say_how_to_open(output)
        tables().print(
            '\nWith your own codes:  lookalike evaluate queries.npz gallery.npz --metrics "AP@1000 nDCG@100"'
        )

    tell_trials(trials, output, printed, facts, ending)


def _show_story(story: "Story") -> None:
    """Print what ties do to mAP, in sentences."""
    ap, at_100 = story.ap, story.at_100
    prose().print(
        f"\nmAP is expected over every order of tied items; worst and best are what ties alone could make of it. On "
        f"{story.n_queries} queries {story.trial.name} at {story.trial.n_bits} bits has an mAP of {ap.mean:.4f}, "
        f"between {ap.worst:.4f} and {ap.best:.4f}. An argsort of the very same codes says {story.argsort:.4f}, or "
        f"{story.argsort_by_class:.4f} if the gallery is stored by class. And AP@100 is {at_100['retrieved']:.4f}, "
        f"{at_100['min']:.4f} or {at_100['total']:.4f}, divided by the relevant items retrieved, by at most 100, or by "
        "all there are.\n\n"
        "A higher mAP can hide codes that collapse onto a few points: look at the codes used, their entropy and the "
        "fullest one beside it. mLGAP weighs precision by how evenly codes are filled (Ding et al. 2018)."
    )
