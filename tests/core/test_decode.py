"""From image files to pixels: orientation, modes, formats, limits, and files that are refused.

A vacuous test would let pass: a limit that is checked after decoding, or a picture that is turned twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from helpers.encoder_images import KINDS, REFUSED, noise, saved, smooth, with_exif
from helpers.threads import one_thread  # noqa: F401  # of all tests here
from lookalike.encoders import decode


def with_orientation(picture: np.ndarray, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(picture, "PNG", exif=exif)


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # what undoes each orientation of EXIF 2.32, table 6
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
def test_pictures_are_as_the_camera_was_held(orientation: int, tmp_path: Path) -> None:
    picture = noise(5, 9, 3)
    (tmp_path / "a.png").write_bytes(with_orientation(picture, orientation))
    np.testing.assert_array_equal(decode(tmp_path / "a.png"), UPRIGHT[orientation](picture))


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "CMYK"])
def test_pictures_of_all_modes_are_turned_once(mode: str, tmp_path: Path) -> None:
    image = Image.fromarray(smooth(40, 60)).convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.tif", exif=exif)
    expected = np.rot90(np.asarray(image.convert("RGB")), -1)
    np.testing.assert_allclose(decode(tmp_path / "a.tif").astype(int), expected, atol=2)


@pytest.mark.parametrize("name", KINDS)
def test_files_of_all_kinds(name: str, tmp_path: Path) -> None:
    data, colour = KINDS[name]
    (tmp_path / name).write_bytes(data)
    picture = decode(str(tmp_path / name))
    assert picture.shape == ((1, 1, 3) if name == "one.bmp" else (4, 6, 3))
    assert picture.dtype == np.uint8
    np.testing.assert_allclose(picture[-1, -1].astype(int), colour, atol=2)


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / name))} .*({message})"):
        decode(tmp_path / name)


def test_paths_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*no\.jpg"):
        decode(tmp_path / "no.jpg")
    with pytest.raises(ValueError, match="is a folder: pass the paths of image files"):
        decode(tmp_path)
    with pytest.raises(ValueError, match="/dev/null is not a file"):
        decode("/dev/null")


def test_the_limit_of_pixels_is_checked_before_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(saved(noise(20, 30, 3), "PNG"))
    assert decode(path, max_pixels=600).shape == (20, 30, 3)
    with monkeypatch.context() as patch:
        patch.setattr("PIL.ImageFile.ImageFile.load", None)  # not called
        with pytest.raises(ValueError, match="has 30 × 20 pixels, more than the 599 of max_pixels: raise it"):
            decode(path, max_pixels=599)
    for wrong in (0, -1, 1e6, True, None):
        with pytest.raises(ValueError, match="max_pixels must be a whole number from 1"):
            decode(path, max_pixels=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [100, 10_000, None])  # Pillow's own limit: refused, doubted, none
def test_the_limit_can_be_above_that_of_pillow(
    own: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", own)
    path = tmp_path / "a.png"
    path.write_bytes(saved(noise(100, 150, 3), "PNG"))
    assert decode(path, max_pixels=15_000).shape == (100, 150, 3)
    assert own == Image.MAX_IMAGE_PIXELS
    with pytest.raises(ValueError, match=f"{path} has .*max_pixels"):
        decode(path, max_pixels=14_999)
    assert own == Image.MAX_IMAGE_PIXELS


def test_a_damaged_description_does_not_cost_the_picture(tmp_path: Path) -> None:
    data = saved(smooth(20, 30), "JPEG", exif=with_exif())
    start = data.index(b"Exif\0\0") + 6
    for place in range(start, start + 24):
        damaged = data[:place] + b"\xa5" + data[place + 1 :]
        (tmp_path / "a.jpg").write_bytes(damaged)
        assert sorted(decode(tmp_path / "a.jpg").shape) == [3, 20, 30]


def test_large_jpegs_are_decoded_as_far_as_needed(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(saved(smooth(400, 600), "JPEG"))
    (tmp_path / "a.png").write_bytes(saved(smooth(400, 600), "PNG"))
    assert decode(tmp_path / "a.jpg").shape == (400, 600, 3)
    assert decode(tmp_path / "a.jpg", enough=201).shape == (400, 600, 3)
    assert decode(tmp_path / "a.jpg", enough=200).shape == (200, 300, 3)
    assert decode(tmp_path / "a.jpg", enough=32).shape == (50, 75, 3)
    assert decode(tmp_path / "a.png", enough=32).shape == (400, 600, 3)


def test_numbers_of_any_range_become_grey(tmp_path: Path) -> None:
    """One that is no number does not make all others black; 16 bits are scaled alike in every kind of file."""
    values = np.linspace(0, 3, 48, dtype=np.float32).reshape(6, 8)
    values[0, 0], values[5, 7] = np.nan, np.inf
    Image.fromarray(values).save(tmp_path / "floats.tiff")
    grey = decode(tmp_path / "floats.tiff")[..., 0]
    assert grey[0, 0] == 0
    assert grey[5, 7] == 255
    assert len(np.unique(grey)) > 30
    deep = (np.arange(48).reshape(6, 8) * 1000).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(deep).save(tmp_path / "deep.pgm")
    np.testing.assert_array_equal(decode(tmp_path / "deep.png"), decode(tmp_path / "deep.pgm"))
    np.testing.assert_array_equal(decode(tmp_path / "deep.png")[..., 0], deep >> 8)


def test_heic_is_read_where_pillow_heif_is_there_and_says_so_where_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pillow_heif

    from lookalike.core import decode as module

    image = Image.fromarray(smooth(40, 60))
    exif = Image.Exif()
    exif[0x0112] = 6
    pillow_heif.from_pillow(image).save(tmp_path / "a.heic", quality=95, exif=exif.tobytes())
    turned = decode(tmp_path / "a.heic")
    np.testing.assert_allclose(turned.astype(int), np.rot90(np.asarray(image), -1), atol=25)
    module._formats.cache_clear()
    monkeypatch.delitem(Image.OPEN, "HEIF")
    monkeypatch.setattr(module, "_can_read_heif", lambda: False)
    with pytest.raises(ValueError, match=r"a\.heic needs pillow-heif, which is not installed: pip install pillow-heif"):
        decode(tmp_path / "a.heic")
    module._formats.cache_clear()
