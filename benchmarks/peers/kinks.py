"""The side of every kink: a gradient that can be compared to the last bit.

A ReLU's input within rounding of 0 (a ReLU6's of 6), or two entries of a pooling window within rounding of each other, may
fall to either side: two correct implementations then give gradients of two different linear pieces, far apart where few
elements sum. PyTorch's float32 and its own float64 differ so as well. Here a PyTorch model records the outputs of its ReLUs,
or takes the sides from somebody else's record; its float64 gradient on the same sides is the measure of a float32 gradient's
error.
"""
import torch
import torch.nn.functional as functional


class Kinks:
    """While it is entered, ReLUs and max poolings are its own. A max pooling reads ReLUs' outputs, as they are, joined, or pooled."""

    def __init__(self, sides=None):
        """@param sides  the outputs of the ReLUs in their order, images as [N, C, H, W], to take instead of the model's own"""
        self.record, self.forced = [], sides

    def __enter__(self):
        self.before = functional.relu, functional.hardtanh, functional.max_pool2d, torch.cat
        functional.relu, functional.hardtanh, functional.max_pool2d, torch.cat = self.relu, self.hardtanh, self.max_pool, self.cat
        return self

    def __exit__(self, *_):
        functional.relu, functional.hardtanh, functional.max_pool2d, torch.cat = self.before

    def kept(self, y):
        if self.forced is not None:
            y.sides = self.forced[len(self.record)]
        self.record.append(y.detach())
        return y

    def relu(self, x, inplace=False):
        return self.kept(self.before[0](x) if self.forced is None else x * (self.forced[len(self.record)] > 0))

    def hardtanh(self, x, min_val=-1.0, max_val=1.0, inplace=False):
        if min_val != 0:
            raise RuntimeError(f"kinks: a hardtanh begins at {min_val}; accepted: 0, as a ReLU6's does")
        if self.forced is None:
            return self.kept(self.before[1](x, min_val, max_val))
        sides = self.forced[len(self.record)]
        return self.kept(torch.where(sides >= max_val, torch.full_like(x, max_val), x * (sides > 0)))

    def max_pool(self, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        pool, options = self.before[2], (kernel_size, stride, padding, dilation, ceil_mode)
        if self.forced is None:
            return pool(x, *options)
        if not hasattr(x, "sides"):
            raise RuntimeError("kinks: a max pooling reads what is no ReLU's output; accepted: ReLUs' outputs, joined or pooled")
        sides, index = pool(x.sides, *options, return_indices=True)
        y = x.flatten(2).gather(2, index.flatten(2)).view(index.shape)
        y.sides = sides
        return y

    def cat(self, tensors, dim=0):
        join = self.before[3]
        y = join(tensors, dim)
        if all(hasattr(t, "sides") for t in tensors):
            y.sides = join([t.sides for t in tensors], dim)
        return y


def in_order_of(record, others):
    """The others' outputs in the order of a record of the same ReLUs: branches side by side may be computed in any.

    Each is the nearest one of its shape that is not taken yet.
    """
    left, out = list(others), []
    for own in record:
        alike = [i for i, other in enumerate(left) if other.shape == own.shape]
        if not alike:
            raise RuntimeError(f"kinks: no output of a ReLU is left that is {list(own.shape)}")
        distance = lambda i: float((left[i] - own).abs().max())  # noqa: E731
        near = 1e-2 * float(own.abs().max())  # far more than rounding, far less than between two branches
        best = alike[0] if distance(alike[0]) <= near else min(alike, key=distance)
        out.append(left.pop(best))
    if left:
        raise RuntimeError(f"kinks: {len(left)} outputs of ReLUs are left over")
    return out


def flips(first, second):
    """How many ReLU outputs are 0 in one record and not in the other."""
    return sum(int(((a > 0) != (b > 0)).sum()) for a, b in zip(first, second))
