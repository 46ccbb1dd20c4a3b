#include "engine/core/session.h"

#include <algorithm>
#include <cstring>

#include "engine/base/dtype_conversion.h"
#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/base/philox.h"
#include "engine/device/device_interpreter.h"
#include "engine/gradients/row_gradient.h"
#include "engine/graph/run/arena.h"
#include "engine/graph/run/executor.h"
#include "engine/reference/reference_interpreter.h"

namespace gemel {

const Value& Random::state() {
  if (make_state_) {
    const auto make = std::exchange(make_state_, nullptr);
    state_ = make();
  }
  return state_;
}

void Random::derive(std::function<Value()> make) { make_state_ = std::move(make); }

void Random::begin(Value state) {
  state_ = std::move(state);
  make_state_ = nullptr;
  ordinals_.clear();
}

std::int64_t Random::next_stream(std::string_view scope) {
  auto it = ordinals_.find(scope);
  if (it == ordinals_.end()) it = ordinals_.emplace(std::string(scope), 0).first;
  const std::string name = it->first + "#" + std::to_string(it->second++);
  return static_cast<std::int64_t>(stream_hash(name.c_str()));
}

Session::Session(std::unique_ptr<Interpreter> interpreter, std::shared_ptr<opencl::Device> device, std::uint64_t seed)
    : device_(std::move(device)), interpreter_(std::move(interpreter)), trace_(interpreter_.get()), seed_(seed) {
  arena_ = std::make_unique<Arena>();
  executors_ = std::make_unique<ExecutorCache>();
  manual_seed(seed);
}

Session::Session(std::shared_ptr<opencl::Device> device, std::uint64_t seed) : Session(std::make_unique<DeviceInterpreter>(device), device, seed) {}

std::unique_ptr<Session> Session::reference(std::uint64_t seed) {
  return std::unique_ptr<Session>(new Session(std::make_unique<ReferenceInterpreter>(), nullptr, seed));
}

Session::~Session() {
  for (const auto& weak : released_at_end_)
    if (const auto node = weak.lock()) {
      node->hooks.clear();
      node->accumulated = {};
    }
  *itself_ = nullptr;
}

void Session::release_at_end(const std::shared_ptr<Node>& node) {
  released_at_end_.insert(node);
  if (released_at_end_.size() < look_for_expired_at_) return;
  std::erase_if(released_at_end_, [](const auto& weak) { return weak.expired(); });
  look_for_expired_at_ = std::max(look_for_expired_at_, 2 * released_at_end_.size());
}

opencl::Device& Session::device() {
  if (!device_) throw UsageError("session: the reference session has no device");
  return *device_;
}

void Session::check_thread() const {
  if (std::this_thread::get_id() != thread_) throw UsageError("session: used in a thread that did not make it; accepted: a session of its own for each thread");
}

Executor& Session::executor(const std::shared_ptr<const Program>& program) { return executors_->find(*this, program); }

Value Session::empty(const Spec& spec, std::string_view what) {
  auto storage = std::make_shared<Storage>(*this, spec.elements());
  storage->memory = interpreter_->allocate(spec, what);
  return {spec, std::move(storage)};
}

namespace {
void check_size(const Spec& spec, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) != spec.bytes())
    throw ShapeError("tensor: " + std::to_string(bytes) + " bytes given for " + to_string(spec) + "; accepted: " + std::to_string(spec.bytes()));
}
}  // namespace

Value Session::tensor(const Spec& spec, std::span<const std::byte> bytes) {
  check_size(spec, bytes.size());
  Value out = empty(spec);
  interpreter_->write(out, bytes);
  return out;
}

Value Session::tensor(const Spec& spec, std::shared_ptr<const std::vector<std::byte>> bytes) {
  check_size(spec, bytes->size());
  Value out = empty(spec);
  interpreter_->write(out, std::move(bytes));
  return out;
}

namespace {
void check_count(const Spec& spec, std::size_t given) {
  if (static_cast<std::int64_t>(given) != spec.elements())
    throw ShapeError("tensor: " + std::to_string(given) + " numbers given for " + to_string(spec) + "; accepted: " + std::to_string(spec.elements()));
}
}  // namespace

Value Session::tensor(const Spec& spec, std::span<const float> values) {
  if (spec.dtype != DType::float32) return tensor(spec, std::span<const double>(std::vector<double>(values.begin(), values.end())));
  check_count(spec, values.size());
  return tensor(spec, std::as_bytes(values));
}

Value Session::tensor(const Spec& spec, std::span<const double> values) {
  check_count(spec, values.size());
  if (!has_device() && is_floating(spec.dtype)) {
    Value out = empty(spec);
    const auto cells = static_cast<HostMemory&>(*out.storage()->memory).reals();
    std::copy(values.begin(), values.end(), cells.begin());
    if (is_two_bytes(spec.dtype))
      for (double& x : cells) x = rounded_to(spec.dtype, x);
    return out;
  }
  return tensor(spec, std::span<const std::byte>(bytes_from_numbers(spec.dtype, values)));
}

void Session::begin_random_step(std::int64_t step, std::int64_t first_sample) { random().begin(random_state(*this, step, first_sample)); }

void Session::begin_random_step(std::int64_t step, std::span<const std::int64_t> places) { random().begin(random_state(*this, step, 0, places)); }

Value random_state(Session& session, std::int64_t step, std::int64_t first_sample, std::span<const std::int64_t> places) {
  std::vector<std::int64_t> state{static_cast<std::int64_t>(session.seed()), step, first_sample, 0};
  state.insert(state.end(), places.begin(), places.end());
  return session.tensor(i64({std::ssize(state)}), std::as_bytes(std::span(state)));
}

void Session::manual_seed(std::uint64_t seed) {
  seed_ = seed;
  begun_.clear();
  begin_random_step(0);
}

NameScope::NameScope(Session& session, std::string_view name)
    : path_(session, std::make_shared<const std::string>(session.scope()->empty() ? std::string(name) : *session.scope() + "." + std::string(name))) {}

namespace {
const Storage& concrete(const Value& value, const char* what) {
  if (!value) throw UsageError(std::string(what) + ": an empty value");
  refuse_rows(std::string(what) + ": the value", value);
  if (!value.storage()->memory)
    throw UsageError(std::string(what) + ": the value " + to_string(value.spec()) + " is symbolic, a name in the graph '" +
                     (value.storage()->graph ? *value.storage()->graph : "") + "'; run the graph and fetch it, or use cond and while_loop to decide by it");
  return *value.storage();
}
}  // namespace

std::vector<std::byte> read_bytes(const Value& value) {
  concrete(value, "read");
  std::vector<std::byte> out(at(value.spec().bytes()));
  value.session().interpreter().read(value, out);
  return out;
}

std::vector<double> read(const Value& value) {
  concrete(value, "read");
  if (!value.session().has_device() && is_floating(value.dtype())) {
    const auto cells = static_cast<HostMemory&>(*value.storage()->memory).reals().subspan(at(value.offset()), at(value.elements()));
    return {cells.begin(), cells.end()};
  }
  return numbers_from_bytes(value.dtype(), read_bytes(value));
}

std::vector<float> read_floats(const Value& value) {
  std::vector<float> out;
  read_floats(value, out);
  return out;
}

void read_floats(const Value& value, std::vector<float>& into) {
  concrete(value, "read");
  if (value.dtype() != DType::float32)
    throw UsageError("read_floats: the tensor is " + to_string(value.spec()) + "; accepted: float32, or read() for numbers of any type");
  into.resize(at(value.elements()));
  value.session().interpreter().read(value, std::as_writable_bytes(std::span(into)));
}

std::function<std::vector<double>()> read_later(const Value& value) {
  return [pending = read_later(std::span(&value, 1))] { return std::move(pending().front()); };
}

std::function<std::vector<std::vector<double>>()> read_later(std::span<const Value> values) {
  if (values.empty()) return [] { return std::vector<std::vector<double>>(); };
  std::vector<DType> types;
  for (const Value& value : values) {
    concrete(value, "read");
    types.push_back(value.dtype());
  }
  return [pending = values[0].session().interpreter().read_later(values), types = std::move(types)] {
    const auto bytes = pending();
    std::vector<std::vector<double>> out;
    for (std::size_t i = 0; i < bytes.size(); ++i) out.push_back(numbers_from_bytes(types[i], bytes[i]));
    return out;
  };
}

void write(const Value& value, std::span<const std::byte> bytes) {
  concrete(value, "write");
  if (static_cast<std::int64_t>(bytes.size()) != value.spec().bytes())
    throw ShapeError("write: " + std::to_string(bytes.size()) + " bytes given for " + to_string(value.spec()));
  value.session().interpreter().write(value, bytes);
  count_write(*value.storage());
}

}  // namespace gemel
