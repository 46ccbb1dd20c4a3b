#include "tests/support/faults/fuzz_targets.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "datasets/formats/npy.h"
#include "datasets/formats/tar.h"
#include "datasets/formats/wav.h"
#include "datasets/pictures/cifar10.h"
#include "datasets/ratings/ratings_dataset.h"
#include "datasets/texts/byte_pair_encoding.h"
#include "datasets/texts/glue.h"
#include "datasets/texts/open_tokenizer.h"
#include "datasets/texts/translation_dataset.h"
#include "datasets/texts/wordpiece.h"
#include "engine/base/error.h"
#include "engine/base/files/descriptor.h"
#include "engine/core/session.h"
#include "engine/files/foreign_formats.h"
#include "engine/files/safetensors.h"
#include "engine/files/weights.h"
#include "engine/ops/ops.h"
#include "frontends/cli/options/train_options.h"
#include "frontends/cli/run/chrome_trace.h"
#include "frontends/distributed/pipeline/state_message.h"
#include "frontends/graph/graph.h"
#include "frontends/models/texts/bert.h"
#include "frontends/monitor/run_file.h"
#include "frontends/nn/layers/layers.h"
#include "frontends/nn/state/state_dict.h"
#include "frontends/optim/optimizer.h"
#include "frontends/train/checkpoint/checkpoint.h"
#include "frontends/train/checkpoint/metadata.h"
#include "opencl/pocl/kernel_folder.h"
#include "opencl/program/tuning_table.h"
#include "parallel/all_reduce_algorithm.h"
#include "parallel/ddp/sparse_all_reduce.h"
#include "parallel/horovod/request.h"
#include "parallel/watch/addresses.h"
#include "parallel/watch/messages.h"
#include "tests/support/datasets/speech_folder.h"
#include "tests/support/formats/graph_file_text.h"
#include "tests/support/formats/raw_safetensors.h"
#include "tests/support/formats/tar_archive.h"
#include "tests/support/formats/tokenizer_files.h"
#include "tests/support/temporary_folder.h"

namespace gemel::testing {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kInflated = 1 << 20;  // most of an archive

/// A folder for the files that readers are given; left behind by a process that dies, with what killed it.
const TemporaryFolder& folder() {
  static const TemporaryFolder made;
  return made;
}
fs::path file(const char* name) { return folder() / name; }
fs::path written(const char* name, std::string_view text) {
  write_text(file(name), text);
  return file(name);
}
std::string text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

const std::shared_ptr<Session>& reference() {
  static const std::shared_ptr<Session> made = Session::reference();
  return made;
}

const char* const kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfilm\n##s\nis\ngood\nbad\n.\n\xC3\xA9\n";
const datasets::WordPiece& word_piece() {
  static const datasets::WordPiece made(written("tokens.txt", kVocabulary));
  return made;
}

FuzzTarget safetensors() {
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<NamedTensor> tensors{{"a.weight", f32({2, 2}), std::as_bytes(std::span(values))}, {"b", f32({0, 3}), {}}};
  write_safetensors(file("good.safetensors"), tensors, {{"format", "pt"}, {"n", "3"}});
  return {{read_text(file("good.safetensors"))}, [](std::string_view text) {
            const SafetensorsFile read(written("a.safetensors", text));
            checksum_of(read.tensors(), read.metadata());
          }};
}

FuzzTarget weights() {
  const std::string content = raw_safetensors({{"module.weight", "F64", {1, 2}, raw_bytes(std::vector<double>{1, 2})}, {"module.bias", "F32", {1}, "abcd"}});
  return {{content}, [](std::string_view text) {
            written("a.weights", text);
            nn::Linear layer(2, 1);
            nn::load_weights(layer, *reference(), file("a.weights"));
          }};
}

FuzzTarget shards() {
  write_text(file("shard-1"), raw_safetensors({{"a", "F32", {1}, "abcd"}}));
  write_text(file("shard-2"), raw_safetensors({{"b", "U8", {1}, "a"}, {"c", "F32", {0}, ""}}));
  return {{R"({"metadata": {"total_size": 5}, "weight_map": {"a": "shard-1", "b": "shard-2", "c": "shard-2"}})"},
          [](std::string_view text) { const WeightsFile read(written("index.json", text)); }};
}

/// Files that are no safetensors files, told by their first bytes.
FuzzTarget other_formats() {
  const std::string zip = std::string("PK\3\4\0\0\x08\x08", 8) + std::string(18, '\0') + std::string("\x16\0\0\0pytorch_model/data.pkl", 26);
  return {{zip, "version https://git-lfs.github.com/spec/v1\noid sha256:6a\nsize 77\n", "\x80\x02}q\0X", "\x89HDF\r\n\x1a\n"}, [](std::string_view text) {
            written("a.bin", text);
            if (!known_otherwise(SteadyFile(file("a.bin")))) throw DataError("nothing is known of it");
          }};
}

FuzzTarget checkpoint() {
  const std::vector<float> values{1, 2, 3, 4};
  const std::vector<NamedTensor> tensors{{"model.weight", f32({2, 2}), std::as_bytes(std::span(values))}};
  FileMetadata metadata = train::metadata_of(
      {.run = 1, .step = 5, .epoch = 2, .batch = 3, .sums = {.samples = 12, .loss = 0.1, .weight = 12, .counts = {7}}, .optimizer_steps = 5});
  metadata["checksum"] = checksum_of(tensors, metadata);
  write_safetensors(file("checkpoint-good.safetensors"), tensors, metadata);
  const std::string good = read_text(file("checkpoint-good.safetensors"));
  fs::remove(file("checkpoint-good.safetensors"));
  fs::create_directory(file("log"));
  return {{good}, [](std::string_view text) {
            const fs::path path = file("log") / "checkpoint-5.safetensors";
            write_text(path, text);
            train::newest_checkpoint(file("log"), [](const std::string&) {});
            train::numbers_in(SafetensorsHeader(path));
          }};
}

FuzzTarget graph_file() {
  Session* const session = reference().get();
  graph::Graph graph(*session, "fuzzed");
  {
    const auto building = graph.as_default();
    const Value x = graph.placeholder(f32({2, 2}), "x"), w = graph.variable(session->tensor(f32({2, 2}), std::vector<double>{0.5, -1, 2, 0.25}), "w");
    graph.named(sum(tanh(matmul(x, w)), {-1}), "y");
    const auto momentum = optim::make("momentum", {{{{"w", w}}}});
    graph.minimize(sum(square(matmul(x, w))), *momentum, "train");
  }
  graph.save(file("graph.json"));
  return {{read_text(file("graph.json"))}, [](std::string_view text) {
            std::string changed(text);
            sign(changed);
            graph::Graph::load(*reference(), written("graph.json", changed));
          }};
}

FuzzTarget npy() {
  const std::vector<float> values(6);
  datasets::write_npy(file("good.npy"), f32({3, 2}), std::as_bytes(std::span(values)));
  return {{read_text(file("good.npy"))}, [](std::string_view text) { const datasets::NpyFile read(written("fuzzed.npy", text)); }};
}

void read_archive(const fs::path& path) {
  datasets::TarReader archive(path, kInflated);
  while (const auto member = archive.next()) {
    std::vector<std::byte> content(member->is_file ? static_cast<std::size_t>(member->bytes) : 0);
    if (member->is_file) archive.read(content);
  }
}

std::string small_tar() {
  return tar_member("folder/", "", '5') + tar_member("folder/a.bin", "0123456789") + tar_member("b", std::string(700, 'x')) + tar_end();
}

FuzzTarget gzip_file() {
  return {{gzip(small_tar()), gzip("")}, [](std::string_view text) { read_archive(written("a.tar.gz", text)); }};
}

FuzzTarget tar() {
  return {{small_tar()}, [](std::string_view text) { read_archive(written("a.tar", text)); }};
}

FuzzTarget cifar10() {
  const std::string archive = tar_member("cifar-10-batches-bin/data_batch_1.bin", std::string(3073, '\1')) + tar_end();
  return {{gzip(archive)}, [](std::string_view text) { datasets::open_cifar10(written("cifar.tar.gz", text), 0, datasets::Normalize::none); }};
}

FuzzTarget texts() {
  return {{"sentence\tlabel\nthe film is good .\t1\nbad\t0\n"}, [](std::string_view text) {
            written("train.tsv", text);
            written("dev.tsv", "sentence\tlabel\ngood\t1\n");
            datasets::open_glue("sst2", word_piece(), {.folder = folder().path(), .max_length = 16});
          }};
}

FuzzTarget ratings() {
  return {{"anna\tw1\t5\t10\nanna\tw2\t4\t11\nbert\tw2\t3\t5\nbert\tw3\t1\t6\n", "a\tx\nb\ty\na\tz\n"}, [](std::string_view text) {
            written("ratings.tsv", text);
            datasets::open_ratings(folder().path(), {});
          }};
}

FuzzTarget translations() {
  return {{"the film\tfilm is good\nbad\tgood\n"}, [](std::string_view text) {
            written("train.tsv", text);
            written("dev.tsv", "good\tbad\n");
            datasets::open_translations(word_piece(), {.folder = folder().path(), .max_length = 16});
          }};
}

FuzzTarget vocabulary() {
  return {{kVocabulary}, [](std::string_view text) { datasets::WordPiece(written("vocab.txt", text)).encode("The films is \xC3\xA9 [MASK]"); }};
}

const char* const kPairs = R"({"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "<|endoftext|>": 5})";
const char* const kMerges = "#version: 0.2\na b\nab c\n";
void encode_by_pairs() { datasets::BytePairs(file("vocab.json"), file("merges.txt")).encode("abc ab c"); }

/// Both kinds in turn, as what each says of itself leads.
FuzzTarget tokenizer() {
  const nlohmann::json tokens{{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3}, {"a", 4}};
  return {{word_piece_json(tokens, true).dump(),
           byte_pairs_json({{"a", 0}, {"b", 1}, {"ab", 2}}, nlohmann::json::array({nlohmann::json::array({"a", "b"})})).dump()},
          [](std::string_view text) { datasets::open_tokenizer(written("tokenizer.json", text))->encode("ab A [UNK]<|endoftext|>"); }};
}

FuzzTarget pairs() {
  return {{kPairs}, [](std::string_view text) {
            written("vocab.json", text);
            written("merges.txt", kMerges);
            encode_by_pairs();
          }};
}
FuzzTarget merges() {
  return {{kMerges}, [](std::string_view text) {
            written("vocab.json", kPairs);
            written("merges.txt", text);
            encode_by_pairs();
          }};
}

FuzzTarget wav() {
  const std::string piped = "RIFF" + low(0xFFFFFFFF, 4) + "WAVE" + format({.tag = 3, .bits = 64}) + "data" + low(0xFFFFFFFF, 4) + std::string(24, '\0');
  const std::string large =
      "RF64" + low(0xFFFFFFFF, 4) + "WAVE" + chunk("ds64", low(100, 8) + low(4, 8) + low(0, 8) + low(0, 4)) + format({}) + "data" + low(0xFFFFFFFF, 4) + "abcd";
  return {{wav_of({0, 1000, -1000, 32767}), piped, large}, [](std::string_view text) {
            datasets::parse_wav(bytes_of_text(text), "fuzzed.wav");
            datasets::count_samples(written("a.wav", text));
          }};
}

FuzzTarget configuration() {
  return {{R"({"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 100})"},
          [](std::string_view text) { models::bert_config(written("config.json", text).string()); }};
}

FuzzTarget tuning() {
  opencl::TuningTable table;
  table.set("matmul float32 [2, 3], float32 [3, 4]", "clblast");
  table.clblast["Xgemm"] = {{"KWG", 32}, {"MWG", 64}};
  return {{table.text()}, [](std::string_view text) { opencl::TuningTable::parse(std::string(text), "fuzzed.json"); }};
}

FuzzTarget watch_messages() {
  parallel::WatchMessage message;
  message.ranks = {0, 3};
  message.text = "lost";
  return {{parallel::watch_frame(message).substr(parallel::kWatchLengthBytes)}, [](std::string_view text) {
            if (!parallel::parse_watch_message(text)) throw CommError("no message");
          }};
}

FuzzTarget announcement() {
  return {{parallel::WatchAnnouncement{"0123abcd", {{"192.0.2.1", 4000}, {"2001:db8::1", 1}}}.text()},
          [](std::string_view text) { parallel::WatchAnnouncement::parse(std::string(text)); }};
}

FuzzTarget horovod_messages() {
  parallel::horovod::Message message;
  message.fresh.push_back({.name = "weight", .shape = {3, 4}, .group = "g", .members = 2});
  message.tuned = parallel::horovod::Tuned{1 << 20, 2.5};
  message.give_up = "why";
  return {{text_of(parallel::horovod::packed(message))}, [](std::string_view text) { parallel::horovod::unpacked(bytes_of_text(text)); }};
}

FuzzTarget rows() {
  constexpr std::int64_t kWidth = 2;
  return {{text_of(parallel::packed({.indices = {0, 7}, .values = {1, 2, 3, 4}})), text_of(parallel::packed({.all = true}))},
          [](std::string_view text) { parallel::unpacked_rows(bytes_of_text(text), kWidth); }};
}

FuzzTarget stage_state() {
  train::RanksState state;
  state.model.push_back({"a.weight", f32({2, 1}), std::vector<std::byte>(8)});
  state.slots.push_back({"a.weight.velocity", f32({2, 1}), std::vector<std::byte>(8)});
  state.parameter_steps["a.weight"] = 3;
  return {{text_of(distributed::packed(state))}, [](std::string_view text) { distributed::unpacked_state(bytes_of_text(text)); }};
}

FuzzTarget trace() {
  return {{cli::packed({{.name = "matmul", .rank = 1, .begin_ns = 5, .end_ns = 9, .flops = 3, .bytes = 4}})},
          [](std::string_view text) { cli::unpacked(text); }};
}

FuzzTarget run_record() {
  return {{"{\"event\":\"start\",\"model\":\"m\"}\n{\"event\":\"step\",\"step\":2,\"loss\":1e-3,\"ms\":4}\n{\"event\":\"usage\",\"rank\":1,\"seconds\":2.5}\n"},
          [](std::string_view text) {
            monitor::RunFile read;
            const Descriptor record = open_regular("monitor", written("run.jsonl", text), O_RDONLY);
            while (read.read_some(record.get(), 16)) continue;
            if (read.runs().empty()) throw DataError("no run");
          }};
}

/// An argument a line.
FuzzTarget options() {
  return {{"--model\nlenet\n--dataset\nsynthetic\n--batch-size\n32\n--epochs\n2",
           "--optimizer\nadamw\n--lr\n1e-3\n--lr-schedule\nlinear\n--warmup\n10\n--memory-limit\n8G",
           "--parallel\nddp\n--devices\n0.0,0.1\n--compression\ntopk:0.01\n--bucket-mb\n25"},
          [](std::string_view text) {
            std::vector<std::string> arguments;
            for (std::size_t begin = 0; begin <= text.size();) {
              const std::size_t end = std::min(text.find('\n', begin), text.size());
              arguments.emplace_back(text.substr(begin, end - begin));
              begin = end + 1;
            }
            cli::parse_train_options(arguments);
          }};
}

FuzzTarget limits() {
  return {{"halving 16384, tree 0, ring 1048576"}, [](std::string_view text) { parallel::parse_limits(text); }};
}

/// What a folder of compiled kernels says of its files.
FuzzTarget kernels() {
  {
    const opencl::KernelFolder made(file("kernels"));
    write_text(file("kernels") / "a.so", "compiled");
  }
  return {{read_text(file("kernels") / "manifest")}, [](std::string_view text) {
            const fs::path kernel = file("kernels") / "a.so";
            if (!fs::exists(kernel)) write_text(kernel, "compiled");
            write_text(file("kernels") / "manifest", text);
            const opencl::KernelFolder opened(file("kernels"));
            if (!fs::exists(kernel)) throw DataError("it is compiled again");
          }};
}

struct Entry {
  std::string_view name;
  FuzzTarget (*make)();
};
constexpr Entry kTargets[] = {
    {"safetensors", safetensors},
    {"weights", weights},
    {"shards", shards},
    {"other_formats", other_formats},
    {"checkpoint", checkpoint},
    {"graph", graph_file},
    {"npy", npy},
    {"gzip", gzip_file},
    {"tar", tar},
    {"cifar10", cifar10},
    {"tsv", texts},
    {"ratings", ratings},
    {"translations", translations},
    {"vocabulary", vocabulary},
    {"tokenizer", tokenizer},
    {"byte_pairs", pairs},
    {"merges", merges},
    {"wav", wav},
    {"configuration", configuration},
    {"tuning", tuning},
    {"kernels", kernels},
    {"watch", watch_messages},
    {"announcement", announcement},
    {"horovod", horovod_messages},
    {"rows", rows},
    {"stage_state", stage_state},
    {"trace", trace},
    {"limits", limits},
    {"run_record", run_record},
    {"options", options},
};
constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kTargets)> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = kTargets[i].name;
  return out;
}();

}  // namespace

std::span<const std::string_view> fuzz_target_names() { return kNames; }

FuzzTarget fuzz_target(std::string_view name) {
  for (const Entry& e : kTargets)
    if (e.name == name) return e.make();
  throw InternalError("no fuzz target is called " + std::string(name));
}

}  // namespace gemel::testing
