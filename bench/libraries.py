"""Do timm, OpenCLIP and transformers, as they are installed, give through an encoder what they give by themselves?

Small networks with random weights are written into folders and read back as timm:local-dir:FOLDER and so on. Both get
pictures that the encoder prepared.

    HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 python bench/libraries.py
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import skimage.data
import torch

from lookalike.encoders import TorchEncoder, load

PICTURES = [skimage.data.chelsea(), skimage.data.coffee()]
TIMM = ("resnet18", "vit_tiny_patch16_224", "convnext_atto", "tf_efficientnet_b0", "regnety_002")
TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def main() -> None:
    torch.set_num_threads(1)
    for made in (of_transformers, of_timm, of_open_clip):
        try:
            with tempfile.TemporaryDirectory() as folder:
                for name, network in made(Path(folder)):
                    compare(name, network)
        except (ImportError, RuntimeError) as error:
            print(f"{made.__name__.removeprefix('of_')}: {str(error).strip().splitlines()[0]}")


def compare(name: str, network: Callable[[torch.Tensor], torch.Tensor]) -> None:
    encoder = load(name)
    assert isinstance(encoder, TorchEncoder)
    rows, images = encoder.encode(PICTURES), encoder.preprocess(PICTURES)
    with torch.inference_mode():
        itself, module = network(images).numpy(), encoder.network()(images).numpy()
    shown = name.split("/", 1)[0] + "…" + name.rsplit("/", 1)[-1]
    library, own = abs(rows - itself).max(), abs(rows - module).max()
    print(f"{shown}: {rows.shape}, differs from the library by {library:.1e}, from network() by {own:.1e}", flush=True)
    np.testing.assert_allclose(rows, itself, atol=1e-4)


def of_transformers(folder: Path) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    import transformers as library

    patches = {"image_size": 32, "patch_size": 8}
    for config, cls in (
        (library.ViTConfig(**TINY, **patches), library.ViTModel),
        (library.BeitConfig(**TINY, **patches), library.BeitModel),
        (library.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1] * 4), library.ConvNextModel),
    ):
        network = cls(config).eval()
        network.save_pretrained(folder / cls.__name__)
        library.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder / cls.__name__)
        yield f"hf:{folder / cls.__name__}", lambda images, network=network: network(images).pooler_output


def of_timm(folder: Path) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    import timm

    for name in TIMM:
        network = timm.create_model(name).eval()
        timm.models.save_for_hf(network, folder / name, safe_serialization=True)
        network.reset_classifier(0)
        yield f"timm:local-dir:{folder / name}", network


def of_open_clip(folder: Path) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    import open_clip

    vision = {"image_size": 32, "layers": 2, "width": 64, "head_width": 32, "patch_size": 8}
    text = {"context_length": 8, "vocab_size": 100, "width": 32, "heads": 2, "layers": 1}
    model = {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}
    pixels = {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28], "size": 32}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": model, "preprocess_cfg": pixels}))
    network = open_clip.CLIP(**model).eval()
    torch.save(network.state_dict(), folder / "open_clip_pytorch_model.bin")
    yield f"open_clip:local-dir:{folder}", network.encode_image


if __name__ == "__main__":
    main()
