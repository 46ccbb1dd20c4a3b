// Layers with parameters. Names, state and defaults are PyTorch's. Images are [N, H, W, C].
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

enum class Bias { no, yes };

/// y = x W + b.
/// @param x  [..., in]; the weight is [in, out] in memory, [out, in] in files
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
/// Returns options of a square kernel with equal strides and paddings.
ConvolutionOptions square_kernel(std::int64_t kernel, std::int64_t stride = 1, std::int64_t padding = 0, Bias bias = Bias::yes, std::int64_t groups = 1);

/// Cross-correlation. The weight is [R, S, C / groups, K] in memory, [K, C / groups, R, S] in files.
class Conv2d : public Module {
 public:
  /// @throws ShapeError if groups do not divide both numbers of channels
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

/// Cross-correlation along time of x [N, T, C]. The weight is [R, C / groups, K] in memory, [K, C / groups, R] in files.
class Conv1d : public Module {
 public:
  /// @throws ShapeError if groups do not divide both numbers of channels
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

/// Batch normalisation. In training it normalises by the batch's statistics, or with `synchronise_norm` by those of all its parts, which update the running
/// statistics, and counts the batch in `num_batches_tracked`. In evaluation, or when frozen (its parameters, or normalisation as a whole), it uses the running
/// statistics and does not change them.
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

/// Layer normalisation over the last axis, of extent `features`.
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

/// Looks up rows of the weight [num_embeddings, embedding_dim] by int32 or int64 indices [...]; returns [..., embedding_dim].
class Embedding : public Module {
 public:
  /// @param padding_idx  row that is initially zero and gets no gradient here; -num_embeddings..num_embeddings-1
  /// @param gradient     rows: the gradient has only the rows looked up, and optimizers update no others (PyTorch's sparse=True)
  /// @throws UsageError if padding_idx is out of range
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::optional<std::int64_t> padding_idx = {}, GradientForm gradient = GradientForm::dense);
  std::string describe() const override;
  Parameter& weight() { return weight_; }
  /// Sets the deviation of initial rows, which is 1 by default; the padding row starts at zero.
  void start_normal(double deviation);

 protected:
  Value forward(Value indices) override;

 private:
  std::optional<std::int64_t> padding_idx_;  // 0..num_embeddings-1
  Parameter& weight_;
};

/// Makes the gradients of a module's embeddings row gradients, except of embeddings tied to other parameters. Call before the module is materialised.
/// @return true if there are such embeddings
bool embed_by_rows(Module& module);

/// Output layer of a language model: y = x W^T + b, where W is an embedding's table. It is saved under both names, in the layout of a Linear's weight.
/// @param x  [..., embedding_dim]; y is [..., num_embeddings]
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
