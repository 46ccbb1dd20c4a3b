"""The models of the command line that classify texts, in PyTorch: Hugging Face's BERT, and LSTM and GRU classifiers as PyTorch's own layers make them."""
import torch

PADDING = 0
WIDTH_OF_HEAD = 64  # of every configuration


class Bert(torch.nn.Module):
    """Of inputs int64 [N, 2, T]: ids and types."""

    def __init__(self, state, dropout):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        vocabulary, width = state["bert.embeddings.word_embeddings.weight"].shape
        rates = {} if dropout is None else {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
        self.model = BertForSequenceClassification(BertConfig(
            vocab_size=vocabulary, hidden_size=width, num_hidden_layers=sum(name.endswith("intermediate.dense.bias") for name in state), num_attention_heads=width // WIDTH_OF_HEAD,
            intermediate_size=len(state["bert.encoder.layer.0.intermediate.dense.bias"]), num_labels=len(state["classifier.bias"]), **rates))
        self.model.load_state_dict(state)

    def forward(self, inputs):
        ids, types = inputs[:, 0], inputs[:, 1]
        return self.model(input_ids=ids, token_type_ids=types, attention_mask=(ids != PADDING).long()).logits


class RecurrentClassifier(torch.nn.Module):
    """Embeddings, an LSTM or GRU that reads them both ways, without their padding, and a linear layer over the largest and the mean of its states."""

    def __init__(self, state, dropout):
        super().__init__()
        vocabulary, width = state["embedding.weight"].shape
        hidden, layers = state[f"{self.layer_name}.weight_hh_l0"].shape[1], sum("weight_hh" in name for name in state) // 2
        of_words, of_states = (0.3, 0.5) if dropout is None else (dropout, dropout)
        self.embedding, self.embedding_dropout = torch.nn.Embedding(vocabulary, width, PADDING), torch.nn.Dropout(of_words)
        between = of_states if layers > 1 else 0.0  # PyTorch warns of a rate that nothing uses
        self.add_module(self.layer_name, self.Layer(width, hidden, layers, batch_first=True, bidirectional=True, dropout=between))
        self.dropout, self.classifier = torch.nn.Dropout(of_states), torch.nn.Linear(4 * hidden, len(state["classifier.bias"]))
        self.load_state_dict(state)

    def forward(self, inputs):
        ids = inputs[:, 0]
        steps, lengths = ids.shape[1], (ids != PADDING).sum(1)
        words = torch.nn.utils.rnn.pack_padded_sequence(self.embedding_dropout(self.embedding(ids)), lengths, batch_first=True, enforce_sorted=False)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(self.get_submodule(self.layer_name)(words)[0], batch_first=True, total_length=steps)
        is_padding = (torch.arange(steps) >= lengths[:, None])[:, :, None]
        largest = states.masked_fill(is_padding, -1).amax(1)  # an LSTM's state is a product of a sigmoid and a tanh, a GRU's a mean of such
        return self.classifier(self.dropout(torch.cat((largest, states.sum(1) / lengths[:, None]), 1)))  # states behind a text are 0


class LstmClassifier(RecurrentClassifier):
    layer_name, Layer = "lstm", torch.nn.LSTM


class GruClassifier(RecurrentClassifier):
    layer_name, Layer = "gru", torch.nn.GRU


KINDS = {"bert": Bert, "lstm_classifier": LstmClassifier, "gru_classifier": GruClassifier}


def started(spec):
    """The model of a spec, with Gemel's weights."""
    import measured
    import tensors
    import texts

    measured.refuse_unless("config", spec["config"], texts.CONFIGS)
    state = {name: torch.from_numpy(array) for name, array in tensors.load(f"{spec['start']}/weights.safetensors").items()}
    return KINDS[spec["model"]](state, spec.get("dropout"))


def loss_of(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs, labels)
