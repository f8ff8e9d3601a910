"""Run the official implementation and keep what it computes, for tests/test_official.py.

    python make_pairs.py --official PATH

PATH is a checkout of the folder `transformers_learn_icl_by_gd` of github.com/google-research/self-organising-systems, and the
Python is one with jax, dm-haiku and safetensors; iclzoo is not needed. The files written here were made with the versions that
each of them names. Everything is computed in 64 bits, so that nothing but rounding of 1e-16 separates two equal functions.
"""

import argparse
import sys
from importlib.metadata import version
from pathlib import Path

import haiku as hk  # pyright: ignore[reportMissingImports]
import jax
import numpy as np
from safetensors.numpy import save

NUM_TASKS, NUM_EXAMPLES, INPUT_DIM = 2, 5, 3

PLAIN = {"use_layer_norm": False, "use_pe": False, "pe_size": 0, "use_bias_p": False, "num_heads": 1, "init_scale": 1.0}
MLP = {
    "input_mapping": True,
    "embedding_size": 7,
    "input_mlp": True,
    "input_mlp_out_dim": 7,
    "widening_factor": 2,
    "key_size": 7,
    "num_layers": 1,
}
CONFIGURATIONS = {
    "one_layer": PLAIN | {"num_layers": 1, "key_size": 4},
    "two_recurrent_layers": PLAIN | {"num_layers": 2, "key_size": 4, "dampening": 0.7},
    "five_layers": PLAIN | {"num_layers": 5, "key_size": 4, "deq": False, "clip": 2.0, "init_scale": 0.5},
    "two_softmax_heads": PLAIN | {"num_layers": 1, "key_size": 5, "num_heads": 2, "use_softmax": True},
    "interleaved": PLAIN
    | {"num_layers": 2, "key_size": 5, "deq": False, "first_layer_sm": True}
    | {"use_pe": True, "pe_size": 4, "concat_pe": True, "in_context_length": 2 * NUM_EXAMPLES + 1},
    "mlp_lsa": PLAIN | MLP,
    "mlp_lsa_with_biases": PLAIN | MLP | {"use_bias_p": True},
}


def concatenated(xs, ys, query):
    """[(x, y) of each example, (x_query, 0)]."""
    query = np.concatenate([query, np.zeros((NUM_TASKS, 1))], axis=1)
    return np.concatenate([np.concatenate([xs, ys], axis=2), query[:, None]], axis=1)


def interleaved(xs, ys, query):
    """[x₁, (0, y₁), x₂, (0, y₂), …, x_query]."""
    ys = np.concatenate([np.zeros((NUM_TASKS, NUM_EXAMPLES, INPUT_DIM - 1)), ys], axis=2)
    context = np.stack([xs, ys], axis=2).reshape(NUM_TASKS, 2 * NUM_EXAMPLES, INPUT_DIM)
    return np.concatenate([context, query[:, None]], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--official", type=Path, required=True, help="the official checkout")
    sys.path.insert(0, str(parser.parse_args().official))
    from src.transformer import Transformer  # pyright: ignore[reportMissingImports]

    jax.config.update("jax_enable_x64", True)
    random = np.random.default_rng(0)
    for name, configuration in CONFIGURATIONS.items():
        xs = random.uniform(-1, 1, (NUM_TASKS, NUM_EXAMPLES, INPUT_DIM))
        ys = random.normal(size=(NUM_TASKS, NUM_EXAMPLES, 1))
        query = random.uniform(-1, 1, (NUM_TASKS, INPUT_DIM))
        tokens = interleaved(xs, ys, query) if name == "interleaved" else concatenated(xs, ys, query)

        def forward(tokens, configuration=configuration):
            return Transformer(**configuration)(tokens, is_training=False, predict_test=False)

        network = hk.transform(forward)
        params = network.init(jax.random.key(0), tokens)
        for module, arrays in params.items():
            if "b" in arrays and "attention" not in module:  # Haiku's zeros would hide a bias that is lost
                arrays["b"] = 0.3 * random.normal(size=arrays["b"].shape)
        final_tokens, _, _ = network.apply(params, jax.random.key(0), tokens)
        pair = {"xs": xs, "ys": ys, "query": query, "tokens": final_tokens, "prediction": -final_tokens[:, -1, -1:]}
        pair |= {f"{module}:{key}": array for module, arrays in params.items() for key, array in arrays.items()}
        libraries = {library: version(library) for library in ("jax", "dm-haiku", "numpy")}
        file = Path(__file__).with_name(f"{name}.safetensors")
        file.write_bytes(save({key: np.array(array, order="C") for key, array in pair.items()}, libraries))
        print(f"{file.name}: prediction {pair['prediction'].ravel()}, largest entry {abs(final_tokens).max():.3g}")
        if "clip" in configuration:
            print(f"clipped: {(abs(final_tokens) == configuration['clip']).mean():.0%} of the final entries")


if __name__ == "__main__":
    main()
