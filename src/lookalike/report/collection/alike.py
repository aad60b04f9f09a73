"""Sections on near-duplicates and look-alikes: groups and pairs as pictures, by one model at a time."""

from collections.abc import Iterable

from lookalike.report.collection.thumbnails import InlineThumbnails
from lookalike.report.collection.words import MANY, apart, rule, usual, within
from lookalike.report.html import choice, text
from lookalike.report.numbers import plural
from lookalike.search.near_duplicates import Group, Pair
from lookalike.study.survey import Alike, Survey

GROUPS, ITEMS = 16, 8  # of a model that are shown, and of a group
MIXED = 12  # groups that are shown for having several labels
PAIRS = 12  # of each kind
FEW = 4  # models that are a row of buttons rather than a list

__all__ = ["duplicates_section", "lookalikes_section"]


def duplicates_section(survey: Survey, pictures: InlineThumbnails) -> str:
    """Groups of near-duplicates by every model; nothing without models."""
    if not survey.alike:
        return ""
    panels = "".join(_panel(survey, name, _duplicates(survey, survey.alike[name], pictures)) for name in _order(survey))
    files = ""
    if survey.same_files:
        files = f" {plural(survey.same_files, 'file')} are byte for byte the same as another."
    return (
        '<section id="duplicates"><h2>Near-duplicates</h2><p class="reading">Items connected by steps from one '
        "near-duplicate to the next. The range is that of all distances within a group: a wide range means a chain."
        f"{files}</p>{_chooser(survey, 'near-by')}{panels}</section>"
    )


def lookalikes_section(survey: Survey, pictures: InlineThumbnails) -> str:
    """The nearest pairs of different labels by every model; nothing without labels."""
    shown = [name for name in _order(survey) if survey.alike[name].near.pairs]
    if survey.across is None or not shown:
        return ""
    panels = "".join(_panel(survey, name, _lookalikes(survey, survey.alike[name], pictures)) for name in _order(survey))
    asked = {
        "identity": "The nearest items that are labelled as different: one thing under two names, or two things that a "
        "customer would take for one.",
        "category": "The nearest items of different categories: a wrong label, or where categories meet.",
    }
    return (
        f'<section id="lookalikes"><h2>Look-alikes of different {survey.across}</h2><p class="reading">'
        f"{asked[survey.across]}</p>{_chooser(survey, 'alike-by')}{panels}</section>"
    )


def _order(survey: Survey) -> list[str]:
    """Models, the leading one first."""
    return sorted(survey.alike, key=lambda name: name != survey.lead)


def _chooser(survey: Survey, name: str) -> str:
    models = _order(survey)
    names = list(survey.models)
    if len(models) <= FEW:
        inner = choice(name, "Model", [(str(names.index(model)), text(model)) for model in models])
    else:
        options = "".join(f'<option value="{names.index(model)}">{text(model)}</option>' for model in models)
        inner = f'<label>Model <select id="{name}">{options}</select></label>'
    return f'<div class="controls by">{inner}</div>' if inner else ""


def _panel(survey: Survey, model: str, inner: str) -> str:
    hidden = "" if model == survey.lead else " hidden"
    return f'<div class="by-model" data-by="{list(survey.models).index(model)}"{hidden}>{inner}</div>'


def _duplicates(survey: Survey, alike: Alike, pictures: InlineThumbnails) -> str:
    groups = alike.near.groups
    sentences = [rule(alike)]
    if len(survey.ids) > alike.compared:
        sentences.append(f"Of {plural(len(survey.ids), 'item')}, {alike.compared:,} were drawn and compared.")
    if not groups:
        return f'<p class="rule">{text(" ".join(sentences))} There are none.</p>'
    same = f", {alike.same_vectors:,} of them with the same vector as another" if alike.same_vectors else ""
    sentences.insert(0, f"{plural(alike.near.grouped, 'item')} in {plural(len(groups), 'group')}{same}.")
    shown = _interesting(survey, groups)
    more = f'<p class="more">{_rest(groups, len(shown))}</p>' if len(groups) > len(shown) else ""
    inner = "".join(_group(survey, group, alike.unit, pictures) for group in shown)
    return f'<p class="rule">{text(" ".join(sentences))}</p><ol class="clusters">{inner}</ol>{more}'


def _interesting(survey: Survey, groups: list[Group]) -> list[Group]:
    """Groups to show: those of several identities first, then the largest of the others."""
    mixed = [group for group in groups if len(_names(survey, group)) > 1][:MIXED]
    others = [group for group in groups if group not in mixed]
    return [*mixed, *others][:GROUPS]


def _names(survey: Survey, group: Group) -> list[str]:
    """The different identities of a group, or where there are none, its categories."""
    labels = survey.identities if survey.across == "identity" else survey.categories
    if labels is None or survey.across is None:
        return []
    return [name for name in dict.fromkeys(labels[group.items].tolist()) if name]


def _rest(groups: list[Group], shown: int) -> str:
    sizes: dict[int, int] = {}
    for group in groups:
        sizes[len(group.items)] = sizes.get(len(group.items), 0) + 1
    told = ", ".join(f"{count:,} of {size}" for size, count in sorted(sizes.items(), reverse=True)[:6])
    last = ", …" if len(sizes) > 6 else ""
    return text(f"{shown} of {len(groups):,} groups are shown. By size: {told}{last}.")


def _group(survey: Survey, group: Group, unit: str, pictures: InlineThumbnails) -> str:
    names = _names(survey, group)
    shown = group.items[: ITEMS if len(group.items) <= ITEMS else ITEMS - 1].tolist()
    tiles = "".join(f"<li{_title(survey, item)}>{pictures.of(item, _description(survey, item))}</li>" for item in shown)
    more = f'<li class="rest">+{len(group.items) - len(shown):,}</li>' if len(group.items) > len(shown) else ""
    several = f'<b class="several">{len(names):,} {MANY[survey.across]}</b>' if len(names) > 1 and survey.across else ""
    span = within(group.nearest, group.farthest, unit)
    first = "" if group.whole else " of its first items"
    return (
        f'<li class="group" data-size="{len(group.items)}"><p><b>{len(group.items):,} items</b>{several}'
        f"<span>{text(span)}{first}</span></p><ul>{tiles}{more}</ul></li>"
    )


def _lookalikes(survey: Survey, alike: Alike, pictures: InlineThumbnails) -> str:
    near = alike.near
    if not near.pairs:
        return '<p class="rule">This model has no such pair.</p>'
    if near.beyond == near.pairs:
        reading = f"The nearest first; none of them are near-duplicates. {usual(alike)}"
        return f'<p class="rule">{text(reading)}</p>{_list(survey, near.pairs[: 2 * PAIRS], alike, pictures)}'
    return (
        f"<h3>The nearest of all</h3>{_list(survey, near.pairs[:PAIRS], alike, pictures)}"
        f'<h3>Alike, but not near-duplicates</h3><p class="rule">{text(usual(alike))}</p>'
        f"{_list(survey, near.beyond[:PAIRS], alike, pictures) if near.beyond else '<p>There are none.</p>'}"
    )


def _list(survey: Survey, pairs: list[Pair], alike: Alike, pictures: InlineThumbnails) -> str:
    inner = "".join(_pair(survey, pair, alike.unit, pictures) for pair in pairs)
    return f'<ol class="disputes couples">{inner}</ol>'


def _pair(survey: Survey, pair: Pair, unit: str, pictures: InlineThumbnails) -> str:
    sides = "".join(_side(survey, item, pictures) for item in (pair.first, pair.second))
    return (
        f'<li class="pair"><div class="two">{sides}</div><p><b>{text(apart(pair.distance, unit))}</b>'
        f"{_shared(survey, pair)}</p></li>"
    )


def _shared(survey: Survey, pair: Pair) -> str:
    """What the categories say of two identities."""
    if survey.across != "identity" or survey.categories is None:
        return ""
    one, other = (str(survey.categories[item]) for item in (pair.first, pair.second))
    if not one or not other:
        return ""
    return f" · both {text(one)}" if one == other else f' · <span class="several">{text(one)} and {text(other)}</span>'


def _side(survey: Survey, item: int, pictures: InlineThumbnails) -> str:
    labels = survey.identities if survey.across == "identity" else survey.categories
    assert labels is not None
    name, label = text(survey.ids[item]), text(labels[item])
    return (
        f'<figure>{pictures.of(item, _description(survey, item))}<figcaption title="{name}"><b>{label}</b><br>{name}'
        "</figcaption></figure>"
    )


def _title(survey: Survey, item: int) -> str:
    return f' title="{text(_description(survey, item))}"'


def _description(survey: Survey, item: int) -> str:
    return ", ".join(dict.fromkeys(_labels(survey, item)))


def _labels(survey: Survey, item: int) -> Iterable[str]:
    yield str(survey.ids[item])
    for labels in (survey.identities, survey.categories):
        if labels is not None and labels[item]:
            yield str(labels[item])
