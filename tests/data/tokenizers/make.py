#!/usr/bin/env python3
"""Makes what tests/tokenizers_test.cpp compares with: strings, and the numbers that PyPI's `tokenizers` gives them.

  pip install tokenizers; tests/data/tokenizers/make.py BERT-BASE-UNCASED-VOCAB.TXT

Writes strings.json, uncased.ids (with the given vocabulary, which is not kept), and vocabularies trained on this repository's documents:
cased.txt with cased.ids, vocab.json and merges.txt with bpe.ids. A line of an .ids file is a string's numbers without special tokens.
pairs.json: texts, alone or in pairs, cut to a length as a model takes them: [first, second or null, length, ids, types].
"""
import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PIECES = [  # accents, scripts, emoji, controls, white space of all kinds, special tokens, long words, punctuation and symbols
    "é", "ü", "ñ", "Å", "ß", "İ", "ı", "ﬁ", "Ǆ", "e\u0301", "a\u0323\u0307", "Straße", "ΑΣΣ", "ς", "中", "文", "日本", "한국", "ไทย", "क्षि", "ﷺ", "ｶﾞ", "㎏", "豈",
    "〇", "々", "\U00020000", "🙂", "👩‍👩‍👧", "🇩🇪", "\0", "\x07", "\x7f", "\x85", "\u200b", "\u00ad", "\ufeff", "\ufffd", "\u00a0", "\u2028", "\u3000", "\t", "\n", "\r",
    "\x0b", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[cls]", "[CLS", "<|endoftext|>", "x" * 99, "x" * 100, "x" * 101, "$", "€", "+", "—", "…", "«", "`", "^", "~", "_",
    "|", "'s", "'ll", "'", "don't", "123", "1.5", "½", "٣", "  ", "   ", "hello", "World", "ing", "tensor", "Pipeline", "kernels", "un", "believ", "able"]


def is_assigned(c):
    """In Unicode 3.2 already: all later versions agree on what it is."""
    return unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs")


def strings(documents):
    draw = random.Random(5)
    sentences = [line.strip() for line in documents.splitlines() if len(line.strip()) > 20]
    out = draw.sample(sentences, min(700, len(sentences)))
    for _ in range(900):
        out.append("".join(draw.choice(PIECES) + (" " if draw.random() < 0.4 else "") for _ in range(draw.randint(1, 10))))
    ranges = [(0x20, 0x7f), (0xa0, 0x250), (0x370, 0x1400), (0x2000, 0x3100), (0x3400, 0xa000), (0xac00, 0xd7a0), (0xf900, 0xfffe), (0x1d400, 0x1d800)]
    while len(out) < 2400:
        text = ""
        while len(text) < 16:
            c = draw.randrange(*draw.choice(ranges))
            if is_assigned(c):
                text += chr(c)
        out.append(text)
    return out + ["", " ", "\n", "'", " '", "a  b", " \t ", "\U0001d538", "I\u0307"]


def write_ids(name, encode, texts):
    (HERE / name).write_text("".join(" ".join(map(str, encode(t))) + "\n" for t in texts))


def write_pairs(tokenizer, texts):
    draw = random.Random(7)
    cases = []
    for i in range(300):
        first, second = draw.choice(texts)[:60], draw.choice(texts)[:60] if i % 3 else None
        longest = draw.choice([2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 64]) + (second is not None)
        tokenizer.enable_truncation(longest, strategy="longest_first")
        found = tokenizer.encode(first, second)
        cases.append([first, second, longest, found.ids, found.type_ids])
    tokenizer.no_truncation()
    (HERE / "pairs.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


def main():
    documents = "\n".join(p.read_text() for p in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    texts = strings(documents)
    (HERE / "strings.json").write_text("[\n" + ",\n".join(json.dumps(t) for t in texts) + "\n]\n")
    uncased = BertWordPieceTokenizer(sys.argv[1], lowercase=True)
    write_ids("uncased.ids", lambda t: uncased.encode(t, add_special_tokens=False).ids, texts)
    trained = BertWordPieceTokenizer(lowercase=False, strip_accents=False)
    trained.train_from_iterator([documents, *texts[700:1600]], vocab_size=1200, show_progress=False)
    trained.save_model(str(HERE), "cased")
    (HERE / "cased-vocab.txt").rename(HERE / "cased.txt")
    cased = BertWordPieceTokenizer(str(HERE / "cased.txt"), lowercase=False, strip_accents=False)
    write_pairs(cased, texts)
    write_ids("cased.ids", lambda t: cased.encode(t, add_special_tokens=False).ids, texts)
    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator([documents, *texts[700:1600]], vocab_size=1500, special_tokens=["<|endoftext|>"], show_progress=False)
    pairs.save_model(str(HERE))
    pairs = ByteLevelBPETokenizer(str(HERE / "vocab.json"), str(HERE / "merges.txt"))
    pairs.add_special_tokens(["<|endoftext|>"])
    write_ids("bpe.ids", lambda t: pairs.encode(t).ids, texts)


if __name__ == "__main__":
    main()
