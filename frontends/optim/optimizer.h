// Optimizers: PyTorch's formulas over parameter groups. An optimizer packs its parameters into slabs, so that one launch updates all of them. What varies from
// step to step (rates, Adam's corrections) is a small tensor, which is fed to each replay of a captured step.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/session.h"
#include "engine/ops/ops.h"
#include "engine/parameters/parameter_set.h"
#include "engine/parameters/parameter_slab.h"
#include "frontends/optim/hyperparameters.h"

namespace gemel::optim {

/// Parameters with common hyperparameters.
struct Group {
  std::vector<NamedValue> parameters;
  double rate_factor = 1;                // factor of the step's rate
  std::optional<double> weight_decay{};  // none: the optimizer's
};

/// Returns one group of all trainable parameters.
std::vector<Group> all_in_one(const ParameterSet& parameters);
/// Returns two groups: weights of two axes or more; and normalisation parameters and biases (at most one axis), which do not decay.
std::vector<Group> no_decay_on_vectors(const ParameterSet& parameters);

/// Splits groups: parameters with row gradients become a group after their own, without weight decay, since rows that are not looked up are not updated.
std::vector<Group> no_decay_on_rows(std::vector<Group> groups);

/// Divides a model's trainable parameters into groups, such as all_in_one or no_decay_on_vectors.
using Grouping = std::function<std::vector<Group>(const ParameterSet&)>;

/// Returns the parameter of a slot's name: "fc.weight" for "velocity.fc.weight".
std::string parameter_of_slot(const std::string& slot);

/// Base of optimizers: everything but the formula.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const std::vector<Group>& groups() const { return groups_; }
  /// The parameters of all groups in order, which is the order of gradients.
  const std::vector<NamedValue>& parameters() const { return parameters_; }
  /// Number of tensors kept for each parameter, each of the parameter's size.
  std::size_t slots() const { return slot_names_.size(); }
  /// Copies of each parameter that training holds: the weight, its gradient and the slots.
  int parameter_copies() const { return 2 + static_cast<int>(slots()); }
  /// Tells if it can update single rows of tables, from sparse gradients (engine/gradients/row_gradient.h).
  virtual bool updates_rows() const { return false; }
  /// Adds parameters, whose slots and step counts start at 0.
  /// @throws UsageError for a parameter that it already has; nothing is then added
  void add_group(Group group);

  /// Learning rate, which schedulers change.
  double rate() const { return hyper_->rate; }
  void set_rate(double rate) { hyper_->rate = rate; }

  // ---- as in PyTorch, with gradients in the parameters' grad()
  /// Updates parameters that have a gradient and are not frozen, and counts the step.
  void step();
  /// Clears the gradients of all parameters.
  void zero_grad();

  // ---- with given gradients, also in a captured step
  /// Places for the gradients of all parameters, for GradientOptions::into; empty for row gradients. Dense gradients elsewhere are copied there.
  Values gradient_places() const;
  /// Rates, decays and step counts, shared with everyone who runs its updates.
  const std::shared_ptr<Hyperparameters>& hyperparameters() const { return hyper_; }
  /// Specs of `hyper`, for the inputs of a captured step.
  Specs hyper_specs() const { return {hyper_->spec()}; }
  /// Returns the tensors for the step after `steps()`.
  Values hyper(double rate) const;
  /// Updates parameters and slots in place, in operators: computed at once, or captured.
  /// @param gradients [parameter]; a parameter without gradient (an empty value), or frozen, is not updated. A row gradient (engine/gradients/row_gradient.h)
  ///   updates its rows alone, and their slots
  /// @param hyper      of `hyper_specs`
  /// @throws UsageError if the numbers of gradients or tensors are wrong; for row gradients if the optimizer has no update of rows, or weights decay; in a
  ///   captured step if `hyper` is a constant
  void apply_updates(Values gradients, const Values& hyper);
  /// Scales all gradients to a norm of at most `max_norm`, by two launches a slab and a few for each row gradient.
  /// @return the norm before, float32 []; empty without gradients
  /// @param squares  float32 [n], whose sum is that of the squares of all gradients, if others have some of them
  Value clip_norm(Values& gradients, double max_norm, const Value& squares = {});
  /// Returns float32 [n], whose sum is that of the squares of all gradients; empty if there are none.
  Value squares(Values& gradients);
  /// Counts a step, for `hyper` and for checkpoints. It counts for a parameter that had a gradient in the last update with the same parameters frozen, computed
  /// at once or captured; before any update, for all parameters that are not frozen.
  /// @throws UsageError while a graph is captured
  void advance();
  /// Makes the capture in progress valid only while the parameters and the frozen ones among them are the same.
  void assume_as_frozen(Session& session) const;
  /// Calls hyper, apply_updates and advance, computed at once.
  void step(Values gradients, double rate);

  std::int64_t steps() const { return hyper_->steps; }
  /// [parameter] number of steps that updated it: less than `steps()` if it was added later, was frozen or had no gradient.
  std::vector<std::int64_t> parameter_steps() const { return hyper_->parameter_steps(); }
  /// The slots by name, such as "velocity.fc.weight". With `steps()` and `parameter_steps()` they are the state for a checkpoint.
  const std::vector<NamedValue>& state() const { return state_; }
  /// Copies the contents of slots.
  /// @param parameter_steps  empty: every step updated every parameter
  /// @throws DataError naming every slot that is missing, unknown or of another shape; for parameter_steps of another length
  void load_state(std::span<const NamedValue> state, std::int64_t steps, std::span<const std::int64_t> parameter_steps = {});

 protected:
  /// @param groups may be empty, for a pipeline's stage that has nothing to train @param common hyperparameters of all groups; their own are filled in from
  ///   `groups`
  /// @param slots  names of the tensors kept for each parameter, which start at 0
  Optimizer(std::vector<Group> groups, Hyperparameters common, std::vector<std::string> slots);
  /// @param slots  full slabs, in the order given to the constructor
  virtual void update(Update u, std::span<const Slab> slots) const = 0;
  /// Updates the rows of a table that have gradients, if `updates_rows`.
  /// @param slots  the table's, in the order given to the constructor
  virtual void update_rows(RowUpdate, std::span<const Value> /*slots*/) const {}
  /// Name for error messages.
  virtual std::string_view name() const = 0;

 private:
  /// A slab with parameters of this optimizer, and its slots.
  struct Shard {
    std::shared_ptr<ParameterSlab> slab;
    std::vector<Slab> slots;
    std::vector<std::ptrdiff_t> parameters;    // [in the slab] number in this optimizer; -1: another optimizer's
    mutable std::vector<std::int32_t> rows{};  // that the table `pages` is made of
    mutable Value pages{};
  };
  Shard* shard_of(const Value& parameter);
  void make_shards(const Values& parameters);
  void settle(Values& gradients) const;
  struct Settled;
  Settled settled(Values& gradients) const;
  void check_no_decay(std::size_t parameter) const;
  void update_met_rows(const Values& gradients, const Value& hyper) const;
  const Value* pages_for(const Shard& shard, const Values& gradients) const;

  std::vector<Group> groups_;
  std::vector<NamedValue> parameters_;
  std::vector<NamedValue> state_;  // by parameter, then in the order of slots
  std::vector<Shard> shards_;
  std::shared_ptr<Hyperparameters> hyper_;
  std::map<std::vector<bool>, std::vector<bool>> had_gradient_;  // [frozen parameters] parameters that the last update with these frozen moved
  std::vector<std::string> slot_names_;
};

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double rate = 1e-3;
};
/// p -= rate g; with momentum m: v = m v + g, p -= rate v, or with Nesterov's p -= rate (g + m v). Row gradients are accepted without momentum only.
class Sgd : public Optimizer {
 public:
  /// @throws UsageError for Nesterov without momentum
  Sgd(std::vector<Group> groups, const SgdOptions& options = {});
  bool updates_rows() const override { return options_.momentum == 0; }

 protected:
  void update(Update u, std::span<const Slab> slots) const override;
  void update_rows(RowUpdate u, std::span<const Value> slots) const override;
  std::string_view name() const override { return options_.momentum == 0 ? "sgd" : "sgd with momentum"; }

 private:
  SgdOptions options_;
};

struct AdamOptions {
  AdamUpdate update{};
  double weight_decay = 0, rate = 1e-3;
};
/// Adam, or AdamW with `decoupled`. With row gradients, which do not decay, both are lazy as torch.optim.SparseAdam: moments of rows without gradient are not
/// changed.
/// Source: D. P. Kingma, J. Ba, Adam, 2015; I. Loshchilov, F. Hutter, 2019.
class Adam : public Optimizer {
 public:
  Adam(std::vector<Group> groups, const AdamOptions& options = {});
  bool updates_rows() const override { return true; }

 protected:
  void update(Update u, std::span<const Slab> slots) const override;
  void update_rows(RowUpdate u, std::span<const Value> slots) const override;
  std::string_view name() const override { return options_.update.decoupled ? "adamw" : "adam"; }

 private:
  AdamOptions options_;
};

struct RmspropOptions {
  RmspropUpdate update{};
  double weight_decay = 0, rate = 1e-2;
};
/// s = alpha s + (1 - alpha) g^2, p -= rate g / (sqrt(s) + eps); with momentum m: v = m v + g / (sqrt(s) + eps), p -= rate v.
class Rmsprop : public Optimizer {
 public:
  Rmsprop(std::vector<Group> groups, const RmspropOptions& options = {});

 protected:
  void update(Update u, std::span<const Slab> slots) const override;
  std::string_view name() const override { return "rmsprop"; }

 private:
  RmspropOptions options_;
};

/// Names of the optimizers for users: sgd, momentum, nesterov, adam, adamw, rmsprop.
std::vector<std::string_view> names();
/// Defaults: momentum 0.9 for `momentum` and `nesterov`, else 0; weight decay 0.01 for `adamw`, else 0.
struct Settings {
  std::optional<double> momentum{}, weight_decay{};
};
/// Returns the settings with an optimizer's defaults filled in; without momentum if the optimizer takes none.
/// @throws as `make`
Settings with_defaults(std::string_view name, const Settings& settings);
/// Makes an optimizer by name.
/// @param groups  empty for an optimizer that is only asked for its slots
/// @throws UsageError for an unknown name, or a momentum for an optimizer that takes none
std::unique_ptr<Optimizer> make(std::string_view name, std::vector<Group> groups, const Settings& settings = {});

}  // namespace gemel::optim
