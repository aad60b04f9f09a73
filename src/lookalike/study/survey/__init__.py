"""A survey: what is in a collection, near-duplicates, look-alikes, which model finds what, what shorter codes cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.core.checks import whole_number
from lookalike.core.codes import Codes
from lookalike.core.errors import InputError, StudyError
from lookalike.study.survey import near_duplicates
from lookalike.study.survey.data import SurveyData
from lookalike.study.survey.near_duplicates import Alike, find_alike, label_across, n_repeated_files, sample_items
from lookalike.study.survey.retrieval import Retrieval, rank_models, retrieve_by_labels
from lookalike.study.survey.tradeoff import StorageOption, Tradeoff, default_hashers, weigh

if TYPE_CHECKING:
    from lookalike.hashers import Hasher
    from lookalike.study.model import Stored
    from lookalike.study.study import Study

QUERIES = 1000  # items to search for

__all__ = ["Alike", "Retrieval", "StorageOption", "Survey", "Tradeoff", "survey"]


@dataclass(frozen=True, eq=False)
class Survey:
    """All that a survey says; `to_dict` has it as plain values."""

    title: str
    ids: np.ndarray
    identities: np.ndarray | None
    categories: np.ndarray | None
    models: dict[str, str]  # every model of the study, and what it is
    lead: str | None  # the model to show first
    alike: dict[str, Alike]
    across: str | None  # the label that look-alikes differ in
    retrieval: list[Retrieval]
    tradeoff: Tradeoff | None
    skipped: list[tuple[str, str]]  # files of the folder that are not among the items, and why
    same_files: int | None  # items with a file that is byte for byte another's; None if that is not known
    missing: dict[str, str]  # why a part is missing: "near", "across", "retrieval" or "tradeoff"
    about: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain Python values, items by their ids."""
        return {
            "title": self.title,
            "items": len(self.ids),
            "models": self.models,
            "same_files": self.same_files,
            "skipped": [{"file": file, "why": why} for file, why in self.skipped],
            "near_duplicates": {name: alike.to_dict(self.ids, self.across) for name, alike in self.alike.items()},
            "retrieval": {retrieval.label: retrieval.to_dict() for retrieval in self.retrieval},
            "tradeoff": None if self.tradeoff is None else self.tradeoff.to_dict(),
            "missing": self.missing,
            "about": self.about,
        }


def survey(
    study: "Study",
    *,
    near: Mapping[str, float] | None = None,
    hashers: Iterable[tuple[str, "Hasher"]] | None = None,
    model: str | None = None,
    pairs: int = 24,
    queries: int = QUERIES,
    seed: int = 0,
    threads: int | None = None,
) -> Survey:
    """Find out what is in the collection of a study.

    near: for each model the distance up to which two items are near-duplicates, in bits, as cosine or as distance; by
    default one bit of 16 of a code, or a quarter of the usual distance. hashers: names and hashers to compare on the
    embeddings of `model`, by default ITQ at 32, 64 and 128 bits on the model that is best by labels. pairs: how many
    look-alikes to list. queries: how many items are drawn to be searched for.
    """
    limits = near or {}
    stored = {name: study.model(name, mapped=True) for name in study.models()}
    vectors = {name: each for name, each in stored.items() if each.gallery is not None}
    whole_number("pairs", pairs)
    whole_number("queries", queries)
    _check_models(study, vectors, limits, model)
    catalogue = study.catalogue
    data = SurveyData(catalogue, vectors, queries, np.random.default_rng(seed), threads)
    retrieval = retrieve_by_labels(data)
    ranked = rank_models(vectors, retrieval)
    across, labels = label_across(catalogue)
    sample = sample_items(len(catalogue), data.rng)
    alike = {name: find_alike(each, labels, limits.get(name), pairs, sample, seed) for name, each in vectors.items()}
    base = model or next((name for name in ranked if not isinstance(vectors[name].gallery, Codes)), None)
    tradeoff = None
    if base is not None and len(catalogue) >= 3:
        named = default_hashers(seed) if hashers is None else list(hashers)
        tradeoff = weigh(data, base, named, retrieval)
    return Survey(
        title=study.name,
        ids=catalogue.ids,
        identities=catalogue.identities,
        categories=catalogue.categories,
        models={name: each.kind for name, each in stored.items()},
        lead=next(iter(ranked), None),
        alike=alike,
        across=across,
        retrieval=retrieval,
        tradeoff=tradeoff,
        skipped=_skipped(study),
        same_files=n_repeated_files(vectors),
        missing=_missing(stored, across, retrieval, base, tradeoff),
        about={
            "seed": seed,
            "queries drawn": queries,
            "items compared": min(len(catalogue), near_duplicates.ITEMS),
        },
    )


def _check_models(
    study: "Study", vectors: "Mapping[str, Stored]", limits: Mapping[str, float], model: str | None
) -> None:
    """Raise if a model that is named is not there, or cannot be used for what it is named for."""
    for name in [*limits, *([] if model is None else [model])]:
        if name not in vectors:
            study.model(name)  # raises if there is none
            raise StudyError(f"the model {name!r} is a run: it has no embeddings or codes")
    if model is not None and isinstance(vectors[model].gallery, Codes):
        raise StudyError(f"the model {model!r} has codes already: hashers learn from embeddings")
    for name, limit in limits.items():
        highest = 1.0 if vectors[name].similarity == "cosine" else np.inf
        if not 0 <= limit <= highest:
            raise InputError(f"near-duplicates of {name!r} must be from 0 to {highest:g}, got {limit!r}")


def _missing(
    stored: "Mapping[str, Stored]",
    across: str | None,
    retrieval: list[Retrieval],
    base: str | None,
    tradeoff: Tradeoff | None,
) -> dict[str, str]:
    """Why a part of the survey, or a model, is missing."""
    runs = [name for name, each in stored.items() if each.gallery is None]
    has_vectors = len(runs) < len(stored)
    missing = dict.fromkeys(runs, "a run, which ranks the study’s queries only")
    if has_vectors and not retrieval:
        missing["retrieval"] = (
            "Items have neither identities of several images nor categories, so nobody can say what a search should "
            "find."
        )
    if across is None:
        missing["across"] = "Items have neither identities nor categories that differ, so none can be mistaken."
    if not has_vectors:
        missing["near"] = "The study has no model with embeddings or codes."
    if base is None:
        missing["tradeoff"] = "No model has embeddings, which hashers learn from."
    elif tradeoff is None:
        missing["tradeoff"] = "There are too few items to search."
    return missing


def _skipped(study: "Study") -> list[tuple[str, str]]:
    """Files that were left out of a study that was made from a folder, and why."""
    from lookalike.study.image_files import SKIPPED, read_files

    listed = study.path / "images.csv"
    if not listed.is_file():
        return []
    return [(file.path, file.reason) for file in read_files(listed).values() if file.state == SKIPPED]
