"""Gemel's models of texts as Hugging Face has them, and batches for them. A text has half of the length or more; behind it is padding."""
import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

# Hidden width, layers, heads, inner width.
BERT = {"tiny": (128, 2, 2, 512), "mini": (256, 4, 4, 1024), "small": (512, 4, 8, 2048), "base": (768, 12, 12, 3072)}
GPT2 = {"tiny": (128, 2, 2), "mini": (256, 4, 4), "small": (512, 8, 8), "base": (768, 12, 12)}
VOCABULARY = {"bert": 30522, "gpt2": 50257}


def make(name, config, mode):
    """@param mode  sdpa: scaled_dot_product_attention; composed: products and a softmax; compile: sdpa, to be compiled"""
    attention = "eager" if mode == "composed" else "sdpa"
    if name == "bert":
        width, layers, heads, inner = BERT[config]
        return BertForSequenceClassification(BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
                                                        num_labels=2, attn_implementation=attention))
    width, layers, heads = GPT2[config]
    return GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=heads, use_cache=False, attn_implementation=attention))


def batch(name, samples, length):
    """Keyword arguments of the model, and labels."""
    ids = torch.randint(1, VOCABULARY[name], (samples, length))
    if name == "gpt2":
        return {"input_ids": ids}, ids
    lengths = torch.randint(length // 2, length + 1, (samples, 1))
    mask = (torch.arange(length) < lengths).long()
    return {"input_ids": ids * mask, "attention_mask": mask}, torch.randint(0, 2, (samples,))


def loss(name, logits, labels):
    """Cross-entropy as the training step has it: of the class, or of the token that follows each."""
    if name == "gpt2":
        return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    return torch.nn.functional.cross_entropy(logits, labels)
