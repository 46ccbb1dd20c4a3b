#include "parallel/ddp/gradient_memory.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/device/device_access.h"
#include "engine/ops/ops.h"

namespace gemel::parallel {
namespace {

constexpr std::int64_t kProbeElements = kHostPage / std::int64_t{sizeof(float)};

bool holds(std::span<const float> seen, float value) {
  return std::ranges::all_of(seen, [value](float x) { return x == value; });
}

bool sees_changes(Session& session, const HostBytes& memory) {
  const std::span<float> seen(reinterpret_cast<float*>(memory.first.get()), at(kProbeElements));
  const Slab slab(session, {f32({kProbeElements})}, "probe", [&](std::int64_t) { return memory; });
  const Value& whole = slab.whole();
  mark(session).wait();  // it is filled with zeros
  for (const float x : {1.f, 3.f}) {
    std::ranges::fill(seen, x);
    apply(add_def(), list(whole, full(session, whole.spec(), 1)), {}, std::span(&whole, 1));
    mark(session).wait();
    if (!holds(seen, x + 1)) return false;
  }
  return true;
}

}  // namespace

bool computes_in_place(Session& session, const HostBytes& memory) {
  try {
    return memory.first && sees_changes(session, memory);
  } catch (const Error&) {  // a driver that refuses such memory
    return false;
  }
}

GradientMemory::GradientMemory(Session& session, CommunicationThread& communication, Collectives* among) : communication_(communication), among_(among) {
  const HostBytes memory = communication.run([among](Collectives& all) { return (among ? *among : all).allocate_shared(kHostPage); });
  std::int32_t good = computes_in_place(session, memory);
  communication.run([among, &good](Collectives& all) {
    (among ? *among : all).all_reduce({reinterpret_cast<std::byte*>(&good), 1, DType::int32}, Reduction::min);
  });
  in_place_ = good != 0;
}

HostMemorySource GradientMemory::source() {
  if (!in_place_) return {};
  return [given = given_, &communication = communication_, among = among_](std::int64_t bytes) {
    given->push_back(communication.run([bytes, among](Collectives& all) { return (among ? *among : all).allocate_shared(bytes); }));
    return given->back();  // none where the machine has too little of it: then gradients are brought to the others in pieces
  };
}

std::byte* GradientMemory::find(const Slab& gradients) const {
  HostView view = map(gradients.whole().view(f32({1}), 0), Access::read, Event());
  std::byte* const first = view.bytes().data();
  for (const HostBytes& memory : *given_)
    if (memory.first.get() == first) return first;
  return nullptr;
}

}  // namespace gemel::parallel
