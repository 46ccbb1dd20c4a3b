#!/usr/bin/env python3
"""Makes what tests/frontends/models/gpt2_test.cpp compares with: a small GPT-2 of Hugging Face's, and what it computes in double precision.

  pip install torch transformers safetensors; tests/data/gpt2/make.py

Writes weights.safetensors (float32, named as the published gpt2 is: without "transformer." and without a head) and expected.safetensors: ids and
labels, -1 where there is none, the logits, the gradients of the mean cross-entropy over labels under their parameters' names; and `greedy`, a text
that begins with four tokens and goes on with the likeliest each time, with the logits behind each of its tokens.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).resolve().parent


def main():
    torch.manual_seed(4)
    config = GPT2Config(vocab_size=50, n_positions=20, n_embd=24, n_layer=2, n_head=3, embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0,
                        bos_token_id=None, eos_token_id=None)
    model = GPT2LMHeadModel(config)
    for p in model.parameters():
        p.data.add_(0.2 * torch.randn_like(p))
    weights = {name.removeprefix("transformer."): value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    weights["h.0.attn.bias"] = torch.tril(torch.ones(1, 1, 20, 20))  # a table that published files have
    weights["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(weights, str(HERE / "weights.safetensors"))
    model.double().train()
    ids = torch.randint(0, 50, (3, 13))
    labels = torch.full_like(ids, -1)
    labels[:, :-1] = ids[:, 1:]
    labels[1, 5:] = -1
    logits = model(input_ids=ids).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1).backward()
    out = {"ids": ids, "labels": labels, "logits": logits.detach().float()}
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    text = ids[:1, :4]
    with torch.no_grad():
        while text.shape[1] < 20:
            text = torch.cat([text, model(input_ids=text).logits[:, -1:].argmax(-1)], 1)
        out["greedy"], out["greedy.logits"] = text, model(input_ids=text).logits.float()
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
