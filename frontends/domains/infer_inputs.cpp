#include "frontends/domains/infer_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "datasets/formats/npy.h"
#include "datasets/speech/speech_dataset.h"
#include "datasets/texts/text_dataset.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/ops/ops.h"

namespace gemel::domains {
namespace {

[[noreturn]] void refuse(const datasets::NpyFile& file, const char* accepted) {
  throw DataError(fmt::format("infer: {} holds {} {}; accepted: {}", file.path().string(), to_string(file.type()), to_string(file.shape()), accepted));
}

/// The rows begin..begin+count of a file, as they lie there.
Value rows_of(Session& session, const datasets::NpyFile& file, std::int64_t begin, std::int64_t count, DType dtype) {
  Shape shape = file.shape();
  const std::int64_t row = Spec{shape, dtype}.bytes() / std::max<std::int64_t>(shape[0], 1);
  shape[0] = count;
  std::vector<std::byte> bytes(at(count * row));
  file.read(begin * row, bytes);
  file.check_unchanged();
  return session.tensor({shape, dtype}, bytes);
}

/// [N, C, H, W] in the file, [N, H, W, C] on the device.
class Pictures : public InferInputs {
 public:
  explicit Pictures(const std::filesystem::path& npy) : file_(npy) {
    if (file_.type() != datasets::NpyType::float32 || file_.shape().rank() != 4) refuse(file_, "float32 [N, C, H, W]");
  }
  std::int64_t channels() const { return file_.shape()[1]; }
  std::int64_t count() const override { return file_.shape()[0]; }
  Values batch(Session& session, std::int64_t begin, std::int64_t count) const override {
    return {transpose(rows_of(session, file_, begin, count, DType::float32), {0, 2, 3, 1})};
  }

 private:
  datasets::NpyFile file_;
};

class Tokens : public InferInputs {
 public:
  Tokens(const std::filesystem::path& npy, std::int64_t vocabulary, std::int64_t longest) : file_(npy) {
    if (file_.type() != datasets::NpyType::int64 || file_.shape().rank() != 2) refuse(file_, "int64 [N, T]");
    const std::int64_t length = file_.shape()[1];
    if (length < 1 || (longest > 0 && length > longest))
      refuse(file_, (longest > 0 ? fmt::format("1 to {} tokens a row", longest) : "1 token a row or more").c_str());
    std::vector<std::int64_t> ids(at(length));
    for (std::int64_t row = 0; row < count(); ++row) {
      const auto bytes = std::as_writable_bytes(std::span(ids));
      file_.read(row * std::ssize(bytes), bytes);
      const auto wrong = std::ranges::find_if(ids, [&](std::int64_t id) { return id < 0 || id >= vocabulary; });
      if (wrong != ids.end())
        throw DataError(
            fmt::format("infer: {}: row {} has the token {} at {}; accepted: 0..{}", file_.path().string(), row, *wrong, wrong - ids.begin(), vocabulary - 1));
    }
  }
  std::int64_t count() const override { return file_.shape()[0]; }
  Values batch(Session& session, std::int64_t begin, std::int64_t count) const override {
    return {rows_of(session, file_, begin, count, DType::int64), full(session, i64({count, file_.shape()[1]}), 0)};
  }

 private:
  datasets::NpyFile file_;
};

/// Samples of a data set, without what is to be told of them.
class GivenSamples : public InferInputs {
 public:
  GivenSamples(std::unique_ptr<datasets::Dataset> samples, std::string labels) : samples_(std::move(samples)), labels_(std::move(labels)) {}
  std::int64_t count() const override { return samples_->size(); }
  Values batch(Session& session, std::int64_t begin, std::int64_t count) const override {
    std::vector<std::int64_t> numbers(at(count));
    std::iota(numbers.begin(), numbers.end(), begin);
    Values out;
    for (const datasets::HostTensor& t : samples_->tensors(numbers))
      if (t.name != labels_) out.push_back(session.tensor(t.spec, *t.bytes));
    return out;
  }

 private:
  std::unique_ptr<datasets::Dataset> samples_;
  std::string labels_;  // a tensor of theirs
};

}  // namespace

std::unique_ptr<InferInputs> pictures_of(const std::filesystem::path& npy, std::int64_t& channels) {
  auto out = std::make_unique<Pictures>(npy);
  channels = out->channels();
  return out;
}

std::unique_ptr<InferInputs> tokens_of(const std::filesystem::path& npy, std::int64_t vocabulary, std::int64_t longest) {
  return std::make_unique<Tokens>(npy, vocabulary, longest);
}

std::unique_ptr<InferInputs> tokens_of(const std::vector<std::string>& texts, std::int64_t padding,
                                       const std::function<datasets::Tokens(const std::string&)>& tokens) {
  auto out = std::make_unique<datasets::Texts>(datasets::TextsOptions{.name = "given", .padding = padding, .lengths = datasets::RowLengths::of_batch});
  for (const std::string& text : texts) out->add(tokens(text), 0);
  return std::make_unique<GivenSamples>(std::move(out), "labels");
}

std::unique_ptr<InferInputs> sounds_of(const std::vector<std::string>& wavs, const datasets::LogMelOptions& features) {
  return std::make_unique<GivenSamples>(datasets::open_sounds(wavs, features), "transcripts");
}

}  // namespace gemel::domains
