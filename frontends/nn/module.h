// Module: a tree of named layers with parameters and buffers. Modules use Value and the typed operators alone, so that one module computes at once, is captured
// in a graph, or runs in the reference interpreter, depending on the trace in force.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/spec.h"
#include "engine/core/session.h"
#include "engine/core/value.h"
#include "engine/parameters/parameter_set.h"
#include "frontends/nn/init.h"

namespace gemel::nn {

class BatchParts;

/// A parameter. Its spec is known from the start; it has memory once its module is materialised.
struct Parameter {
  std::string name;  // in its module
  Spec spec;         // in the engine's layout
  FileLayout layout = FileLayout::same;
  Initialiser initialise;
  bool trainable = true;  // of a tied parameter the owner's counts
  GradientForm gradient_form = GradientForm::dense;
  Value value = {};              // a leaf, frozen if not trainable; empty if tied
  Parameter* tied_to = nullptr;  // parameter whose tensor it shares; null: none

  /// @throws UsageError if the module is not materialised
  const Value& tensor() const;
  /// Takes over a tensor's memory as a new leaf. Only before anyone holds the parameter.
  void bind(const Value& tensor);
  /// The parameter that holds the tensor: itself unless it is tied.
  Parameter& owner() { return tied_to ? tied_to->owner() : *this; }
  const Parameter& owner() const { return tied_to ? std::as_const(*tied_to).owner() : *this; }
};

/// State without gradients.
struct Buffer {
  std::string name;
  Spec spec;
  double initial = 0;
  bool optional_in_files = false;
  Value value = {};

  /// @throws UsageError if the module is not materialised
  const Value& tensor() const;
};

/// Recompute::yes: the backward pass computes the module's forward pass again.
enum class Recompute { no, yes };

class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// Runs the module under its name: pre-hooks, forward, hooks. Images are [N, H, W, C].
  /// @throws ShapeError with the path of the layer that refuses  @throws UsageError if the module returns several tensors
  Value operator()(Value x);
  /// Runs a module with several inputs or outputs, in the module's order. Inputs after the first may be empty if they are optional.
  Values operator()(Values x);
  /// Returns the layer's kind and sizes: "Linear(512, 10)".
  virtual std::string describe() const { return "Module"; }

  /// Returns and forgets auxiliary outputs of the last forward pass in training. Their losses are added to the main one with factor kAuxiliaryWeight.
  virtual Values take_auxiliary() { return {}; }
  static constexpr double kAuxiliaryWeight = 0.4;

  // ---- the tree
  /// Name in its parent; empty at the root.
  const std::string& name() const { return name_; }
  const std::vector<std::unique_ptr<Module>>& children() const { return children_; }
  /// Returns the module at a path such as "layer1.0.conv1", or null; "" is this module.
  Module* find(std::string_view path);
  /// Visits this module and all below it, a parent before its children, with paths relative to this module.
  void visit(const std::function<void(const std::string& path, Module&)>& f);
  void visit(const std::function<void(const std::string& path, const Module&)>& f) const;
  /// Visits every module of type M in the tree.
  template <class M, class F>
  void visit_all(F f) {
    visit([&f](const std::string&, Module& m) {
      if (auto* match = dynamic_cast<M*>(&m)) f(*match);
    });
  }
  /// Returns paths of the layers whose size is the number of classes; by default the one that holds the last parameter.
  virtual std::vector<std::string> output_layers() const;

  // ---- files of other programs
  /// Converts a name in a file to the model's own.
  /// @return empty to ignore the tensor
  virtual std::string name_of(const std::string& name_in_file) const { return name_in_file; }
  /// Tells if files of pretrained weights lack the output layers.
  virtual bool is_pretrained_without_output() const { return false; }

  // ---- state
  const std::vector<std::unique_ptr<Parameter>>& own_parameters() const { return parameters_; }
  const std::vector<std::unique_ptr<Buffer>>& own_buffers() const { return buffers_; }
  /// Number of elements of all parameters in the tree; needs no memory.
  std::int64_t parameter_elements() const;
  /// Allocates and initialises what has no memory yet. Draws are keyed by the session's seed, the parameter's path, and how many parameters of that path the
  /// session has initialised before: a second module of the same paths starts differently, and as the first one after Session::manual_seed.
  void materialise(Session& session);
  /// Materialises only the paths that are accepted, as for a stage of a pipeline.
  void materialise(Session& session, const std::function<bool(const std::string& path)>& accepted);
  /// Gives the state symbols without memory, for shape and cost inference: shapes flow through the module, and nothing can be computed.
  void declare(Session& session);
  /// Removes the symbols of `declare`.
  void undeclare();
  /// Returns the tree's parameters and buffers under their paths, in state-dict order.
  /// @throws UsageError if the module is not materialised
  ParameterSet parameters() const;
  /// Returns the parameters and buffers that have memory.
  ParameterSet materialised() const;

  // ---- modes, for the whole tree
  void train() { set_training(true); }
  void eval() { set_training(false); }
  bool training() const { return mode_.training; }
  /// Makes batch normalisation use its running statistics in training too, without changing them; scales and offsets are still trained.
  void freeze_norm() { set_norm_frozen(true); }
  void unfreeze_norm() { set_norm_frozen(false); }
  bool norm_frozen() const { return mode_.norm_frozen; }
  /// Makes batch normalisation in training use and keep the statistics of all parts of a batch that is computed in parts. Null: each part its own.
  void synchronise_norm(const std::shared_ptr<BatchParts>& parts);
  BatchParts* batch_parts() const { return mode_.batch_parts.get(); }
  /// Freezes all parameters, tied ones under all their names; frozen batch normalisation also keeps its statistics. Optimizers and captured steps that hold the
  /// parameters respect it.
  void freeze() { set_trainable(false); }
  void unfreeze() { set_trainable(true); }
  /// Freezes everything but the output layers and what is tied to them.
  void freeze_backbone();

  // ---- gradients that backward() accumulates
  /// Clears the gradients of all parameters, frozen ones too.
  void zero_grad();

  // ---- recomputation
  /// With Recompute::yes only the module's inputs are kept for the backward pass, which recomputes the module with the same draws, parameters and modes, hence
  /// the same bits. Statistics are updated once. The module's own hooks run once, those of modules within it each time.
  void set_recompute(Recompute recompute) { recompute_ = recompute; }
  Recompute recompute() const { return recompute_; }

  // ---- hooks. While a graph is captured they run once. Hooks that are added or removed while hooks of their kind run take effect with the next call
  using PreHook = std::function<void(Module&, Values& x)>;                // may replace the inputs
  using Hook = std::function<void(Module&, const Values& x, Values& y)>;  // may replace the outputs
  using HookId = std::uint64_t;
  HookId add_forward_pre_hook(PreHook hook);
  HookId add_forward_hook(Hook hook);
  /// Called with the complete gradient of each of the module's outputs before its backward pass, or of each of its inputs after it; may replace it.
  /// @param which  number of the output or input, from 0
  using BackwardHook = std::function<void(Module&, Value& gradient, std::size_t which)>;
  HookId add_backward_pre_hook(BackwardHook hook);
  HookId add_backward_hook(BackwardHook hook);
  void remove_hook(HookId id);

 protected:
  /// A module overrides one of these two: for one tensor, or for several.
  /// @throws UsageError if the module has no computation of its own
  virtual Value forward(Value x);
  /// @throws UsageError for any number of tensors but one, unless overridden
  virtual Values forward_values(Values x);
  /// Puts the module's name on the session's path, for modules called with arguments other than tensors. What is captured within holds as long as the module's
  /// modes are the same.
  class Scope {
   public:
    Scope(Session& session, const Module& module);

   private:
    std::optional<NameScope> scope_;
  };

  /// @throws UsageError for a name that is taken or contains a dot
  Parameter& add_parameter(std::string name, Spec spec, FileLayout layout, Initialiser initialise);
  Buffer& add_buffer(std::string name, Spec spec, double initial);
  /// Makes `alias` another name for `owner`'s tensor: one leaf, one update, frozen together, saved under both names. Both must outlive the module's use. As the
  /// tensor is the same, a Linear's weight [in, out] cannot be tied to an Embedding's table [out, in]: see TiedLinear.
  /// @throws ShapeError if their specs differ  @throws UsageError if owner is already tied to alias
  static void tie(Parameter& alias, Parameter& owner);
  /// Owns and names a child.
  template <class M>
  M& adopt(std::string name, std::unique_ptr<M> child) {
    M& made = *child;
    adopt_any(std::move(name), std::move(child));
    return made;
  }
  /// Makes a child: `add<Conv2d>("conv1", 3, 64, options)`.
  template <class M, class... Arguments>
  M& add(std::string name, Arguments&&... arguments) {
    return adopt(std::move(name), std::make_unique<M>(std::forward<Arguments>(arguments)...));
  }

 private:
  struct Circumstances;
  class Under;
  struct Mode {
    bool training = true, norm_frozen = false;
    std::shared_ptr<BatchParts> batch_parts = {};
  };
  Values compute(Values x) { return recompute_ == Recompute::yes ? forward_twice(std::move(x)) : forward_values(std::move(x)); }
  Values forward_twice(Values x);
  void watch(Values& values, const std::vector<std::pair<HookId, BackwardHook>>& hooks);
  Value watched(Value x, std::size_t which, const std::vector<std::pair<HookId, BackwardHook>>& hooks);
  void adopt_any(std::string name, std::unique_ptr<Module> child);
  void check_free(const std::string& name) const;
  void set_training(bool training);
  void set_norm_frozen(bool frozen);
  void set_trainable(bool trainable);
  std::vector<bool> modes() const;
  /// Returns the parameters that hold the tree's tensors, each once; the owner of a tied one may be outside the tree.
  std::vector<Parameter*> owners() const;

  std::string name_;
  Mode mode_;
  std::vector<std::unique_ptr<Parameter>> parameters_;  // stable addresses: layers keep references
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<std::pair<HookId, PreHook>> pre_hooks_;
  std::vector<std::pair<HookId, Hook>> hooks_;
  std::vector<std::pair<HookId, BackwardHook>> backward_pre_hooks_, backward_hooks_;
  HookId last_hook_ = 0;
  Recompute recompute_ = Recompute::no;
  const std::shared_ptr<Module*> itself_ = std::make_shared<Module*>(this);  // tells a backward pass if the module still exists
};

/// Joins a path and a name: "layer1" and "conv1" become "layer1.conv1"; an empty path adds nothing.
std::string join_path(const std::string& path, const std::string& name);

}  // namespace gemel::nn
