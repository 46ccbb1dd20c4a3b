#!/usr/bin/env python3
"""Makes what tests/program/run/old_files_test.cpp loads: small data, and what a program saved of runs on it.

    ./make.py GEMEL TRAIN_GRAPH      build/gemel of the version, and its examples/train_graph.cpp, built
"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WORDS = "the film is a story of two people and their dog .".split()


def npy(path, kind, shape, numbers):
    header = "{'descr': '<%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    form = "<%d%s" % (len(numbers), {"f4": "f", "i8": "q"}[kind])
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(form, *numbers))


def make_pictures(draws):
    folder = HERE / "pictures"
    folder.mkdir(exist_ok=True)
    labels = [draws.randrange(3) for _ in range(6)]
    pixels = [(draws.randrange(256) + 128 * (label == place // 342)) / 512 for label in labels for place in range(1024)]
    npy(folder / "images.npy", "f4", [6, 1, 32, 32], pixels)
    npy(folder / "labels.npy", "i8", [6], labels)


def make_texts(draws):
    folder = HERE / "texts"
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"] + WORDS) + "\n")
    for name, count in (("train.tsv", 12), ("dev.tsv", 4)):
        lines = ["sentence\tlabel"]
        for _ in range(count):
            label, words = draws.randrange(2), [draws.choice(WORDS) for _ in range(draws.randrange(3, 12))]
            words[draws.randrange(len(words))] = ("bad", "good")[label]
            lines.append(" ".join(words) + "\t" + str(label))
        (folder / name).write_text("\n".join(lines) + "\n")
    sizes = {
        "bert": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16,
                 "vocab_size": 19, "initializer_range": 0.1},
        "lstm": {"embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 19, "initializer_range": 1, "hidden_dropout_prob": 0.1},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "vocab_size": 40, "initializer_range": 0.1},
    }
    for name, size in sizes.items():
        (folder / (name + ".json")).write_text(json.dumps(size) + "\n")


def make_ratings(draws):
    folder = HERE / "ratings"
    folder.mkdir(exist_ok=True)
    (folder / "ncf.json").write_text(json.dumps({"factor_num": 4, "num_layers": 2}) + "\n")
    lines = [f"user{u}\titem{i}\n" for u in range(24) for i in draws.sample(range(120), 4)]
    (folder / "ratings.tsv").write_text("".join(lines))


def run(program, *arguments, ranks=1):
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)] if ranks > 1 else []
    subprocess.run([*start, program, *arguments], cwd=HERE, check=True)


def make_checkpoint(gemel, name, made):
    with tempfile.TemporaryDirectory() as work:
        saved = made["saved_after"]
        run(gemel, "train", *made["arguments"], "--steps", str(made["ends_after"]), "--checkpoint-dir", work, "--checkpoint-every", str(saved),
            "--log-dir", work, ranks=made["ranks"])
        shutil.copy(f"{work}/checkpoint-{saved}.safetensors", HERE / f"{name}.checkpoint.safetensors")
        events = [json.loads(line) for line in open(work + "/run.jsonl")]
        steps = [{key: e[key] for key in ("step", "epoch", "lr", "loss")} for e in events if e["event"] == "step" and e["step"] > saved]
        (HERE / f"{name}.steps.json").write_text(json.dumps(steps) + "\n")


def make_checkpoints(gemel):
    for name, made in json.loads((HERE / "runs.json").read_text()).items():
        make_checkpoint(gemel, name, made)


def make_weights(gemel):
    """Weights after the step of the pictures' checkpoint, and a text model's, with what they compute."""
    runs = json.loads((HERE / "runs.json").read_text())
    texts = runs["texts"]["arguments"]
    run(gemel, "train", *texts, "--steps", "6", "--save", "texts.weights.safetensors")
    npy(HERE / "texts/ids.npy", "i8", [3, 6], [2, 7, 8, 9, 5, 3, 2, 6, 12, 3, 0, 0, 2, 14, 5, 16, 3, 0])
    run(gemel, "infer", "--model", "bert", "--config", "texts/bert.json", "--weights", "texts.weights.safetensors", "--input", "texts/ids.npy", "--output",
        "texts.outputs.npy")
    with tempfile.TemporaryDirectory() as work:
        weights = work + "/weights.safetensors"
        run(gemel, "train", *runs["pictures"]["arguments"], "--resume", "pictures.checkpoint.safetensors", "--steps", "4", "--save", weights)
        run(gemel, "infer", "--model", "lenet", "--weights", weights, "--input", "pictures/images.npy", "--output", "pictures.outputs.npy")


def make_graph(train_graph):
    with tempfile.TemporaryDirectory() as work:
        points = [(x * 37 % 11 - 5, x * 53 % 13 - 6) for x in range(40)]
        pathlib.Path(work + "/points").write_text("".join(f"{x} {y} {int(x * y > 0)}\n" for x, y in points))
        said = subprocess.run([train_graph, work + "/points", work, "3"], check=True, capture_output=True, text=True).stdout
        (HERE / "graph.loss.txt").write_text(said)
        for file in ("graph.json", "graph.safetensors"):
            shutil.copy(f"{work}/{file}", HERE / file)


def make_tuning_table(gemel):
    with tempfile.TemporaryDirectory() as work:
        environment = {**os.environ, "GEMEL_CACHE_DIR": work}
        subprocess.run([gemel, "tune", "--model", "lenet", "--batch-size", "2", "--input", "1x32x32", "--classes", "3"], env=environment, check=True)
        shutil.copy(next(pathlib.Path(work, "tuning").glob("*.json")), HERE / "tuning.json")


if __name__ == "__main__":
    draws = random.Random(1)
    make_pictures(draws), make_texts(draws), make_ratings(draws)
    make_checkpoints(sys.argv[1]), make_weights(sys.argv[1])
    make_graph(sys.argv[2]), make_tuning_table(sys.argv[1])
