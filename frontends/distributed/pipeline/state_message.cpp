#include "frontends/distributed/pipeline/state_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/files/file.h"
#include "engine/base/numbers.h"

namespace gemel::distributed {
namespace {

using Tensors = std::vector<train::RanksState::Tensor>;
using Bytes = std::vector<std::byte>;

nlohmann::json head_of(const Tensors& tensors) {
  auto out = nlohmann::json::array();
  for (const auto& t : tensors) out.push_back({t.name, static_cast<int>(t.spec.dtype), std::vector<std::int64_t>(t.spec.shape.begin(), t.spec.shape.end())});
  return out;
}

[[noreturn]] void refuse_state(const std::string& what) {
  throw CommError(fmt::format("pipeline: the state of a stage {}; accepted: what ranks of one version send", what));
}

}  // namespace

Bytes packed(const train::RanksState& state) {
  const std::string head = nlohmann::json{{"model", head_of(state.model)}, {"slots", head_of(state.slots)}, {"steps", state.parameter_steps}}.dump();
  const std::uint64_t length = head.size();
  Bytes out(sizeof length + head.size());
  std::memcpy(out.data(), &length, sizeof length);
  std::memcpy(out.data() + sizeof length, head.data(), head.size());
  for (const Tensors* all : {&state.model, &state.slots})
    for (const auto& t : *all) out.insert(out.end(), t.bytes.begin(), t.bytes.end());
  return out;
}

train::RanksState unpacked_state(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  if (bytes.size() < sizeof length) refuse_state(fmt::format("has {} bytes", bytes.size()));
  std::memcpy(&length, bytes.data(), sizeof length);
  std::span<const std::byte> rest = bytes.subspan(sizeof length);
  if (length > rest.size()) refuse_state(fmt::format("names its contents in {} of {} bytes", length, rest.size()));
  const auto head = nlohmann::json::parse(as_text(rest.first(length)), nullptr, false);
  rest = rest.subspan(length);
  const auto take = [&](const nlohmann::json& list) {
    Tensors out;
    for (const auto& t : list) {
      const auto extents = t.at(2).get<std::vector<std::int64_t>>();
      const int type = t.at(1).get<int>();
      if (std::ranges::any_of(extents, [](std::int64_t e) { return e < 0; }) || type < 0 || type > static_cast<int>(DType::boolean))
        refuse_state("has a tensor of no shape or type");
      const Spec spec{Shape(std::span<const std::int64_t>(extents)), static_cast<DType>(type)};
      if (spec.bytes() > std::ssize(rest)) refuse_state(fmt::format("ends before {}", t.at(0).get<std::string>()));
      const auto contents = rest.first(at(spec.bytes()));
      out.push_back({t.at(0).get<std::string>(), spec, Bytes(contents.begin(), contents.end())});
      rest = rest.subspan(contents.size());
    }
    return out;
  };
  try {
    train::RanksState out;
    out.model = take(head.at("model"));
    out.slots = take(head.at("slots"));
    out.parameter_steps = head.at("steps").get<std::map<std::string, std::int64_t>>();
    return out;
  } catch (const nlohmann::json::exception&) {
    refuse_state("does not say what it holds");
  }
}

}  // namespace gemel::distributed
