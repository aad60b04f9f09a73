"""DINO's objective against its definition, and views of pictures.

A vacuous test would let pass: a student compared with its own crop, a teacher that learns by gradients or not at all, a
centre that is never used, outputs that collapse to one or to all alike, views that are the same for all pictures.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from torch import nn

from helpers.threads import one_thread  # noqa: F401  # of all tests here
from helpers.tiny_encoder import Tiny
from lookalike.learning import FinetuneSettings, finetune
from lookalike.learning.finetuning_data import PixelScale
from lookalike.learning.self_distillation import Course, SelfDistillation
from lookalike.learning.views import (
    AUGMENTATIONS,
    GLOBAL,
    LOCAL,
    SECOND_GLOBAL,
    ViewDraw,
    blurred,
    cropped,
    recoloured,
    view,
)

ZERO, ONE = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)


def stripes(each: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of six textures in any colour: what a crop shows, the whole shows too."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:32, :32]
    images = []
    for angle, frequency in ((0, 0.25), (0, 0.5), (90, 0.25), (90, 0.5), (45, 0.35), (135, 0.35)):
        along = x * math.cos(math.radians(angle)) + y * math.sin(math.radians(angle))
        for _ in range(each):
            wave = np.sin(2 * np.pi * frequency * along + rng.uniform(0, 6))[..., None]
            images.append(rng.uniform(60, 195, 3) + 60 * wave + rng.normal(0, 8, (32, 32, 3)))
    return np.clip(images, 0, 255).astype(np.uint8), np.arange(6).repeat(each)


def distillation(network: nn.Module, temperature: float = 0.07) -> SelfDistillation:
    return SelfDistillation(network, 16, outputs=8, local=2, course=Course(0.9, temperature))


def test_the_loss_is_that_of_the_paper() -> None:
    """Caron et al. 2021, eq. 1 and algorithm 1, as loops over pairs of crops and over pictures."""
    torch.manual_seed(0)
    network = Tiny().network().train()
    lesson = distillation(network)
    lesson.follow(network, 0.5)  # half of the run is done: the temperature has grown
    lesson.centre.copy_(torch.randn(8) / 10)
    centre, pictures, scale = lesson.centre.clone(), torch.rand(4, 3, 18, 18), PixelScale(ZERO, ONE, 16, 8)
    torch.manual_seed(1)
    loss = lesson.loss(network, pictures, torch.zeros(4, 0), scale)
    torch.manual_seed(1)
    large = [view(pictures, 16, draw) for draw in (GLOBAL, SECOND_GLOBAL)]
    small = [view(pictures, 8, LOCAL) for _ in range(2)]
    said = lesson.teacher_head(lesson.teacher(torch.cat(large)))
    student = lesson.head(torch.cat([network(torch.cat(large)), network(torch.cat(small))]))
    terms = []
    for first in range(2):
        for second in range(4):
            if first == second:
                continue
            for picture in range(4):
                target = torch.softmax((said[4 * first + picture] - centre) / 0.07, 0)
                logs = torch.log(torch.softmax(student[4 * second + picture] / 0.1, 0))
                terms.append(-(target * logs).sum())
    torch.testing.assert_close(loss, torch.stack(terms).mean())
    torch.testing.assert_close(lesson.centre, 0.9 * centre + 0.1 * said.mean(0))


def test_the_teacher_is_the_exponential_mean_of_the_student() -> None:
    torch.manual_seed(0)
    network = Tiny().network().train()
    lesson = distillation(network)
    scale = PixelScale(ZERO, ONE, 16, 8)
    optimizer = torch.optim.SGD([*network.parameters(), *(p for p in lesson.parameters() if p.requires_grad)], 0.5)
    expected = {name: weight.detach().clone() for name, weight in lesson.teacher.named_parameters()}
    for step in range(3):
        progress = (step + 1) / 4
        optimizer.zero_grad()
        lesson.loss(network, torch.rand(6, 3, 18, 18), torch.zeros(6, 0), scale).backward()
        assert all(weight.grad is None for weight in lesson.teacher.parameters())
        optimizer.step()
        lesson.follow(network, progress)
        momentum = 1 - 0.1 * (math.cos(math.pi * progress) + 1) / 2
        for name, weight in network.named_parameters():
            expected[name] = momentum * expected[name] + (1 - momentum) * weight.detach()
    for name, weight in lesson.teacher.named_parameters():
        torch.testing.assert_close(weight, expected[name])
        assert (weight != dict(network.named_parameters())[name]).any()
    assert lesson.trained(network) is lesson.teacher


def test_outputs_do_not_collapse() -> None:
    """Neither one output wins for all pictures, nor are all outputs alike, where the loss would be log(32)."""
    images, kinds = stripes()
    settings = FinetuneSettings(
        labels="none", epochs=8, batch_size=32, learning_rate=3e-3, outputs=32, local_crops=2, teacher_momentum=0.95
    )
    tuning = finetune(Tiny(32), images, categories=kinds, settings=settings)
    assert tuning.best_epoch == 8  # labels do not choose
    assert 0.5 < tuning.history[-1]["loss"] < math.log(32) - 0.1
    with torch.inference_mode():
        rows = tuning.network(Tiny(32).preprocess(images)).numpy()
    assert np.abs(rows - rows.mean(0)).mean() > 0.01


def test_a_teacher_that_stays_where_it_is_is_noticed_before_learning(caplog: pytest.LogCaptureFixture) -> None:
    images, _ = stripes(6)
    slow = FinetuneSettings(labels="none", epochs=2, batch_size=12, outputs=32, local_crops=0, validation=0.0)
    tuning = finetune(Tiny(32), images, settings=slow)
    (note,) = tuning.notes
    assert note.startswith("the teacher hardly moves in 6 steps with a momentum of 0.996")
    assert note.endswith("give one of about 0.5, or more epochs")
    assert [record.getMessage() for record in caplog.records] == list(tuning.notes)
    assert not finetune(Tiny(32), images, settings=replace(slow, teacher_momentum=0.5)).notes


# Views


def test_views_are_drawn_for_each_picture_from_the_seed() -> None:
    pictures = torch.rand(1, 3, 20, 20).expand(6, -1, -1, -1)
    for draw in (GLOBAL, SECOND_GLOBAL, LOCAL, AUGMENTATIONS["light"], AUGMENTATIONS["strong"]):
        assert draw is not None
        torch.manual_seed(5)
        one = view(pictures, 16, draw)
        torch.manual_seed(5)
        assert torch.equal(one, view(pictures, 16, draw))
        assert one.shape == (6, 3, 16, 16)
        assert all((one[a] != one[b]).any() for a in range(6) for b in range(a))
        assert 0 <= float(one.min()) <= float(one.max()) <= 1


def test_a_crop_is_a_part_of_the_picture_of_the_wanted_area() -> None:
    """Values of a ramp say where the crop was: its sides, and whether it is mirrored."""
    torch.manual_seed(0)
    size = 200
    ramp = (torch.arange(size) + 0.5) / size
    pictures = torch.stack([ramp.expand(size, size), ramp.expand(size, size).T, torch.zeros(size, size)])
    pictures = pictures.expand(400, -1, -1, -1)
    crops = cropped(pictures, 50, (0.2, 0.5))
    across, down = crops[:, 0, 0, -1] - crops[:, 0, 0, 0], crops[:, 1, -1, 0] - crops[:, 1, 0, 0]
    sides = across.abs() * 50 / 49, down * 50 / 49
    areas, ratios = sides[0] * sides[1], sides[0] / sides[1]
    assert 0.19 < float(areas.min()) < 0.22
    assert 0.48 < float(areas.max()) < 0.51
    assert 0.74 < float(ratios.min()) < 0.78
    assert 1.30 < float(ratios.max()) < 1.35
    assert 0.4 < float((across < 0).float().mean()) < 0.6  # mirrored
    assert (down > 0).all()
    assert float(crops[:, :2].min()) < 0.02  # crops reach all borders
    assert float(crops[:, :2].max()) > 0.98
    assert (cropped(pictures, 50, (0.2, 0.5), mirror=0.0)[:, 0, 0, -1] > 0.3).all()


def test_blur_is_gaussian() -> None:
    torch.manual_seed(0)
    pictures, deviations = torch.rand(3, 3, 20, 24), torch.tensor([0.3, 1.0, 1.7])
    result = blurred(pictures, deviations).numpy()
    for picture, deviation, one in zip(pictures.numpy(), deviations.tolist(), result, strict=True):
        radius = math.ceil(3 * 1.7)
        expected = gaussian_filter1d(picture, deviation, axis=1, mode="nearest", radius=radius)
        expected = gaussian_filter1d(expected, deviation, axis=2, mode="nearest", radius=radius)
        np.testing.assert_allclose(one, expected, atol=1e-6)


def test_colours_change_and_greys_stay_grey() -> None:
    torch.manual_seed(0)
    pictures = 0.3 + 0.4 * torch.rand(5, 3, 8, 8)
    assert torch.allclose(recoloured(pictures, 0, 0, 0, 0), pictures, atol=1e-6)
    turned = recoloured(pictures, 0, 0, 0, 0.1)
    assert (turned - pictures).abs().mean() > 0.005
    torch.testing.assert_close(turned.mean(1), pictures.mean(1), atol=1e-5, rtol=0)  # hue leaves the brightness
    grey = pictures[:, :1].expand(-1, 3, -1, -1)
    changed = recoloured(grey, 0.4, 0.4, 0.2, 0.1)
    assert float((changed - changed[:, :1]).abs().max()) < 1e-5
    assert (changed - grey).abs().mean() > 0.01


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_chances_are_kept(chance: float) -> None:
    torch.manual_seed(0)
    views = view(torch.rand(8, 3, 16, 16), 16, ViewDraw((0.5, 1.0), grey=chance))
    greys = (views == views[:, :1]).all(3).all(2).all(1)
    assert bool(greys.all()) == bool(chance)
    assert bool(greys.any()) == bool(chance)
