#include "engine/device/device_interpreter.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/counted_problem.h"
#include "engine/device/device_memory.h"
#include "opencl/device/device.h"

namespace gemel {
namespace {

// As in index.clh.
using ErrorWord = std::array<std::int32_t, 5>;
constexpr std::int32_t kLengthOutOfRange = 2;

std::int64_t whole_of(const ErrorWord& word, std::size_t lower) { return std::int64_t{word[lower + 1]} << 32 | static_cast<std::uint32_t>(word[lower]); }

}  // namespace

opencl::Region region_of(const Value& value) {
  const opencl::Region& whole = static_cast<const DeviceMemory&>(*value.storage()->memory).region();
  return {whole.block, whole.offset + value.offset() * static_cast<std::int64_t>(size_of(value.dtype())), value.spec().bytes()};
}

DeviceInterpreter::DeviceInterpreter(std::shared_ptr<opencl::Device> device)
    : device_(std::move(device)),
      error_(device_->memory().allocate(sizeof(ErrorWord), "error word")),
      target_{*device_, opencl::whole(error_)},
      launches_(target_) {
  const std::byte zero{};
  device_->fill(target_.error_word, std::span(&zero, 1));
}

/// Kernels leave an index or a length that was out of range in the error word, which comes with every value that the host reads.
/// @throws DataError if there is one; clears the word, so that it is told once
void DeviceInterpreter::check_error_word(std::span<const std::byte> bytes) {
  ErrorWord word{};
  std::memcpy(word.data(), bytes.data(), sizeof word);
  if (word[0] == 0) return;
  const std::byte zero{};
  device_->fill(target_.error_word, std::span(&zero, 1));
  const char* what = word[0] == kLengthOutOfRange ? "a length" : "an index or label";
  throw DataError(fmt::format("{} {} is out of range; accepted: 0..{}", what, whole_of(word, 1), whole_of(word, 3) - 1));
}

const LaunchTarget& launch_target(Session& session) {
  session.device();  // refuses where there is none
  return static_cast<DeviceInterpreter&>(session.interpreter()).launch_target();
}

void DeviceInterpreter::compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> in, std::span<const Value> out, Prepared* prepared) {
  if (op.execute) return op.execute(*this, attributes, in, out);
  if (prepared) return static_cast<PreparedLaunch&>(*prepared).run(in, out);
  if (PreparedLaunch* kept = launches_.find(op, attributes, in)) return kept->run(in, out);
  launches_.make(op, attributes, specs_of(in), specs_of(out))->run(in, out);
}

std::shared_ptr<Prepared> DeviceInterpreter::prepare(const OpDef& op, const Attributes& attributes, const Specs& in, const Specs& out) {
  if (op.execute) return nullptr;
  return launches_.make(op, attributes, in, out);
}

void DeviceInterpreter::expect(std::span<const OwnedProblem> problems) {
  const opencl::DeviceProfile& profile = device_->profile();
  if (!profile.builds_ahead()) return;
  std::set<std::string> known;
  std::set<opencl::ProgramRequest> programs;
  for (const OwnedProblem& owned : problems) {
    const Problem p = owned.problem();
    if (p.op.variants.empty() || !known.insert(p.op.name + to_string(p) + (p.op.epilogue ? p.op.epilogue->text : "")).second) continue;
    try {
      for (opencl::ProgramRequest& r : count_problem(p, profile).programs) programs.insert(std::move(r));
    } catch (const DeviceError&) {
      // All variants decline it, which is told where it is computed.
    }
  }
  device_->build(std::vector(programs.begin(), programs.end()));
}

std::unique_ptr<Memory> DeviceInterpreter::allocate(const Spec& spec, std::string_view what) {
  name_.assign(what).push_back(' ');
  append(name_, spec);
  return std::make_unique<DeviceMemory>(device_->memory().allocate(spec.bytes(), name_));
}

std::optional<ArenaLimits> DeviceInterpreter::arena_limits() const {
  if (device_->memory().exact() || !device_->settings().memory_plan) return std::nullopt;  // exact: a memory checker needs a buffer for each slot
  return ArenaLimits{device_->profile().base_alignment_bytes, device_->profile().max_allocation_bytes};
}

std::unique_ptr<Memory> DeviceInterpreter::allocate_bytes(std::int64_t bytes, std::string_view what) {
  return std::make_unique<DeviceMemory>(device_->memory().allocate(bytes, what));
}

std::int64_t DeviceInterpreter::largest_allocation() const { return device_->profile().max_allocation_bytes; }
void DeviceInterpreter::trim() { device_->memory().trim(); }

std::unique_ptr<Memory> DeviceInterpreter::part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const {
  const opencl::Region& region = static_cast<const DeviceMemory&>(*whole).region();
  return std::make_unique<DeviceMemory>(std::move(whole), opencl::Region{region.block, region.offset + offset, bytes});
}

void DeviceInterpreter::write(const Value& to, std::span<const std::byte> from) {
  if (!from.empty()) device_->write(region_of(to), from);
}
void DeviceInterpreter::write(const Value& to, std::shared_ptr<const std::vector<std::byte>> from) {
  if (!from->empty()) device_->write(region_of(to), std::move(from));
}
void DeviceInterpreter::write(const Value& to, const std::function<void(std::span<std::byte>)>& make) {
  if (to.spec().elements() > 0) device_->write(region_of(to), make);
}
void DeviceInterpreter::read(const Value& from, std::span<std::byte> to) {
  if (to.empty()) return;
  const auto word = device_->read_later(target_.error_word);
  device_->read(region_of(from), to);
  check_error_word(word->get());
}
PendingBytes DeviceInterpreter::read_later(std::span<const Value> from) {
  std::vector<opencl::Region> regions;
  for (const Value& value : from) regions.push_back(region_of(value));
  regions.push_back(target_.error_word);
  std::shared_ptr<opencl::PendingRead> pending = device_->read_later(regions);
  return [this, pending, regions] {
    std::span<const std::byte> rest = pending->get();
    check_error_word(rest.last(sizeof(ErrorWord)));
    std::vector<std::vector<std::byte>> out;
    for (const opencl::Region& region : std::span(regions).first(regions.size() - 1)) {
      out.emplace_back(rest.begin(), rest.begin() + region.bytes);
      rest = rest.subspan(at(region.bytes));
    }
    return out;
  };
}
void DeviceInterpreter::copy(const Value& from, const Value& to) {
  if (from.elements()) device_->copy(region_of(from), region_of(to));
}

}  // namespace gemel
