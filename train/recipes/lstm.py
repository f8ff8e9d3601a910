"""LSTMs in one direction and in both, of one to four layers."""

from ..optimiser import Adam
from ..schedule import Every
from .recipe import Recipe


def lstm(model: str, num_layers: int) -> Recipe:
    """`num_layers` layers of the model `lstm` or `bidirectional_lstm`."""
    direction = "one direction" if model == "lstm" else "both directions"
    return Recipe(
        name=f"{model.replace('_', '-')}-{num_layers}",
        description=f"An LSTM that reads the examples in {direction}: depth {num_layers}.",
        reference="Rossi et al. 2024",
        model=model,
        hyperparameters={"num_layers": num_layers, "hidden_size": 48},
        optimiser=Adam(learning_rate=0.005, schedule="cosine", warmup_steps=100, clip_norm=1.0),
        batch_size=256,
        num_steps=5000,
        log=Every(500),
    )


RECIPES = tuple(lstm(model, num_layers) for model in ("lstm", "bidirectional_lstm") for num_layers in (1, 2, 3, 4))
