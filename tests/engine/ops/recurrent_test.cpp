// LSTM and GRU: PyTorch's numbers from its files in both front ends, sequences of different lengths, and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "engine/gradients/autograd.h"
#include "engine/ops/ops.h"
#include "frontends/graph/compile.h"
#include "frontends/nn/layers/rnn.h"
#include "frontends/nn/state/file_layout.h"
#include "frontends/nn/state/state_dict.h"
#include "tests/support/device/test_device.h"
#include "tests/support/message_of.h"
#include "tests/support/operators/expected_values.h"
#include "tests/support/operators/finite_differences.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::nn {
namespace {

using namespace gemel::testing;
using List = std::vector<double>;

struct RecurrentCase {
  std::string name;
  std::int64_t input, hidden;
  RecurrentOptions options = {};
  LstmComputation computation = LstmComputation::fused;
  bool is_lstm() const { return name.starts_with("lstm"); }
  std::unique_ptr<Recurrent> make() const {
    if (is_lstm()) return std::make_unique<LSTM>(input, hidden, options, computation);
    return std::make_unique<GRU>(input, hidden, options);
  }
};
/// Those of tests/data/recurrent/make.py.
std::vector<RecurrentCase> recurrent_cases() {
  const RecurrentOptions deep{.layers = 2, .bidirectional = Bidirectional::yes};
  std::vector<RecurrentCase> out;
  for (const std::string kind : {"lstm", "gru"}) {
    out.push_back({kind, 5, 6});
    out.push_back({kind + " of lengths", 4, 17});
    out.push_back({kind + " of layers", 3, 7, deep});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    out.push_back(out[i]);
    out.back().computation = LstmComputation::steps;
  }
  return out;
}

// Of PyTorch's numbers in double: up to nine steps, each with sums of some ten terms, in float32, whose last place is 6e-8; forth and back through
// all steps in a gradient. The reference session has only the rounding of the file.
constexpr double kForward = 2e-6, kBackward = 5e-6, kStored = 2e-7;

/// x, lengths and first states of a case; the layer's outputs, and the gradients of x, of the states and of all parameters.
class Layer {
 public:
  Layer(Session& session, const RecurrentCase& c) : session_(session), c_(c), layer_(c.make()) {
    std::vector<NamedTensor> state;
    layer_->visit([&](const std::string&, Module& m) {
      for (const auto& p : m.own_parameters()) state.push_back({p->name, expected_.named(name(p->name)).spec, expected_.named(name(p->name)).data});
    });
    EXPECT_TRUE(load_state_dict(*layer_, session, state).fresh.empty());
  }
  Values inputs() const {
    Values in{tensor("x"), tensor("lengths")};
    for (const char* start : {"h0", "c0"})
      if (expected_.has(name(start))) in.push_back(tensor(start));
    return in;
  }
  Values results(const Values& in) const {
    Values given = in, leaves;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (i != 1) leaves.push_back(given[i] = leaf(in[i]));
    for (const auto& p : layer_->own_parameters()) leaves.push_back(p->tensor());
    Values out = (*layer_)(given), arriving;
    for (const char* what : {"dy", "dh_n", "dc_n"})
      if (expected_.has(name(what))) arriving.push_back(tensor(what));
    for (Value& g : gradient(out, leaves, arriving)) out.push_back(std::move(g));
    return out;
  }
  void expect_pytorchs(const Values& got, double forward, double backward) const {
    std::size_t i = 0;
    for (const char* what : {"y", "h_n", "c_n"})
      if (expected_.has(name(what))) {
        EXPECT_LE(relative_error(read(got[i++]), expected_.numbers(name(what))), forward) << what;
      }
    for (const char* what : {"dx", "dh0", "dc0"})
      if (expected_.has(name(what))) {
        EXPECT_LE(relative_error(read(got[i++]), expected_.numbers(name(what))), backward) << what;
      }
    for (const auto& p : layer_->own_parameters()) {
      const List as_file = numbers_from_bytes(DType::float32, to_file_layout(p->spec, p->layout, read_bytes(got[i++])));
      EXPECT_LE(relative_error(as_file, expected_.numbers(name("d" + p->name))), backward) << p->name;
    }
    EXPECT_EQ(i, got.size());
  }

 private:
  std::string name(const std::string& what) const { return c_.name + "." + what; }
  Value tensor(const std::string& what) const { return expected_.tensor(session_, name(what)); }

  Session& session_;
  RecurrentCase c_;
  Expected expected_{"recurrent/expected.safetensors"};
  std::unique_ptr<Recurrent> layer_;
};

TEST(Recurrent, gives_pytorchs_outputs_and_gradients_from_its_weights) {
  const auto reference = Session::reference();
  Session narrow(shared_narrow_device(), 1);
  for (const RecurrentCase& c : recurrent_cases()) {
    SCOPED_TRACE(c.name + (c.computation == LstmComputation::steps ? " in steps" : ""));
    const Layer in_double(*reference, c), at_once(test_session(), c), in_narrow_vectors(narrow, c);
    in_double.expect_pytorchs(in_double.results(in_double.inputs()), kStored, kStored);
    at_once.expect_pytorchs(at_once.results(at_once.inputs()), kForward, kBackward);
    in_narrow_vectors.expect_pytorchs(in_narrow_vectors.results(in_narrow_vectors.inputs()), kForward, kBackward);
    graph::Compiled compiled = graph::compile(test_session(), [&](const Values& in) { return at_once.results(in); });
    at_once.expect_pytorchs(compiled(at_once.inputs()), kForward, kBackward);
  }
}

/// Outputs of a variant on a record's inputs.
std::vector<List> run_variant(const OpDef& op, const Variant& variant, const Values& in, const Attributes& attributes) {
  const Specs specs = specs_of(in), made = op.infer(specs, attributes);
  Values out;
  std::vector<opencl::Region> from, to;
  for (const Value& v : in) from.push_back(region_of(v));
  for (const Spec& spec : made) to.push_back(region_of(out.emplace_back(test_session().empty(spec))));
  launch(test_session(), variant, {op, attributes, specs, made}, from, to);
  std::vector<List> numbers;
  for (const Value& v : out) numbers.push_back(read(v));
  return numbers;
}

constexpr std::int64_t kSequences = 75, kSteps = 6, kHidden = 19;

/// Inputs of the records lstm and gru, more sequences than a work-item takes, of every length.
Values inputs_of(Session& session, const OpDef& op) {
  const bool is_lstm = &op == &lstm_def();
  const std::int64_t width = (is_lstm ? 4 : 3) * kHidden;
  const Spec bias = f32({width}), state = f32({kSequences, kHidden});
  Values in;
  for (const Spec& spec : {f32({kSequences, kSteps, width}), f32({kHidden, width}), bias, is_lstm ? state : bias, state})
    in.push_back(session.tensor(spec, std::span<const double>(noise(spec.elements(), static_cast<unsigned>(in.size()), 0.3))));
  List lengths;
  for (std::int64_t n = 0; n < kSequences; ++n) lengths.push_back(static_cast<double>(n * 5 % (kSteps + 1)));
  in.push_back(session.tensor(i64({kSequences}), std::span<const double>(lengths)));
  return in;
}

TEST(Recurrent, every_variant_reads_many_sequences_of_every_length) {
  if (!does_long_work()) GTEST_SKIP() << "on an emulator: with --full";
  const auto reference = Session::reference();
  for (const OpDef* op : {&lstm_def(), &gru_def()})
    for (const bool reverse : {false, true}) {
      const Attributes attributes{{"reverse", reverse}};
      const Values expected = apply(*reference, *op, inputs_of(*reference, *op), attributes);
      const Specs specs = specs_of(inputs_of(*reference, *op)), made = op->infer(specs, attributes);
      for (const Variant& variant : op->variants) {
        if (declines(variant, {*op, attributes, specs, made}, test_device().profile())) continue;
        const auto got = run_variant(*op, variant, inputs_of(test_session(), *op), attributes);
        for (std::size_t o = 0; o < got.size(); ++o)
          EXPECT_LE(relative_error(got[o], read(expected[o])), kForward) << op->name << ", " << variant.name << ", " << op->outputs[o];
      }
    }
}

TEST(Recurrent, a_sequence_gives_what_it_gives_alone_and_zeros_behind_its_end) {
  Session& session = test_session();
  for (const Reverse reverse : {Reverse::no, Reverse::yes}) {
    const Values in = inputs_of(session, gru_def());
    const GruResult all = gru({in[0], in[5], reverse}, {in[1], in[2], in[3]}, in[4]);
    const List y = read(all.y), h = read(all.h), lengths = read(in[5]);
    for (const std::int64_t n : {1, 3, 4, 7}) {
      const auto length = static_cast<std::int64_t>(lengths[at(n)]);
      const auto begin = y.begin() + n * kSteps * kHidden, end = begin + length * kHidden;
      EXPECT_TRUE(std::all_of(end, begin + kSteps * kHidden, [](double v) { return v == 0; })) << n;
      if (length == 0) {
        EXPECT_EQ(List(h.begin() + n * kHidden, h.begin() + (n + 1) * kHidden), read(slice(in[4], {n, 0}, {n + 1, kHidden})));
        continue;
      }
      const GruResult alone =
          gru({slice(in[0], {n, 0, 0}, {n + 1, length, 3 * kHidden}), {}, reverse}, {in[1], in[2], in[3]}, slice(in[4], {n, 0}, {n + 1, kHidden}));
      EXPECT_LE(relative_error(List(begin, end), read(alone.y)), kForward) << n;
      EXPECT_LE(relative_error(List(h.begin() + n * kHidden, h.begin() + (n + 1) * kHidden), read(alone.h)), kForward) << n;
    }
  }
}

TEST(Recurrent, a_length_out_of_range_is_told_by_the_next_read) {
  for (const double wrong : {-1.0, 7.0}) {
    const auto refusal = [&](Session& session) {
      return message_of<DataError>([&] {
        const Value x = full(session, f32({2, 6, 12}), 1), lengths = session.tensor(i64({2}), List{6, wrong});
        read(lstm({x, lengths}, full(session, f32({3, 12}), 1), full(session, f32({12}), 0)).y);
      });
    };
    const std::string told = fmt::format("length {} is out of range; accepted: 0..6", wrong);
    EXPECT_NE(refusal(test_session()).find(told), std::string::npos) << refusal(test_session());
    EXPECT_NE(refusal(*Session::reference()).find(told), std::string::npos);
  }
}

TEST(Recurrent, layers_draw_dropout_between_them_in_training_alone) {
  Session& session = test_session();
  LSTM layer(4, 5, {.layers = 2, .dropout = 1});
  layer.materialise(session);
  const Value x = session.tensor(f32({2, 3, 4}), std::span<const double>(noise(24, 1)));
  const List trained = read(layer(Values{x})[0]), other = read(layer(Values{x * 2.0})[0]);
  EXPECT_EQ(trained, other) << "nothing of the first layer is left";
  layer.eval();
  EXPECT_NE(read(layer(Values{x})[0]), read(layer(Values{x * 2.0})[0]));
}

TEST(Recurrent, what_does_not_fit_is_refused) {
  Session& session = test_session();
  EXPECT_EQ(message_of<UsageError>([] { LSTM(0, 5); }), "LSTM: 0 input numbers given; accepted: 1 or more");
  EXPECT_EQ(message_of<UsageError>([] { GRU(3, 5, {.layers = 0}); }), "GRU: 0 layers given; accepted: 1 or more");
  EXPECT_EQ(message_of<UsageError>([] { GRU(3, 5, {.dropout = 1.5}); }), "GRU: dropout 1.5 given; accepted: 0..1");
  GRU layer(4, 5, {.layers = 2, .bidirectional = Bidirectional::yes});
  EXPECT_EQ(layer.describe(), "GRU(4, 5, 2 layers, bidirectional)");
  layer.materialise(session);
  const Value x = full(session, f32({2, 3, 4}), 1);
  EXPECT_EQ(message_of<ShapeError>([&] { layer(Values{full(session, f32({2, 3, 6}), 1)}); }), "GRU: x is [2, 3, 6]; accepted: [N, T, 4]");
  EXPECT_EQ(message_of<ShapeError>([&] {
              layer(Values{x, {}, full(session, f32({1, 2, 5}), 0)});
            }),
            "GRU: the first states are [1, 2, 5]; accepted: [4, 2, 5]");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(Values{x, {}, {}, x}); }), "GRU: 4 inputs given; accepted: at most 3");
  EXPECT_EQ(message_of<ShapeError>([&] { layer(Values{x, full(session, i64({3}), 1)}); }), "gru: lengths is [3]; accepted: [2]");
}

}  // namespace
}  // namespace gemel::nn
