// Module: a tree of named layers with parameters and buffers. Written over Value and the typed operators alone, so that one
// module computes at once, is captured in a graph, or runs in the reference session, as the interpreter in force decides.
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

/// Known by its spec from the start; has memory once its module is materialised.
struct Parameter {
  std::string name;  // in its module
  Spec spec;         // in the engine's layout
  FileLayout layout = FileLayout::same;
  Initialiser initialise;
  bool trainable = true;  // where it is tied, the owner's counts
  GradientForm gradient_form = GradientForm::dense;
  Value value = {};              // a leaf, frozen where it is not trainable; empty where it is tied
  Parameter* tied_to = nullptr;  // the parameter whose tensor it is another name for

  /// @throws UsageError before the module is materialised
  const Value& tensor() const;
  /// Takes over a tensor's memory, as a new leaf: only before anyone holds the parameter.
  void bind(const Value& tensor);
  /// The parameter that holds the tensor: itself unless it is tied.
  Parameter& owner() { return tied_to ? tied_to->owner() : *this; }
  const Parameter& owner() const { return tied_to ? std::as_const(*tied_to).owner() : *this; }
};

/// State that no gradient flows to.
struct Buffer {
  std::string name;
  Spec spec;
  double initial = 0;
  bool optional_in_files = false;
  Value value = {};

  /// @throws UsageError before the module is materialised
  const Value& tensor() const;
};

/// Whether a module is computed again in the backward pass.
enum class Recompute { no, yes };

class Module {
 public:
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  virtual ~Module() = default;

  /// Runs the layer under its name: pre-hooks, forward, hooks. Images are [N, H, W, C].
  /// @throws ShapeError prefixed with the path of the layer that refuses  @throws UsageError where it gives more than one tensor
  Value operator()(Value x);
  /// The same with several inputs or outputs, in the module's own order. An input behind the first may be empty: it is left out.
  Values operator()(Values x);
  /// The layer's kind and sizes: "Linear(512, 10)".
  virtual std::string describe() const { return "Module"; }

  /// Further outputs of the last forward pass in training, handed over: their losses join the main one's with kAuxiliaryWeight.
  virtual Values take_auxiliary() { return {}; }
  static constexpr double kAuxiliaryWeight = 0.4;

  // ---- the tree
  /// In its parent; empty at the root.
  const std::string& name() const { return name_; }
  const std::vector<std::unique_ptr<Module>>& children() const { return children_; }
  /// The module at "layer1.0.conv1", or null; "" is this one.
  Module* find(std::string_view path);
  /// This module and all below it, a parent before its children, with paths from here.
  void visit(const std::function<void(const std::string& path, Module&)>& f);
  void visit(const std::function<void(const std::string& path, const Module&)>& f) const;
  /// Every module of type M in the tree.
  template <class M, class F>
  void visit_all(F f) {
    visit([&f](const std::string&, Module& m) {
      if (auto* match = dynamic_cast<M*>(&m)) f(*match);
    });
  }
  /// Paths of the layers whose size is the number of classes; here the one that holds the last parameter.
  virtual std::vector<std::string> output_layers() const;

  // ---- files of others
  /// The model's own name of a tensor that a file may name otherwise. @return empty: it is nothing of this model's, and left aside
  virtual std::string name_of(const std::string& name_in_file) const { return name_in_file; }
  /// Whether files of pretrained weights come without the output layers.
  virtual bool is_pretrained_without_output() const { return false; }

  // ---- state
  const std::vector<std::unique_ptr<Parameter>>& own_parameters() const { return parameters_; }
  const std::vector<std::unique_ptr<Buffer>>& own_buffers() const { return buffers_; }
  /// Elements of all parameters in the tree; needs no memory.
  std::int64_t parameter_elements() const;
  /// Gives memory and initial contents to what has none yet, drawn from the session's seed, the parameter's path, and how many of that path the
  /// session has begun before: a second module of the same paths starts differently, and as the first did after Session::manual_seed.
  void materialise(Session& session);
  /// The same of those alone whose paths are accepted: a stage of a pipeline holds no others.
  void materialise(Session& session, const std::function<bool(const std::string& path)>& accepted);
  /// Gives names without memory: shapes flow through the module, and nothing can compute. For shape and cost inference.
  void declare(Session& session);
  /// Takes such names back.
  void undeclare();
  /// The tree's parameters and buffers under their paths, in state-dict order.
  /// @throws UsageError before the module is materialised
  ParameterSet parameters() const;
  /// Those that have memory.
  ParameterSet materialised() const;

  // ---- modes, for the whole tree
  void train() { set_training(true); }
  void eval() { set_training(false); }
  bool training() const { return mode_.training; }
  /// Normalisation uses its running statistics in training too, and leaves them as they are; its scales and shifts still train.
  void freeze_norm() { set_norm_frozen(true); }
  void unfreeze_norm() { set_norm_frozen(false); }
  bool norm_frozen() const { return mode_.norm_frozen; }
  /// In training, batch normalisation uses and keeps the statistics of all parts of a batch that is computed in parts. Null: each its own.
  void synchronise_norm(const std::shared_ptr<BatchParts>& parts);
  BatchParts* batch_parts() const { return mode_.batch_parts.get(); }
  /// Takes all parameters out of training, tied ones under all their names; frozen batch normalisation also keeps its statistics.
  /// Optimizers and captured steps that hold the parameters see it.
  void freeze() { set_trainable(false); }
  void unfreeze() { set_trainable(true); }
  /// Trains the output layers only, with what is tied to them.
  void freeze_backbone();

  // ---- gradients that backward() adds up
  /// Forgets those of all parameters, frozen ones too; the next pass starts afresh.
  void zero_grad();

  // ---- memory for time
  /// Keeps nothing but the module's inputs for the backward pass, which computes it again: the same draws, parameters and modes,
  /// the same bits; statistics move once. Its own hooks run once, those of modules within it each time.
  void set_recompute(Recompute recompute) { recompute_ = recompute; }
  Recompute recompute() const { return recompute_; }

  // ---- hooks; under capture they run once, when the module is traced. Hooks that one adds or removes while those of its kind run come
  // and go with the next call
  using PreHook = std::function<void(Module&, Values& x)>;                // may replace the inputs
  using Hook = std::function<void(Module&, const Values& x, Values& y)>;  // may replace the outputs
  using HookId = std::uint64_t;
  HookId add_forward_pre_hook(PreHook hook);
  HookId add_forward_hook(Hook hook);
  /// Sees the gradient of each of the module's outputs before its backward pass, or of its inputs after it, once complete; may replace
  /// it. @param which  output or input, from 0
  using BackwardHook = std::function<void(Module&, Value& gradient, std::size_t which)>;
  HookId add_backward_pre_hook(BackwardHook hook);
  HookId add_backward_hook(BackwardHook hook);
  void remove_hook(HookId id);

 protected:
  /// A module computes by one of these two: of one tensor, or of several.
  /// @throws UsageError where a module has no computation of its own
  virtual Value forward(Value x);
  /// @throws UsageError for other than one tensor, unless it is overridden
  virtual Values forward_values(Values x);
  /// The module's name on the session's path, for modules called with other arguments than tensors. What is captured holds while its modes are
  /// the same.
  class Scope {
   public:
    Scope(Session& session, const Module& module);

   private:
    std::optional<NameScope> scope_;
  };

  /// @throws UsageError for a name that is taken or holds a dot
  Parameter& add_parameter(std::string name, Spec spec, FileLayout layout, Initialiser initialise);
  Buffer& add_buffer(std::string name, Spec spec, double initial);
  /// Makes `alias` another name for `owner`'s tensor: one leaf, one update, frozen as one, saved under both names. Both must outlive the
  /// module's use. As the tensor is the same, a Linear's weight [in, out] is no name for an Embedding's table [out, in]: see TiedLinear.
  /// @throws ShapeError where their specs differ  @throws UsageError where alias holds owner already
  static void tie(Parameter& alias, Parameter& owner);
  /// Owns the child and names it.
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
  /// The parameters that hold the tree's tensors, each once; the owner of a tied one may lie outside the tree.
  std::vector<Parameter*> owners() const;

  std::string name_;
  Mode mode_;
  std::vector<std::unique_ptr<Parameter>> parameters_;  // addresses stay: layers keep references
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<std::pair<HookId, PreHook>> pre_hooks_;
  std::vector<std::pair<HookId, Hook>> hooks_;
  std::vector<std::pair<HookId, BackwardHook>> backward_pre_hooks_, backward_hooks_;
  HookId last_hook_ = 0;
  Recompute recompute_ = Recompute::no;
  const std::shared_ptr<Module*> itself_ = std::make_shared<Module*>(this);  // by it a backward pass sees whether the module is still there
};

/// "layer1" and "conv1" is "layer1.conv1"; an empty path adds nothing.
std::string join_path(const std::string& path, const std::string& name);

}  // namespace gemel::nn
