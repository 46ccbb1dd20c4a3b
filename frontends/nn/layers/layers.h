// Layers with parameters. Names, state and defaults are PyTorch's. Images are [N, H, W, C].
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

enum class Bias { no, yes };

/// y = x W + b. @param x [..., in]; weight [in, out] in memory, [out, in] in files
class Linear : public Module {
 public:
  Linear(std::int64_t in, std::int64_t out, Bias bias = Bias::yes);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Null without bias.
  Parameter* bias() { return bias_; }

 protected:
  Value forward(Value x) override;

 private:
  void check(const Value& x) const;
  Parameter& weight_;
  Parameter* bias_ = nullptr;
};

struct ConvolutionOptions {
  Pair kernel{3, 3};
  Convolution geometry = {};  // stride, padding, dilation, groups
  Bias bias = Bias::yes;
};
/// A square kernel with equal steps both ways.
ConvolutionOptions square_kernel(std::int64_t kernel, std::int64_t stride = 1, std::int64_t padding = 0, Bias bias = Bias::yes, std::int64_t groups = 1);

/// Cross-correlation; weight [R, S, C / groups, K] in memory, [K, C / groups, R, S] in files.
class Conv2d : public Module {
 public:
  /// @throws ShapeError for groups that do not divide both channel counts
  Conv2d(std::int64_t in, std::int64_t out, const ConvolutionOptions& options);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Null without bias.
  Parameter* bias() { return bias_; }

 protected:
  Value forward(Value x) override;

 private:
  ConvolutionOptions options_;
  Parameter& weight_;
  Parameter* bias_ = nullptr;
};

struct Convolution1dOptions {
  std::int64_t kernel = 3;
  Convolution1d geometry = {};  // stride, padding, dilation, groups
  Bias bias = Bias::yes;
};

/// Cross-correlation along time, of x [N, T, C]; weight [R, C / groups, K] in memory, [K, C / groups, R] in files.
class Conv1d : public Module {
 public:
  /// @throws ShapeError for groups that do not divide both channel counts
  Conv1d(std::int64_t in, std::int64_t out, const Convolution1dOptions& options);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Null without bias.
  Parameter* bias() { return bias_; }

 protected:
  Value forward(Value x) override;

 private:
  Convolution1dOptions options_;
  Parameter& weight_;
  Parameter* bias_ = nullptr;
};

struct BatchNormOptions {
  double eps = 1e-5, momentum = 0.1;
};

/// Training: by the batch's statistics, or with `synchronise_norm` those of all its parts, which move the running ones, and one more in
/// `num_batches_tracked`.
/// Evaluation, or frozen (its parameters, or normalisation as a whole): by the running statistics, unchanged.
class BatchNorm2d : public Module {
 public:
  explicit BatchNorm2d(std::int64_t features, const BatchNormOptions& options = {});
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  Parameter& bias() { return bias_; }

 protected:
  Value forward(Value x) override;

 private:
  BatchNormOptions options_;
  Parameter &weight_, &bias_;
  Buffer &running_mean_, &running_var_, &num_batches_tracked_;
};
/// Whether a module has layers that are normalised by their batch.
bool has_batch_statistics(Module& module);

/// Over the last axis, of extent `features`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(std::int64_t features, double eps = 1e-5);
  std::string describe() const override;

 protected:
  Value forward(Value x) override;

 private:
  double eps_;
  Parameter &weight_, &bias_;
};

/// Rows of weight [num_embeddings, embedding_dim] by int32 or int64 indices [...]: [..., embedding_dim].
class Embedding : public Module {
 public:
  /// @param padding_idx  its row starts at zero and gets no gradient here; -num_embeddings..num_embeddings-1
  /// @param gradient     rows: of the looked up ones alone, and optimizers move no others (PyTorch's sparse=True)
  /// @throws UsageError for padding_idx out of range
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::optional<std::int64_t> padding_idx = {}, GradientForm gradient = GradientForm::dense);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Rows start with this deviation, of 1 otherwise; that of padding at zero.
  void start_normal(double deviation);

 protected:
  Value forward(Value indices) override;

 private:
  std::optional<std::int64_t> padding_idx_;  // 0..num_embeddings-1
  Parameter& weight_;
};

/// From now on the gradients of a module's embeddings are rows, but for those that are tied to others; to be called before it has memory.
/// @return whether there are such
bool embed_by_rows(Module& module);

/// The head of a language model: y = x W^T + b, where W is an embedding's table itself. Saved under both names, as a Linear's weight lies
/// in files. @param x  [..., embedding_dim]; y [..., num_embeddings]
class TiedLinear : public Module {
 public:
  /// @param table  must outlive the module's use
  explicit TiedLinear(Embedding& table, Bias bias = Bias::yes);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Null without bias.
  Parameter* bias() { return bias_; }

 protected:
  Value forward(Value x) override;

 private:
  Parameter& weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace gemel::nn
