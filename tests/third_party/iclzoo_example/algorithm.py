"""Newton's iteration for the inverse of the Hessian."""

import equinox as eqx

import iclzoo


@iclzoo.register_algorithm("newton-K")
class Newton(eqx.Module):
    """K steps of M ← 2M − M H M from M = H/‖H‖²_F, H = Σᵢ xᵢ xᵢᵀ; then ŷ = Yᵀ X M x_query."""

    num_steps: int = eqx.field(static=True)

    def __call__(self, prompt):
        H = prompt.xs.T @ prompt.xs
        M = H / (H**2).sum()
        for _ in range(self.num_steps):
            M = 2 * M - M @ H @ M
        return prompt.ys.T @ prompt.xs @ M @ prompt.query
