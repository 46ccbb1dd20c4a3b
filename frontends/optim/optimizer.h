// Optimizers: PyTorch's formulas over parameter groups. An optimizer packs its parameters into slabs, so that one launch updates all of
// them. What varies from step to step (rates, Adam's corrections) is a small tensor, so that a captured step is fed anew at each replay.
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

/// Parameters that share their hyperparameters.
struct Group {
  std::vector<NamedValue> parameters;
  double rate_factor = 1;                // times the rate of the step
  std::optional<double> weight_decay{};  // the optimizer's own where not given
};

/// One group of all trainable parameters.
std::vector<Group> all_in_one(const ParameterSet& parameters);
/// Two groups: weights of two axes or more, and normalisation parameters and biases (one axis or none), which do not decay.
std::vector<Group> no_decay_on_vectors(const ParameterSet& parameters);

/// The same groups; those parameters of each whose gradients are rows are a group of their own behind it, without decay: what is not met stays as it is.
std::vector<Group> no_decay_on_rows(std::vector<Group> groups);

/// How a model's trainable parameters are grouped: one of the two above, for instance.
using Grouping = std::function<std::vector<Group>(const ParameterSet&)>;

/// "fc.weight" of the slot "velocity.fc.weight".
std::string parameter_of_slot(const std::string& slot);

/// What an optimizer does apart from its formula.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const std::vector<Group>& groups() const { return groups_; }
  /// All groups' parameters one after the other: the order of the gradients.
  const std::vector<NamedValue>& parameters() const { return parameters_; }
  /// How many tensors it keeps for each parameter, each of the parameter's size.
  std::size_t slots() const { return slot_names_.size(); }
  /// Whether it has an update of rows, for gradients that are rows (engine/gradients/row_gradient.h).
  virtual bool updates_rows() const { return false; }
  /// Further parameters, whose slots and counts of steps start at 0. @throws UsageError for one that is there already; where it throws, nothing
  /// is added
  void add_group(Group group);

  /// The learning rate, which schedules move.
  double rate() const { return hyper_->rate; }
  void set_rate(double rate) { hyper_->rate = rate; }

  // ---- in the manner of PyTorch: gradients lie in the parameters' grad()
  /// Updates the parameters that have a gradient and are not frozen, and counts the step.
  void step();
  /// Forgets the gradients of all parameters.
  void zero_grad();

  // ---- with gradients at hand, also in a captured step
  /// Where the gradient of each parameter is best put: GradientOptions::into; empty where it is to be rows. What is dense and lies elsewhere is
  /// copied there.
  Values gradient_places() const;
  /// Rates, decays and the count of steps, shared with whoever else runs its updates.
  const std::shared_ptr<Hyperparameters>& hyperparameters() const { return hyper_; }
  /// Their shapes: what a captured step declares as inputs.
  Specs hyper_specs() const { return {hyper_->spec()}; }
  /// The tensors for the step after `steps()`.
  Values hyper(double rate) const;
  /// Updates parameters and slots in place, in operators: computes at once, or is captured.
  /// @param gradients  parallel to `parameters()`; a parameter without one (an empty value), or frozen, stays as it is. Where it is rows
  ///                   (engine/gradients/row_gradient.h), the others and their slots stay as they are
  /// @param hyper      as `hyper_specs` says
  /// @throws UsageError for lists of other lengths; for rows where the optimizer has no update of rows, or the weights decay; where it is captured, for
  /// `hyper` that is a constant there
  void apply_updates(Values gradients, const Values& hyper);
  /// Scales all gradients to a norm of at most `max_norm`: two launches a slab, a few for each that is rows. @return the norm before, float32 []; empty without
  /// gradients
  /// @param squares  where others have gradients too: float32 [n], whose sum is that of the squares of all of them
  Value clip_norm(Values& gradients, double max_norm, const Value& squares = {});
  /// Float32 [n], whose sum is that of the squares of all gradients; empty where there is none.
  Value squares(Values& gradients);
  /// Counts a step: what `hyper` gives next and what checkpoints keep. For a parameter it counts where that had a gradient in the last update
  /// with the same ones frozen, computed at once or captured; without any update, where it is not frozen.
  /// @throws UsageError while a graph is captured
  void advance();
  /// Lets a capture under way hold only while the same parameters are there and the same ones frozen.
  void assume_as_frozen(Session& session) const;
  /// hyper, apply_updates, advance; computed at once, not captured.
  void step(Values gradients, double rate);

  std::int64_t steps() const { return hyper_->steps; }
  /// [parameter] the steps that moved it: fewer than `steps()` where it was added later, was frozen or had no gradient.
  std::vector<std::int64_t> parameter_steps() const { return hyper_->parameter_steps(); }
  /// The slots by name, such as "velocity.fc.weight"; with `steps()` and `parameter_steps()` all that a checkpoint needs.
  const std::vector<NamedValue>& state() const { return state_; }
  /// Copies the slots' contents. @param parameter_steps  none: every step moved every parameter
  /// @throws DataError naming every slot that is missing, unknown or of another shape; for counts that are not one a parameter
  void load_state(std::span<const NamedValue> state, std::int64_t steps, std::span<const std::int64_t> parameter_steps = {});

 protected:
  /// @param groups  none at all: of a stage of a pipeline that has nothing to train  @param common  of all groups; `groups` fills in theirs  @param slots names
  /// of the tensors kept for each parameter; they start at 0
  Optimizer(std::vector<Group> groups, Hyperparameters common, std::vector<std::string> slots);
  /// @param slots  whole slabs, in the order given at construction
  virtual void update(Update u, std::span<const Slab> slots) const = 0;
  /// Moves the rows of a table that were met, where it `updates_rows`. @param slots  the table's, in the order given at construction
  virtual void update_rows(RowUpdate, std::span<const Value> /*slots*/) const {}
  /// What errors call it.
  virtual std::string_view name() const = 0;

 private:
  /// A slab that holds parameters of this optimizer, and the slots beside it.
  struct Shard {
    std::shared_ptr<ParameterSlab> slab;
    std::vector<Slab> slots;
    std::vector<std::ptrdiff_t> parameters;    // [in the slab] its index here; -1: another optimizer's
    mutable std::vector<std::int32_t> rows{};  // of which `pages` is the table
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
  std::vector<NamedValue> state_;  // parameter by parameter, in the order of the slots
  std::vector<Shard> shards_;
  std::shared_ptr<Hyperparameters> hyper_;
  std::map<std::vector<bool>, std::vector<bool>> had_gradient_;  // [which are frozen] the parameters that the last such update moved
  std::vector<std::string> slot_names_;
};

struct SgdOptions {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double rate = 1e-3;
};
/// p -= rate g; with momentum m: v = m v + g, p -= rate v, or with Nesterov's p -= rate (g + m v). Gradients of rows without momentum only.
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
/// Adam, and with `decoupled` AdamW. Where a gradient is rows, which do not decay, both are lazy, as torch.optim.SparseAdam: the moments of rows
/// that are not met stay. Source: D. P. Kingma, J. Ba, Adam, 2015; I. Loshchilov, F. Hutter, 2019.
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

/// The optimizers' names for users: sgd, momentum, nesterov, adam, adamw, rmsprop.
std::vector<std::string_view> names();
/// Where not given: momentum 0.9 for `momentum` and `nesterov`, else 0; weight decay 0.01 for `adamw`, else 0.
struct Settings {
  std::optional<double> momentum{}, weight_decay{};
};
/// The settings of an optimizer with its defaults where none are given; no momentum where it takes none.
/// @throws as `make`
Settings with_defaults(std::string_view name, const Settings& settings);
/// @param groups  none: one that moves nothing, and can be asked what it keeps for each parameter
/// @throws UsageError for an unknown name, or a momentum given to an optimizer that has none
std::unique_ptr<Optimizer> make(std::string_view name, std::vector<Group> groups, const Settings& settings = {});

}  // namespace gemel::optim
