"""Optimisers that several recipes share."""

from ..optimiser import Adam

# The optimiser of the paper's code: Adam with b2 = 0.98, the gradient clipped to a global norm of 10.
PAPER_ADAM = Adam(learning_rate=0.001, b2=0.98, eps=1e-8, clip_norm=10.0)
# At a constant rate the weights keep fluctuating about the optimum, by 1 % of η; a rate that decays lets them settle.
DECAYING_ADAM = Adam(learning_rate=0.01, schedule="cosine", warmup_steps=50)
