"""The weights of one head at a few steps of its training."""

import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from ..pictures.style import AnyFigure, Figure, drawn, on_figure, styled
from .heatmap_plot import product_heatmap, symmetric_limit
from .weight_path import WeightPath


@styled
def weight_path_figure(
    path: WeightPath, *, layer: int = 0, head: int = 0, columns: int = 6, figure: AnyFigure | None = None
) -> AnyFigure:
    """W_KQ and W_PV of one head at a few stored steps, on one symmetric scale (figure-level)."""
    places = spread(path.steps, columns)
    shown = [path.layers[place][layer] for place in places]
    limit = symmetric_limit([matrix for p in shown for matrix in (p.W_KQ[head], p.W_PV[head])])
    figure = on_figure(figure, (2.5 * len(places) + 0.6, 5.4))
    axes = figure.subplots(2, len(places), squeeze=False)
    for column, (place, products) in enumerate(zip(places, shown, strict=True)):
        for ax, name in zip(axes[:, column], ("W_KQ", "W_PV"), strict=True):
            title = f"step {path.steps[place]}" if name == "W_KQ" else ""
            matrix = getattr(products, name)[head]
            product_heatmap(matrix, product=name, limit=limit, title=title, values=False, colour_bar=False, ax=ax)
            ax.patch.set(edgecolor="0.8", linewidth=0.8)  # a panel of zeros is still seen
            if column:
                ax.set_ylabel("")
        axes[0, 0].set_ylabel("$W_{KQ}$: key side")
        axes[1, 0].set_ylabel("$W_{PV}$: output")
    bar = figure.colorbar(axes[0, 0].collections[0], ax=axes, shrink=0.7, aspect=25)
    bar.set_label("weight, gauge fixed")
    return figure


@styled
def weight_film(
    path: WeightPath, *, layer: int = 0, head: int = 0, seconds: float = 6.0, hold: float = 2.0, dpi: int = 80
) -> bytes:
    """W_KQ and W_PV of one head at every stored step as a GIF of `seconds`, the last picture held for `hold` seconds more.

    All on one symmetric scale; below, the step of GD++ that the weights imply, where they imply one, with a mark at the step that is shown.
    """
    limit = symmetric_limit([m for p in path.layers for m in (p[layer].W_KQ[head], p[layer].W_PV[head])])
    pages = [_frame(path, place, layer, head, limit, dpi) for place in range(len(path.steps))]
    samples = Image.new("RGB", (pages[0].width, 3 * pages[0].height))
    for k, page in enumerate((pages[0], pages[len(pages) // 2], pages[-1])):
        samples.paste(page, (0, k * page.height))
    palette = samples.quantize(128)  # one for all frames, or a colour would change its meaning between them
    frames = [page.quantize(palette=palette, dither=Image.Dither.NONE) for page in pages]
    each = max(20, round(1000 * seconds / len(frames)))
    data = io.BytesIO()
    frames[0].save(
        data,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[each] * (len(frames) - 1) + [each + round(1000 * hold)],
        loop=0,
        optimize=True,
    )
    return data.getvalue()


def _frame(path: WeightPath, place: int, layer: int, head: int, limit: float, dpi: int) -> Image.Image:
    products = path.layers[place][layer]
    implied = [next((s for s in steps if (s.layer, s.head) == (products.name, head)), None) for steps in path.implied]
    figure = Figure(figsize=(6.4, 4.6 if implied[0] else 3.4), layout="constrained")
    axes = figure.subplot_mosaic(
        [["KQ", "PV"], ["path", "path"]] if implied[0] else [["KQ", "PV"]], height_ratios=[2, 1] if implied[0] else None
    )
    for key, matrix in (("KQ", products.W_KQ[head]), ("PV", products.W_PV[head])):
        product_heatmap(
            matrix,
            product="W_KQ" if key == "KQ" else "W_PV",
            labels=products.labels,
            limit=limit,
            values=False,
            colour_bar=False,
            ax=axes[key],
        )
        axes[key].tick_params(labelsize="xx-small")
    if implied[0]:
        ax = axes["path"]
        for name, text in (
            ("step_size_over_num_examples", "η/N"),
            ("gamma", "γ"),
            ("largest_other", "largest other entry"),
        ):
            ax.plot(path.steps, [getattr(one, name) for one in implied], label=text)
        ax.axvline(path.steps[place], color="0.3", linewidth=1)
        ax.set_xscale("symlog", linthresh=max([1, *path.steps[1:2]]))
        ax.set(xlabel="training step", xlim=(0, max(path.steps[-1], 1)))
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    figure.suptitle(f"step {path.steps[place]:,}", fontsize="medium")
    return Image.open(io.BytesIO(drawn(figure, "png", dpi=dpi))).convert("RGB")


def spread(steps: Sequence[int], number: int) -> list[int]:
    """The places of about `number` of the steps, spread evenly over them, the first and the last among them."""
    return sorted({round(place) for place in np.linspace(0, len(steps) - 1, min(number, len(steps)))})
