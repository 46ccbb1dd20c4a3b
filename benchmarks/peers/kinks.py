"""The side of every kink: a gradient that can be compared to the last bit.

A ReLU's input within rounding of 0, or two entries of a pooling window within rounding of each other, may fall to either
side: two correct implementations then give gradients of two different linear pieces, far apart where few elements sum.
PyTorch's float32 and its own float64 differ so as well. Here a PyTorch model records the outputs of its ReLUs, or takes
the sides from somebody else's record; its float64 gradient on the same sides is the measure of a float32 gradient's error.
"""
import torch


class Kinks:
    """Wraps the ReLUs and max poolings of a model, in place. Every max pooling must read the last ReLU's output."""

    def __init__(self, model):
        self.record, self.forced = [], None
        for module in model.modules():
            if isinstance(module, torch.nn.ReLU):
                module.forward = self.relu
            elif isinstance(module, torch.nn.MaxPool2d):
                module.forward = lambda x, pool=module: self.max_pool(x, pool)

    def take_sides(self, activations):
        """@param activations  the outputs of the ReLUs in their order, images as [N, C, H, W]"""
        self.forced, self.record = activations, []

    def relu(self, x):
        if self.forced is None:
            y = torch.relu(x)
        else:
            y = x * (self.forced[len(self.record)] > 0)
        self.record.append(y.detach())
        return y

    def max_pool(self, x, pool):
        options = (pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)
        if self.forced is None:
            return torch.nn.functional.max_pool2d(x, *options)
        sides = self.forced[len(self.record) - 1]
        _, index = torch.nn.functional.max_pool2d(sides, *options, return_indices=True)
        return x.flatten(2).gather(2, index.flatten(2)).view(index.shape)


def flips(first, second):
    """How many ReLU outputs are 0 in one record and not in the other."""
    return sum(int(((a > 0) != (b > 0)).sum()) for a, b in zip(first, second))
