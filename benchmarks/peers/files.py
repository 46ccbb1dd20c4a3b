#!/usr/bin/env python3
"""Files as others' tools write them: what Gemel reads of them against what those tools read.

    files.py --build BUILD [--only weights,vocabularies,sounds] [--install FOLDER]

weights       what transformers and torch save (whole, in shards, behind wrappers, of other types, with one name of two that are tied), and what the
              line makes that Gemel prints for torch.save's: logits of tiny models within 1e-5, of two bytes a weight within 1e-5 of the rounded model's
vocabularies  vocab.txt, vocab.json and merges.txt, and tokenizer.json of tokenizers and transformers: the same numbers, text by text
sounds        WAV by soundfile, torchaudio, scipy and Python's wave, and by ffmpeg, sox and espeak-ng into a pipe where they are installed: the same
              samples as soundfile's (one channel: all bits), and log-mel features within 1e-3 of torchaudio's

--install makes a virtual environment with the packages where FOLDER has none. Needs a build of the targets gemel_cli and gemel_sound.
Prints a line a check; exit status 1 where one fails.
"""
import argparse
import itertools
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import wave

# torchaudio's last version, which writes by torchcodec, with the torch that it was built with.
PACKAGES = ("torch==2.11.0", "torchaudio==2.11.0", "torchcodec==0.11.*", "transformers", "tokenizers", "safetensors", "soundfile", "scipy", "numpy")
failed = []


def report(check, ok, found=""):
    if not ok:
        failed.append(check)
    print(f"{'ok  ' if ok else 'FAIL'}  {check}{f': {found}' if found else ''}", flush=True)


def within(check, ours, theirs, limit):
    import numpy as np
    if ours.shape != theirs.shape:
        return report(check, False, f"{ours.shape} instead of {theirs.shape}")
    difference = float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0) / max(np.abs(theirs).max(initial=0), 1e-30))
    report(check, difference <= limit, f"{difference:.3g} (limit {limit:.3g})")


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, **{"text": True, **more})
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done


def install(folder):
    """Starts this program again with a Python that has the packages."""
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-c", "import torchaudio, torchcodec, transformers, soundfile, scipy"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", *PACKAGES], check=True)
    if os.path.realpath(sys.prefix) != os.path.realpath(folder):
        os.execv(python, [python, *sys.argv])


def weights(build, folder):
    import numpy as np
    import torch
    from safetensors.torch import save_file, save_model
    from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    models = {"bert": BertForSequenceClassification(BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                                                               max_position_embeddings=24, num_labels=3)).eval(),
              "gpt2": GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=2, n_positions=24)).eval()}
    ids = torch.randint(1, 60, (3, 12))
    np.save(f"{folder}/ids.npy", ids.numpy())

    def logits(model):
        with torch.no_grad():
            return model(input_ids=ids).logits.numpy()

    def check(what, name, path, model):
        with open(f"{folder}/config-{name}.json", "w") as file:
            json.dump(model.config.to_dict(), file)
        try:
            said = run(f"{build}/gemel", "infer", "--model", name, "--config", f"{folder}/config-{name}.json", "--weights", path, "--input", f"{folder}/ids.npy",
                       "--output", f"{folder}/y.npy").stderr
        except RuntimeError as error:
            return report(f"{name}, {what}", False, str(error))
        within(f"{name}, {what}", np.load(f"{folder}/y.npy").reshape(logits(model).shape), logits(model), 1e-5)
        return said

    def contiguous(state):
        return {k: v.detach().clone().contiguous() for k, v in state.items()}

    def refusal(path):
        return subprocess.run([f"{build}/gemel", "infer", "--model", "bert", "--config", f"{folder}/config-bert.json", "--weights", path, "--input",
                               f"{folder}/ids.npy", "--output", f"{folder}/y.npy"], capture_output=True, text=True).stderr.strip()

    for name, model in models.items():
        here = f"{folder}/{name}"
        model.save_pretrained(f"{here}-whole")
        check("save_pretrained", name, f"{here}-whole", model)
        model.save_pretrained(f"{here}-shards", max_shard_size="30KB")
        shards = [f for f in os.listdir(f"{here}-shards") if f.endswith(".safetensors")]
        report(f"{name}, shards that were made", len(shards) > 2, len(shards))
        check("shards, by their folder", name, f"{here}-shards", model)
        check("shards, by their index", name, f"{here}-shards/model.safetensors.index.json", model)
        save_model(model, f"{here}-tied.safetensors")
        check("save_model", name, f"{here}-tied.safetensors", model)
        state = contiguous(model.state_dict())
        for what, wrapped in (("DataParallel", torch.nn.DataParallel(model)), ("torch.compile", torch.compile(model)),
                              ("DataParallel around torch.compile", torch.nn.DataParallel(torch.compile(model)))):
            save_file(contiguous(wrapped.state_dict()), f"{here}-wrapped.safetensors")
            said = check(what, name, f"{here}-wrapped.safetensors", model)
            report(f"{name}, {what}: a remark", said and "is taken off the file's names" in said)
        for what, kind in (("float64", torch.float64), ("float16", torch.float16), ("bfloat16", torch.bfloat16)):
            save_file({k: v.to(kind) for k, v in state.items()}, f"{here}-{what}.safetensors")
            other = type(model)(model.config).eval()
            other.load_state_dict({k: v.to(kind).float() for k, v in state.items()})
            check(what, name, f"{here}-{what}.safetensors", other)
        extra = {"bert": {"bert.embeddings.position_ids": torch.arange(24, dtype=torch.int16)[None], "cls.seq_relationship.bias": torch.zeros(2, dtype=torch.uint8)},
                 "gpt2": {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 24, 24, dtype=torch.uint8) for i in range(2)}}[name]
        save_file({**state, **extra}, f"{here}-extra.safetensors")
        check("masks and positions of other types", name, f"{here}-extra.safetensors", model)
        for what, options in (("torch.save", {}), ("torch.save before 1.6", {"_use_new_zipfile_serialization": False})):
            torch.save(state, f"{here}.bin", **options)
            said = refusal(f"{here}.bin")
            line = said[said.find("python3 -c"):]
            run("bash", "-c", line.replace("python3", shlex.quote(sys.executable), 1))
            check(f"{what}, by the line that is printed", name, f"{here}.safetensors", model)
            os.remove(f"{here}.safetensors")
    with open(f"{folder}/pointer.safetensors", "w") as file:
        file.write(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 437955512\n")
    report("a pointer of git-lfs", "it is a pointer of git-lfs to a file of 437955512 bytes" in refusal(f"{folder}/pointer.safetensors"))


SENTENCES = ["The quick brown fox jumps over the lazy dog.", "Pack my box with five dozen liquor jugs!", "Größe, naïve café, élève; Ångström", "中文字 and 日本語, 한국어", "don't can't we'll I'm they've",
             "3.14159 and 2,718 and ½", "a  b\tc", " leading and trailing ", "[MASK] and [CLS] inside", "<|endoftext|>between<|endoftext|>", "snake_case camelCase ALLCAPS", "🙂👩‍👩‍👧 emoji",
             "x" * 99 + " " + "y" * 101, "http://example.org/a?b=c&d=e#f", "", "...!?---", "e\u0301 combining \u0301\u0323", "ﬁ ligature ﬀ ㎏"]


def texts():
    draw = random.Random(3)
    words = " ".join(SENTENCES).split(" ")
    return SENTENCES + [" ".join(draw.choice(words) for _ in range(draw.randint(1, 30))) for _ in range(300)] + ["".join(draw.choice("abcxyz") for _ in range(20000))]


def vocabularies(build, folder):
    from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer, Tokenizer
    from transformers import BertTokenizerFast, GPT2TokenizerFast

    every = [t for t in texts() if "\n" not in t and "\r" not in t]

    def check(what, vocabulary, encode, *options):
        try:
            out = run(f"{build}/gemel", "tokenize", "--vocab", vocabulary, *options, input="".join(t + "\n" for t in every), encoding="utf-8").stdout.split("\n")[:-1]
        except RuntimeError as error:
            return report(what, False, str(error)[-500:])
        wrong = [t for t, line in zip(every, out) if [int(n) for n in line.split()] != encode(t)]
        report(what, len(out) == len(every) and not wrong, f"{len(out)} texts" + (f", other numbers for {wrong[0][:60]!r}" if wrong else ""))

    def refused(path):
        return subprocess.run([f"{build}/gemel", "tokenize", "--vocab", path], input="", capture_output=True, text=True).stderr.strip()

    corpus = every * 3
    for lower in (True, False):
        name, options = ("uncased", []) if lower else ("cased", ["--cased"])
        trained = BertWordPieceTokenizer(lowercase=lower)
        trained.train_from_iterator(corpus, vocab_size=600, show_progress=False)
        here = f"{folder}/{name}"
        os.makedirs(here)
        trained.save_model(here)
        trained = BertWordPieceTokenizer(f"{here}/vocab.txt", lowercase=lower)
        check(f"WordPiece, {name}, vocab.txt", f"{here}/vocab.txt", lambda t: trained.encode(t).ids, *options)
        trained.save(f"{folder}/{name}.json")
        check(f"WordPiece, {name}, tokenizer.json", f"{folder}/{name}.json", lambda t: trained.encode(t).ids)
        lines = open(f"{here}/vocab.txt", encoding="utf-8").read().split("\n")
        for what, content in (("repeated tokens", lines[:-1] + lines[200:300]), ("blank and white lines", lines[:100] + ["", "\u2028", " "] + lines[100:-1])):
            with open(f"{folder}/other.txt", "w", encoding="utf-8") as file:
                file.write("\n".join(content) + "\n")
            other = BertWordPieceTokenizer(f"{folder}/other.txt", lowercase=lower)
            check(f"WordPiece, {name}, {what}", f"{folder}/other.txt", lambda t: other.encode(t).ids, *options)
        for what, before, end in (("a byte-order mark", "\ufeff", "\n"), ("ends of lines of Windows", "", "\r\n"), ("ends of lines of old Macs", "", "\r")):
            with open(f"{folder}/other.txt", "w", encoding="utf-8", newline="") as file:
                file.write(before + end.join(lines))
            check(f"WordPiece, {name}, {what}", f"{folder}/other.txt", lambda t: trained.encode(t).ids, *options)
        saved = BertTokenizerFast(tokenizer_object=Tokenizer.from_file(f"{folder}/{name}.json"), do_lower_case=lower)
        saved.save_pretrained(f"{folder}/{name}-saved")
        saved = BertTokenizerFast.from_pretrained(f"{folder}/{name}-saved")
        check(f"WordPiece, {name}, save_pretrained", f"{folder}/{name}-saved", lambda t: saved(t)["input_ids"])

    pairs = ByteLevelBPETokenizer()
    pairs.train_from_iterator(corpus, vocab_size=800, special_tokens=["<|endoftext|>"], show_progress=False)
    os.makedirs(f"{folder}/pairs")
    pairs.save_model(f"{folder}/pairs")
    pairs.save(f"{folder}/pairs.json")
    check("byte pairs, vocab.json and merges.txt", f"{folder}/pairs", lambda t: pairs.encode(t).ids)
    check("byte pairs, tokenizer.json", f"{folder}/pairs.json", lambda t: pairs.encode(t).ids)
    saved = GPT2TokenizerFast(tokenizer_object=Tokenizer.from_file(f"{folder}/pairs.json"))
    saved.save_pretrained(f"{folder}/pairs-saved")
    saved = GPT2TokenizerFast.from_pretrained(f"{folder}/pairs-saved")
    check("byte pairs, save_pretrained", f"{folder}/pairs-saved", lambda t: saved(t)["input_ids"])
    others(folder, corpus, refused)


def others(folder, corpus, refused):
    """What is neither is said in one line."""
    from tokenizers import SentencePieceBPETokenizer, SentencePieceUnigramTokenizer, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    unigram, metaspace = SentencePieceUnigramTokenizer(), SentencePieceBPETokenizer()
    unigram.train_from_iterator(corpus, vocab_size=300, show_progress=False)
    metaspace.train_from_iterator(corpus, vocab_size=300, show_progress=False)
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, "[UNK]"))
    roberta = Tokenizer(models.BPE())
    roberta.pre_tokenizer, roberta.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    roberta.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=500, special_tokens=["<s>", "</s>"], show_progress=False))
    roberta.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    for what, made, says in (("Unigram", unigram, "it describes Unigram"), ("WordLevel", words, "it describes WordLevel"), ("sentencepiece's pairs", metaspace, "its normalizer is"),
                             ("RoBERTa's", roberta, 'its post_processor is "RobertaProcessing"')):
        made.save(f"{folder}/other.json")
        said = refused(f"{folder}/other.json")
        report(f"tokenizer.json, {what}", says in said and "\n" not in said, said.replace(folder, "FOLDER"))


def sounds(build, folder):
    import numpy as np
    import scipy.io.wavfile
    import soundfile
    import torch
    import torchaudio

    rate = 16000
    draw = np.random.default_rng(1)
    tone = 0.4 * np.sin(2 * np.pi * 440 * np.arange(4801) / rate) + 0.1 * draw.standard_normal(4801)
    mel = torchaudio.transforms.MelSpectrogram(sample_rate=rate, n_fft=400, hop_length=160, n_mels=80)

    def ours(path):
        run(f"{build}/gemel_sound", path, f"{folder}/y.npy", f"{folder}/mel.npy")
        return np.load(f"{folder}/y.npy"), np.load(f"{folder}/mel.npy")

    def check(what, path, expected=None):
        """@param expected  samples [N] or [N, channels]; soundfile's where there are none"""
        if expected is None:
            expected, _ = soundfile.read(path, dtype="float32")
        one = expected if expected.ndim == 1 else expected.mean(1, dtype=np.float32)
        try:
            samples, features = ours(path)
        except RuntimeError as error:
            return report(what, False, str(error))
        within(what, samples, one, 0 if expected.ndim == 1 else 1e-6)
        theirs = np.log(np.maximum(mel(torch.from_numpy(one.copy())).numpy().T, 1e-10))
        within(f"{what}, log-mel", features, theirs, 1e-3)

    for subtype, form, channels in itertools.product(("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"), ("WAV", "WAVEX", "RF64"), (1, 2, 3)):
        path = f"{folder}/a.wav"
        soundfile.write(path, np.stack([tone * (1 - 0.2 * c) for c in range(channels)], 1).squeeze(), rate, subtype=subtype, format=form)
        check(f"soundfile, {form} of {subtype}, {channels} channel{'s' if channels > 1 else ''}", path)
    for dtype in ("uint8", "int16", "int32", "float32", "float64"):
        numbers = tone.astype(dtype) if dtype.startswith("f") else (tone * 100 + 128).astype(dtype) if dtype == "uint8" else (tone * np.iinfo(dtype).max).astype(dtype)
        scipy.io.wavfile.write(f"{folder}/a.wav", rate, numbers)
        check(f"scipy, {dtype}", f"{folder}/a.wav")
    torchaudio.save(f"{folder}/a.wav", torch.from_numpy(tone).float()[None], rate)
    check("torchaudio", f"{folder}/a.wav", torchaudio.load(f"{folder}/a.wav")[0][0].numpy())
    torchaudio.save(f"{folder}/a.wav", torch.from_numpy(np.stack([tone, -0.5 * tone])).float(), rate)
    check("torchaudio, 2 channels", f"{folder}/a.wav", torchaudio.load(f"{folder}/a.wav")[0].numpy().T)
    with wave.open(f"{folder}/a.wav", "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((tone * 32767).astype("<i2").tobytes())
    check("Python's wave", f"{folder}/a.wav")
    soundfile.write(f"{folder}/source.wav", tone, rate, subtype="PCM_16")
    source, _ = soundfile.read(f"{folder}/source.wav", dtype="float32")
    for program, command in (("ffmpeg", f"ffmpeg -v error -i source.wav -f wav - | cat > a.wav"), ("ffmpeg", "ffmpeg -v error -i source.wav -c:a pcm_f32le -f wav - | cat > a.wav"),
                             ("ffmpeg", "ffmpeg -v error -i source.wav -rf64 always -f wav - | cat > a.wav"), ("ffmpeg", "ffmpeg -v error -i source.wav -rf64 always -f wav -y a.wav"),
                             ("sox", "sox source.wav -t wav - | cat > a.wav"), ("sox", "sox source.wav -t wav - speed 1 | cat > a.wav"), ("sox", "cat source.wav | sox -t wav - -b 24 -t wav - | cat > a.wav")):
        if not shutil.which(program):
            print(f"skip  {command}: {program} is not installed")
            continue
        run("bash", "-c", command, cwd=folder)
        check(command, f"{folder}/a.wav", source)
    if not shutil.which("espeak-ng"):
        return print("skip  espeak-ng is not installed")
    run("bash", "-c", "espeak-ng --stdout 'three one four' | cat > a.wav && espeak-ng -w whole.wav 'three one four'", cwd=folder)
    check("espeak-ng --stdout", f"{folder}/a.wav", soundfile.read(f"{folder}/whole.wav", dtype="float32")[0])


CHECKS = {"weights": weights, "vocabularies": vocabularies, "sounds": sounds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", default=",".join(CHECKS))
    parser.add_argument("--install", metavar="FOLDER")
    options = parser.parse_args()
    if unknown := set(options.only.split(",")) - set(CHECKS):
        parser.error(f"--only: {', '.join(unknown)}; accepted: some of {', '.join(CHECKS)}")
    if options.install:
        try:
            install(options.install)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"files: --install {options.install}: {error}; accepted: a folder that can be written, and a way to a package registry")
    try:
        import safetensors
        import soundfile
        import tokenizers
        import torch
        import torchaudio
        import transformers
    except ImportError as missing:
        sys.exit(f"files: {missing}; --install FOLDER puts the packages there, or run it with a Python that has {', '.join(PACKAGES)}")
    print(", ".join(f"{m.__name__} {m.__version__}" for m in (torch, torchaudio, transformers, tokenizers, safetensors, soundfile)))
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            CHECKS[name](os.path.abspath(options.build), folder)
    print(f"{len(failed)} failed" if failed else "all checks hold")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
