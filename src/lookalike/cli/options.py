"""Options that several commands share."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from lookalike.cli.outputs import Output
from lookalike.core.errors import InputError

if TYPE_CHECKING:
    from lookalike.core.readers.source import Columns

JSON = Annotated[bool, Parameter(name="--json", help="print the result as JSON: --format json")]
FORMAT = Annotated[
    Literal["table", "json", "csv", "latex", "markdown"] | None,
    Parameter(name="--format", help="how to print: a table for the terminal (the default), or one for other programs"),
]
SEED = Annotated[
    int, Parameter(help="of everything that is drawn at random", validator=validators.Number(gte=0, lt=2**32))
]
STUDY = Annotated[Path, Parameter(help="the folder of the study")]
RULE = Annotated[
    Literal["majority", "unanimous", "dawid-skene", "median", "mean", "verdict"] | None,
    Parameter(
        help="how votes become judgements: majority, or median with a scale; verdict: verdicts first, else that "
        "(docs/guide/discovery.md)"
    ),
]
REL = Annotated[
    int | None,
    Parameter(help="with a scale, the lowest grade that counts as positive: by default the highest", negative=()),
]
SMOOTHING = Annotated[
    float | Literal["crowd"] | None,
    Parameter(
        help="for --rule dawid-skene: crowd (the default), or how many right votes, and as many wrong ones, to add to "
        "each expert's (docs/guide/discovery.md)"
    ),
]
RAW = Annotated[
    bool, Parameter(name="--raw", negative=(), help="in .csv, leave text as it is that spreadsheets take for a formula")
]
RANDOM_TOO = Annotated[
    bool, Parameter(help="judgements: also write pairs that chance alone drew, which no metric should count")
]
SOURCE = Annotated[Path | None, Parameter(help="the archive or the folder with its content, if you have it already")]
DATA_NAMES = (
    "digits, cifar10, cifar100, fashion-mnist, emoji, emoji:VENDOR,VENDOR, groceries, deepfashion-inshop, "
    "deepfashion-consumer2shop"
)
LABELS = Annotated[
    Path | None,
    Parameter(
        help="for a folder of images: a CSV with the columns file and label; for sets that have both: fine or coarse"
    ),
]
FEATURES = Annotated[str, Parameter(help="what stands for an image: pixels, or efficientnet-lite0")]
SETTING = Annotated[
    int | None,
    Parameter(help="1 (the default): 100 queries and 500 training images a class; 2: the official test part"),
]
DASK = Annotated[
    str | None,
    Parameter(
        help="work on a Dask cluster: the address of its scheduler, such as tcp://scheduler:8786, or its .json file"
    ),
]
PARTIALS = Annotated[
    str | None,
    Parameter(help="a folder or address to keep what each shard gives, so that a job that died goes on"),
    Output(folder=True),
]
SIMILARITY = Annotated[
    Literal["cosine", "dot", "euclidean"] | None, Parameter(help="how embeddings are compared (cosine)")
]
UNLISTED = Annotated[
    Literal["below", "out"],
    Parameter(help="AUC and PRAUC: judged items that a run does not list tie below all that it lists, or are left out"),
]
ZERO = Annotated[
    Literal["one", "minus"] | None,
    Parameter(help="what a 0 counts in codes of -1 and +1, such as the sign of 0: 1, or -1"),
]
THREADS = Annotated[int | None, Parameter(help="how many threads to use; all cores by default")]
PORT = Annotated[
    int, Parameter(help="where the page is; 0 takes one that is free", validator=validators.Number(gte=0, lte=65535))
]
HOST = Annotated[str, Parameter(help="the address to listen on; by default only this machine can connect")]
ALLOW_HOST = Annotated[
    tuple[str, ...], Parameter(help="a further name under which browsers may ask for the page", negative=())
]
OPEN = Annotated[
    bool | None,
    Parameter(name="--open", negative="--no-open", help="open the page in a browser; by default on a desktop"),
]


@dataclass(frozen=True)
class VectorOptions:
    """Which columns of a file are the vectors and the ids."""

    vector: Annotated[
        str | None,
        Parameter(help="the column of the vectors, where it has another name than ours; emb for emb_0, emb_1, …"),
    ] = None
    id: Annotated[str | None, Parameter(help="the column of the ids")] = None

    @property
    def columns(self) -> "Columns":
        """The same as readers take it."""
        from lookalike.core.readers.source import Columns

        return Columns(**asdict(self))


@dataclass(frozen=True)
class LabelOptions(VectorOptions):
    """Which columns are the vectors, the ids, and the labels or tags."""

    label: Annotated[str | None, Parameter(help="the column of the labels; of a file of labels, if given")] = None
    tags: Annotated[str | None, Parameter(help="the column of the tags, lists of 0 and 1, in place of labels")] = None


@dataclass(frozen=True)
class GroupOptions(LabelOptions):
    """Which columns are the vectors, the ids, the labels or tags, and the groups."""

    group: Annotated[str | None, Parameter(help="the column of groups, such as products")] = None


@dataclass(frozen=True)
class RankedOptions(LabelOptions):
    """The same, where items of the query's own group do not rank."""

    group: Annotated[
        str | None,
        Parameter(help="the column of groups, such as products: items of the query's own group do not rank"),
    ] = None
    by: Annotated[
        str | None,
        Parameter(help="a column of the queries, such as category: also each metric for each of its values"),
    ] = None


FLAT = Parameter(name="*")  # each field is an option of its own

__all__ = [
    "ALLOW_HOST",
    "DASK",
    "DATA_NAMES",
    "FEATURES",
    "FLAT",
    "FORMAT",
    "HOST",
    "JSON",
    "LABELS",
    "OPEN",
    "PARTIALS",
    "PORT",
    "RANDOM_TOO",
    "RAW",
    "REL",
    "RULE",
    "SEED",
    "SETTING",
    "SIMILARITY",
    "SMOOTHING",
    "SOURCE",
    "STUDY",
    "THREADS",
    "UNLISTED",
    "ZERO",
    "GroupOptions",
    "LabelOptions",
    "RankedOptions",
    "VectorOptions",
    "check_raw",
    "check_smoothing",
    "chosen_format",
]


def chosen_format(form: str | None, as_json: bool) -> str:
    """How to print the result; --json is short for --format json."""
    if as_json and form not in (None, "json"):
        raise InputError(f"--json is --format json, and --format is {form}: pass one of them")
    return "json" if as_json else form or "table"


def check_smoothing(smoothing: float | str | None, rule: str | None, *, rules: bool = False) -> None:
    """Raise where smoothing is given for a rule that knows none; `rules`: all of them are asked for."""
    if smoothing is not None and rule != "dawid-skene" and not rules:
        raise InputError(f"--smoothing is for --rule dawid-skene, and the rule is {rule or 'majority'}")


def check_raw(raw: bool, file: Path | None) -> None:
    """Raise where text is to be left as it is in a file in which it always is."""
    if raw and (file is None or file.suffix != ".csv"):
        raise InputError("--raw is for files that end in .csv: in all others text is written as it is")
