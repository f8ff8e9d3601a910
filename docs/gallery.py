"""Write docs/gallery.md and its pictures: each is drawn by the lines of Python printed above it. `python docs/gallery.py`."""

from pathlib import Path

import jax

FOLDER = Path(__file__).parent
HEAD = """# Gallery

One picture of each instrument, with the lines that draw it; made by `python docs/gallery.py`. `iclzoo inspect NAME` puts all that apply to
a checkpoint on one page.
Half-MSE is ½ · mean of ‖ŷ − y‖². All begin with

```python
import jax
import iclzoo

key, task = jax.random.key(0), iclzoo.LinearRegression()
lsa = iclzoo.load("lsa")
```
"""

ENTRIES = {
    "weights": (
        "Weights, beside the step that they imply",
        """from iclzoo.inspect.weights.interpolation import implied_construction
figure = iclzoo.heatmap(lsa, beside=implied_construction(lsa), names=("lsa", "the implied step"))""",
    ),
    "weight-path": (
        "Weights over training",
        """from iclzoo.inspect.weights.weight_path import weight_path
from iclzoo.inspect.behaviour.training_path_plot import weight_path_figure
figure = weight_path_figure(weight_path("lsa"))""",
    ),
    "training": (
        "Loss, alignment and what the weights imply, over training",
        """from iclzoo.inspect.behaviour.training_path import alignment_path
from iclzoo.inspect.weights.weight_path import weight_path
from iclzoo.inspect.behaviour.training_path_plot import training_figure
path = alignment_path("lsa", "gd-1", iclzoo.best_baseline("gd-1", task), task, key=key)
figure = training_figure(weight_path("lsa"), path)""",
    ),
    "spectrum": (
        "Spectrum of the products",
        """from iclzoo.inspect.behaviour.training_path_plot import spectrum_figure
from iclzoo.inspect.weights.spectrum import spectra
figure = spectrum_figure(spectra(iclzoo.load("deep-lsa-2")))""",
    ),
    "identification": (
        "Which algorithm is it?",
        """from iclzoo.inspect.identification.verdict_plot import identification_figure
figure = identification_figure(iclzoo.identify(lsa, task, key=key), name="lsa")""",
    ),
    "interpolation": (
        "Interpolation to the construction",
        """from iclzoo.inspect.weights.interpolation import interpolation, implied_construction
from iclzoo.inspect.weights.interpolation_plot import interpolation_figure
figure = interpolation_figure(interpolation(lsa, implied_construction(lsa), task, key=key), names=("lsa", "construction"))""",
    ),
    "rollouts": (
        "Repeated application",
        """from iclzoo.inspect.behaviour.rollouts import rollouts
from iclzoo.inspect.behaviour.rollouts_plot import rollouts_figure
figure = rollouts_figure(rollouts(lsa, task, key=key), name="lsa")""",
    ),
    "shifts": (
        "Shifts",
        """from iclzoo.inspect.behaviour.shifts import shifts
from iclzoo.inspect.behaviour.shifts_plot import shifts_figure
learners = {"lsa": lsa, "one step of GD": iclzoo.gradient_descent_lsa([6.06], num_examples=10, input_dim=10)}
figure = shifts_figure(shifts(learners, task, key=key)[0])""",
    ),
    "theory": (
        "Exact loss over training, without sampling",
        """from iclzoo.inspect.theory.exact_losses import exact_loss
from iclzoo.inspect.theory.exact_losses_plot import loss_path_figure
figure = loss_path_figure(exact_loss("lsa", task))""",
    ),
    "risk": (
        "Risk of the preconditioned step: bias and variance against the length of the prompt",
        """from iclzoo.inspect.theory.risk import risk
from iclzoo.inspect.theory.exact_losses_plot import risk_figure
figure = risk_figure(risk(iclzoo.LinearRegression(inputs=iclzoo.Gaussian(1.0))))""",
    ),
    "balance": (
        "What gradient flow would conserve, and Adam does not",
        """from iclzoo.inspect.weights.conserved_quantities import conserved_quantities
from iclzoo.inspect.weights.conserved_quantities_plot import conserved_figure
figure = conserved_figure(conserved_quantities("lsa"))""",
    ),
    "fitted-steps": (
        "Layers as steps of GD++",
        """from iclzoo.inspect.activations.layers_as_steps import fitted_steps
from iclzoo.inspect.activations.layers_as_steps_plot import fitted_steps_figure
figure = fitted_steps_figure(fitted_steps(iclzoo.load("recurrent-lsa-2"), task, key=key))""",
    ),
    "patterns": (
        "Attention of one prompt",
        """from iclzoo.inspect.activations.attention_patterns import patterns
from iclzoo.inspect.activations.attention_patterns_plot import patterns_figure
figure = patterns_figure(patterns(iclzoo.load("deep-lsa-2"), task.sample(key)[0]))""",
    ),
    "landscapes": (
        "Landscapes of single tasks, with the learner's step and the gradient step",
        """from iclzoo.inspect.behaviour.landscapes import landscapes
from iclzoo.inspect.behaviour.landscapes_plot import landscapes_figure
plane = iclzoo.LinearRegression(input_dim=2, inputs=iclzoo.Uniform(1.0))
recipe = iclzoo.Recipe(
    name="plane", model="lsa", hyperparameters={"input_dim": 2, "init_scale": 0.1}, task=plane,
    optimiser=iclzoo.Adam(learning_rate=0.02, schedule="cosine"), batch_size=512, num_steps=500,
)
figure = landscapes_figure(landscapes(iclzoo.fit(recipe, progress=False).model, plane, key=key), name="trained layer")""",
    ),
    "softmax-heads": (
        "Two softmax heads, constructed",
        """from iclzoo.inspect.activations.softmax_heads import softmax_heads
from iclzoo.inspect.activations.softmax_heads_plot import softmax_heads_figure
from iclzoo.zoo.constructions.two_softmax_heads import two_softmax_heads
figure = softmax_heads_figure(softmax_heads(two_softmax_heads(6.06, 0.3, input_dim=10), task, key=key))""",
    ),
    "copying": (
        "Derivative norms of the first layer, as its copying is scaled up (constructed; steps stand for the scale)",
        """from iclzoo.inspect.activations.token_jacobians import copying_path, token_map
from iclzoo.inspect.activations.token_jacobians_plot import copying_figure
from iclzoo.zoo.constructions.label_copying_head import copying_transformer
scaled = {s: copying_transformer(num_examples=10, input_dim=10, softmax_scale=float(s)) for s in range(0, 13, 2)}
figure = copying_figure(copying_path(scaled, task, num_tasks=100, key=key), token_map(scaled[12], task, num_tasks=100, key=key))""",
    ),
}


def main() -> None:
    import iclzoo

    (FOLDER / "gallery").mkdir(exist_ok=True)
    page = [HEAD]
    for slug, (title, code) in ENTRIES.items():
        names = {"iclzoo": iclzoo, "jax": jax, "key": jax.random.key(0), "task": iclzoo.LinearRegression()}
        names["lsa"] = iclzoo.load("lsa")
        exec(code, names)
        names["figure"].savefig(FOLDER / "gallery" / f"{slug}.png", dpi=75)
        page.append(f"## {title}\n\n```python\n{code}\n```\n\n![{title}](gallery/{slug}.png)\n")
        print(slug, flush=True)
    (FOLDER / "gallery.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
