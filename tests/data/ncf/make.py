#!/usr/bin/env python3
"""Makes what tests/frontends/models/ncf_test.cpp and tests/frontends/train/recommendation_task_test.cpp compare with: a small NeuMF in PyTorch, under the names of the port that is used most, and what
it computes in double precision.

  pip install torch safetensors; tests/data/ncf/make.py

Writes weights.safetensors (float32) and expected.safetensors: users, items and labels [5, 3], logits, the summed binary cross-entropy and the gradients of its
mean under their parameters' names; and the losses and gradients of logits that are large, small and 0 ("bce.").
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

HERE = Path(__file__).resolve().parent


class NCF(nn.Module):
    def __init__(self, users, items, factors, layers):
        super().__init__()
        width = factors * 2 ** (layers - 1)
        self.embed_user_GMF = nn.Embedding(users, factors)
        self.embed_item_GMF = nn.Embedding(items, factors)
        self.embed_user_MLP = nn.Embedding(users, width)
        self.embed_item_MLP = nn.Embedding(items, width)
        modules = []
        for i in range(layers):
            size = factors * 2 ** (layers - i)
            modules += [nn.Dropout(0), nn.Linear(size, size // 2), nn.ReLU()]
        self.MLP_layers = nn.Sequential(*modules)
        self.predict_layer = nn.Linear(2 * factors, 1)

    def forward(self, user, item):
        product = self.embed_user_GMF(user) * self.embed_item_GMF(item)
        features = self.MLP_layers(torch.cat((self.embed_user_MLP(user), self.embed_item_MLP(item)), -1))
        return self.predict_layer(torch.cat((product, features), -1)).view(-1)


def main():
    torch.manual_seed(5)
    model = NCF(users=7, items=11, factors=4, layers=3)
    for p in model.parameters():
        p.data = 0.5 * torch.randn_like(p)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, str(HERE / "weights.safetensors"))
    model.double()
    users, items, labels = torch.randint(0, 7, (5, 3)), torch.randint(0, 11, (5, 3)), torch.randint(0, 2, (5, 3)).double()
    logits = model(users.view(-1), items.view(-1)).view(5, 3)
    out = {"users": users, "items": items, "labels": labels.float(), "logits": logits.detach().float(),
           "loss": binary_cross_entropy_with_logits(logits, labels, reduction="sum").detach().float()}
    binary_cross_entropy_with_logits(logits, labels).backward()
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    x = torch.tensor([0.0, 0.0, 1.5, -1.5, 20.0, -20.0, 100.0, -100.0, 100.0, -100.0, 0.25, -3.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.5, 0.125], dtype=torch.float64)
    losses = binary_cross_entropy_with_logits(x, y, reduction="none")
    losses.sum().backward()
    out |= {"bce.logits": x.detach().float(), "bce.labels": y.float(), "bce.losses": losses.detach().float(), "bce.gradient": x.grad.float()}
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
