#!/usr/bin/env python3
"""Makes what tests/frontends/models/bert_test.cpp compares with: a small BERT classifier of Hugging Face's, and what it computes in double precision.

  pip install torch transformers safetensors; tests/data/bert/make.py

Writes weights.safetensors (float32, Hugging Face's names) and expected.safetensors: ids and types, logits, and the gradients of the mean
cross-entropy over labels under their parameters' names. Rows of ids end with padding.
"""
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertForSequenceClassification

HERE = Path(__file__).resolve().parent


def main():
    torch.manual_seed(3)
    config = BertConfig(vocab_size=40, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=48, max_position_embeddings=12,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=3)
    model = BertForSequenceClassification(config)
    for p in model.parameters():
        p.data.add_(0.2 * torch.randn_like(p))
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, str(HERE / "weights.safetensors"))
    model.double().train()
    lengths, labels = [9, 4, 1, 7], torch.tensor([0, 2, 1, 2])
    ids, types = torch.zeros(4, 9, dtype=torch.int64), torch.zeros(4, 9, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(1, 40, (length,))
        types[row, length // 2:length] = 1
    logits = model(input_ids=ids, token_type_ids=types, attention_mask=(ids != 0).long()).logits
    torch.nn.functional.cross_entropy(logits, labels).backward()
    out = {"ids": ids, "types": types, "labels": labels, "logits": logits.detach().float()}
    for name, p in model.named_parameters():
        out["gradient." + name] = p.grad.float()
    save_file(out, str(HERE / "expected.safetensors"))


if __name__ == "__main__":
    main()
