"""LSTM stacks: what each hidden state has read, and how the two directions are wired."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import pytest
from helpers import assert_close, random_prompt

from iclzoo.zoo.models.lstm import LSTM, BidirectionalLSTM, run, run_backward
from iclzoo.zoo.token_model import concatenate

DEPTHS = [1, 3]
HIDDEN = 5


def influence(model, key):
    """Entry (i, j): whether the hidden state at token i depends on token j."""
    tokens = jr.normal(key, (5, model.input_dim + model.output_dim))
    jacobian = jax.jit(jax.jacobian(model.hidden))(tokens)
    return abs(jacobian).sum((1, 3)) > 0


@pytest.mark.parametrize("num_layers", DEPTHS)
def test_a_unidirectional_state_has_read_the_tokens_up_to_its_own(num_layers, getkey, x64):
    model = LSTM(input_dim=2, num_layers=num_layers, hidden_size=HIDDEN, key=getkey())
    assert (influence(model, getkey()) == jnp.tri(5, dtype=bool)).all()


@pytest.mark.parametrize("num_layers", DEPTHS)
def test_a_bidirectional_state_has_read_every_token(num_layers, getkey, x64):
    model = BidirectionalLSTM(input_dim=2, num_layers=num_layers, hidden_size=HIDDEN, key=getkey())
    assert influence(model, getkey()).all()


def test_the_backward_direction_has_read_the_tokens_from_its_own_on(getkey, x64):
    cell = eqx.nn.LSTMCell(3, HIDDEN, key=getkey())
    jacobian = jax.jacobian(lambda tokens: run_backward(cell, tokens))(jr.normal(getkey(), (5, 3)))
    assert ((abs(jacobian).sum((1, 3)) > 0) == jnp.tri(5, dtype=bool).T).all()


def test_run_applies_the_cell_token_by_token(getkey, x64):
    cell = eqx.nn.LSTMCell(3, HIDDEN, key=getkey())
    tokens = jr.normal(getkey(), (5, 3))
    state, states = (jnp.zeros(HIDDEN), jnp.zeros(HIDDEN)), []
    for token in tokens:
        state = cell(token, state)
        states.append(state[0])
    assert_close(run(cell, tokens), jnp.stack(states))


def test_the_backward_direction_is_reversed_and_turned_back(getkey, x64):
    cell = eqx.nn.LSTMCell(3, HIDDEN, key=getkey())
    tokens = jr.normal(getkey(), (5, 3))
    assert_close(run_backward(cell, tokens), jnp.flip(run(cell, jnp.flip(tokens, 0)), 0))
    assert_close(run_backward(cell, tokens)[-1], run(cell, tokens[-1:])[0])


def test_each_bidirectional_layer_reads_both_directions_of_the_one_before(getkey, x64):
    model = BidirectionalLSTM(input_dim=2, num_layers=2, hidden_size=HIDDEN, key=getkey())
    tokens = jr.normal(getkey(), (5, 3))
    (forward_1, forward_2), (backward_1, backward_2) = model.forward_cells, model.backward_cells
    between = jnp.concatenate([run(forward_1, tokens), run_backward(backward_1, tokens)], axis=1)
    assert_close(model.hidden(tokens)[:, :HIDDEN], run(forward_2, between))
    assert_close(model.hidden(tokens)[:, HIDDEN:], run_backward(backward_2, between))


def test_two_directions_with_mirrored_weights_mirror_a_reversed_sequence(getkey, x64):
    model = BidirectionalLSTM(input_dim=2, hidden_size=HIDDEN, key=getkey())
    mirrored = eqx.tree_at(
        lambda m: (m.forward_cells, m.backward_cells), model, (model.backward_cells, model.forward_cells)
    )
    tokens = jr.normal(getkey(), (5, 3))
    swapped = mirrored.hidden(tokens[::-1])[::-1]
    assert_close(model.hidden(tokens), jnp.concatenate([swapped[:, HIDDEN:], swapped[:, :HIDDEN]], axis=1))


def test_the_read_out_takes_the_state_that_has_read_every_token(getkey, x64):
    prompt = random_prompt(getkey(), num_examples=5, input_dim=2)
    tokens = concatenate(prompt, jnp.zeros(1))
    one = LSTM(input_dim=2, hidden_size=HIDDEN, key=getkey())
    assert_close(one(prompt), one.readout(one.hidden(tokens)[-1]))
    two = BidirectionalLSTM(input_dim=2, hidden_size=HIDDEN, key=getkey())
    hidden = two.hidden(tokens)
    assert_close(two(prompt), two.readout(jnp.concatenate([hidden[-1, :HIDDEN], hidden[0, HIDDEN:]])))


@pytest.mark.parametrize("cls", [LSTM, BidirectionalLSTM])
def test_layers_have_weights_of_their_own(cls, getkey, x64):
    model = cls(num_layers=3, hidden_size=HIDDEN, key=getkey())
    assert model.num_layers == 3
    assert model.hidden_size == 5
    weights = [leaf for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array)) if leaf.shape == (20, 5)]
    assert len({float(weight.sum()) for weight in weights}) == len(weights)
