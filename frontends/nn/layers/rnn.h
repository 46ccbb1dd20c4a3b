// Recurrent layers. Names, state and defaults are PyTorch's, batch first.
// Legend: N sequences of T steps, I input size, H hidden size, D directions, L layers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/ops/ops.h"
#include "frontends/nn/module.h"

namespace gemel::nn {

enum class Bidirectional { no, yes };

struct RecurrentOptions {
  std::int64_t layers = 1;
  Bidirectional bidirectional = Bidirectional::no;  // yes: every layer has a second set of parameters, which reads each sequence from its end
  double dropout = 0;                               // share of each layer's output that is zeroed in training, except the last layer's
};

/// Base of LSTM and GRU. Inputs: x [N, T, I]; lengths int64 [N], 0..T, as of PyTorch's packed sequences (empty: all T); initial states [L D, N, H] (empty:
/// zeros). Returns the last layer's output [N, T, H D], zeros after each sequence's end, with the forward direction first in the last axis; and the states
/// after each sequence's last step, [L D, N, H], by layer, the forward direction first.
class Recurrent : public Module {
 public:
  std::string describe() const override;

 protected:
  struct Sizes {
    std::int64_t input, hidden, gates;
  };
  /// The parameters of one layer in one direction.
  struct Cell {
    Parameter &weight_ih, &weight_hh, &bias_ih, &bias_hh;  // weights [I, G H] and [H, G H] in memory, transposed in files
  };
  /// @param states  number of states: 1 or 2
  /// @throws UsageError for sizes that are not 1 or more, or a rate outside 0..1
  Recurrent(const char* kind, const Sizes& sizes, std::size_t states, const RecurrentOptions& options);
  Values forward_values(Values in) override;
  /// Runs one layer in one direction; returns its output and last states.
  /// @param in  x [N, T, I]  @param start  [N, H] for each state, or empty
  virtual Values run(Sequences in, const Cell& cell, Values start) const = 0;

 private:
  void check(const Values& in) const;
  std::int64_t directions() const { return options_.bidirectional == Bidirectional::yes ? 2 : 1; }

  const char* kind_;
  Sizes sizes_;
  std::size_t states_;
  RecurrentOptions options_;
  std::vector<Cell> cells_;  // [L D]
};

/// fused: by kernels of whole sequences; steps: step after step in public operators.
enum class LstmComputation { fused, steps };

/// Long short-term memory. Inputs: x, lengths, h0, c0; gives output, h_n, c_n. The formulas stand at gemel::lstm.
class LSTM : public Recurrent {
 public:
  LSTM(std::int64_t input, std::int64_t hidden, const RecurrentOptions& options = {}, LstmComputation computation = LstmComputation::fused);

 protected:
  Values run(Sequences in, const Cell& cell, Values start) const override;

 private:
  LstmComputation computation_;
};

/// Gated recurrent unit. Inputs: x, lengths, h0. Returns output, h_n. Formulas: gemel::gru.
class GRU : public Recurrent {
 public:
  GRU(std::int64_t input, std::int64_t hidden, const RecurrentOptions& options = {});

 protected:
  Values run(Sequences in, const Cell& cell, Values start) const override;
};

}  // namespace gemel::nn
