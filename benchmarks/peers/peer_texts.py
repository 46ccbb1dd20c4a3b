"""Gemel's models of texts in PyTorch, those that Hugging Face has as it has them, and batches for them. Each takes keyword arguments and gives logits by
that name. A text has half of the length or more; behind it is padding."""
from collections.abc import Callable
from typing import NamedTuple

import torch
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel
from transformers.modeling_outputs import SequenceClassifierOutput

from text_sizes import SIZES

BERT_VOCABULARY, GPT2_VOCABULARY, CLASSES = 30522, 50257, 2  # the LSTM's words are BERT's


class LstmClassifier(torch.nn.Module):
    """Embeddings, an LSTM that reads them both ways, and a linear layer over the largest and the mean of its states."""

    def __init__(self, embedding, hidden, layers):
        super().__init__()
        between_layers = 0.5 if layers > 1 else 0.0  # PyTorch warns of a rate that nothing uses
        self.embedding = torch.nn.Embedding(BERT_VOCABULARY, embedding, padding_idx=0)
        self.embedding_dropout, self.dropout = torch.nn.Dropout(0.3), torch.nn.Dropout(0.5)
        self.lstm = torch.nn.LSTM(embedding, hidden, layers, batch_first=True, bidirectional=True, dropout=between_layers)
        self.classifier = torch.nn.Linear(2 * 2 * hidden, CLASSES)

    def forward(self, input_ids, lengths):
        """@param input_ids  int64 [N, T] @param lengths  int64 [N], 1..T"""
        steps = input_ids.shape[1]
        words = self.embedding_dropout(self.embedding(input_ids))
        packed = torch.nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=steps)
        lengths = lengths.unsqueeze(1)
        is_padding = (torch.arange(steps) >= lengths).unsqueeze(2)
        largest = states.masked_fill(is_padding, -1).amax(1)  # a state is a product of a sigmoid and a tanh
        mean = states.sum(1) / lengths  # states behind a text are 0
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(torch.cat((largest, mean), 1))))


def attention_of(mode):
    return "eager" if mode == "composed" else "sdpa"


def bert(sizes, mode):
    width, layers, heads, inner = sizes
    return BertForSequenceClassification(BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
                                                    num_labels=CLASSES, attn_implementation=attention_of(mode)))


def gpt2(sizes, mode):
    width, layers, heads = sizes
    return GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=heads, use_cache=False, attn_implementation=attention_of(mode)))


def lstm_classifier(sizes, mode):
    return LstmClassifier(*sizes)


def padded_texts(samples, length):
    """Ids int64 [samples, length], 0 behind each text; which of them are words; lengths int64 [samples]; and classes."""
    lengths = torch.randint((length + 1) // 2, length + 1, (samples,))
    is_word = (torch.arange(length) < lengths.unsqueeze(1)).long()
    return torch.randint(1, BERT_VOCABULARY, (samples, length)) * is_word, is_word, lengths, torch.randint(0, CLASSES, (samples,))


def masked_batch(samples, length):
    ids, is_word, _, classes = padded_texts(samples, length)
    return {"input_ids": ids, "attention_mask": is_word}, classes


def packed_batch(samples, length):
    ids, _, lengths, classes = padded_texts(samples, length)
    return {"input_ids": ids, "lengths": lengths}, classes


def whole_batch(samples, length):
    ids = torch.randint(1, GPT2_VOCABULARY, (samples, length))
    return {"input_ids": ids}, ids


def loss_of_next(logits, ids):
    """Cross-entropy of the token that follows each."""
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Peer(NamedTuple):
    model: Callable  # (sizes, mode)
    batch: Callable  # (samples, length): the model's keyword arguments, and labels
    loss: Callable = torch.nn.functional.cross_entropy  # (logits, labels)


PEERS = {"bert": Peer(bert, masked_batch), "gpt2": Peer(gpt2, whole_batch, loss_of_next), "lstm_classifier": Peer(lstm_classifier, packed_batch)}


def make(name, config, mode):
    """@param mode  one of text_sizes.EAGER_MODES, or compile: the first of them, to be compiled"""
    return PEERS[name].model(SIZES[name][config], mode)
