#include "tests/support/operators/kernel_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "engine/base/numbers.h"
#include "engine/device/counted_problem.h"
#include "engine/device/device_memory.h"
#include "engine/device/dispatch.h"
#include "tests/support/operators/op_harness.h"

namespace gemel::testing {
namespace {

std::map<std::string, std::int64_t> options_in(const std::string& text) {
  std::map<std::string, std::int64_t> out;
  const std::regex option("-D([A-Z_]+)=(-?[0-9]+)\\b");
  for (std::sregex_iterator i(text.begin(), text.end(), option), end; i != end; ++i) out[(*i)[1]] = std::stoll((*i)[2]);
  return out;
}

/// What oclgrind's counts of instructions say.
TrafficByKernel traffic_in(const std::string& text) {
  TrafficByKernel out;
  std::string kernel;
  const std::regex head("Instructions executed for kernel '(.*)':"), access(".* - (load|store) global \\(([0-9]+) bytes\\)");
  std::smatch found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, head)) kernel = found[1];
    if (std::regex_match(line, found, access)) (found[1] == "load" ? out[kernel].loaded : out[kernel].stored) += std::stod(found[2]);
  }
  return out;
}

}  // namespace

double KernelOfSample::extent(std::size_t input, int axis) const {
  const Shape& shape = sample.inputs[input].shape;
  return static_cast<double>(shape[axis < 0 ? shape.rank() + axis : axis]);
}

const Variant& TrafficCase::its_variant() const {
  const auto found = std::ranges::find_if(op.variants, [&](const Variant& v) { return std::string(v.name) == variant; });
  if (found == op.variants.end()) throw std::invalid_argument(op.name + " has no variant " + variant);
  return *found;
}

TrafficByKernel counted_traffic(const TrafficCase& c, const Sample& sample, const opencl::DeviceProfile& profile) {
  opencl::DeviceProfile without_cache = profile;
  without_cache.cache_bytes = 0;  // what would stay in it is loaded and stored too
  const Specs outputs = c.op.infer(sample.inputs, sample.attributes);
  const CountedProblem all = count_variant({c.op, sample.attributes, sample.inputs, outputs}, c.its_variant(), without_cache);
  TrafficByKernel out;
  for (std::size_t i = 0; i < all.commands.size(); ++i) {
    const opencl::CountedCommand& k = all.commands[i];
    out[k.name].loaded += static_cast<double>(k.read_bytes);
    out[k.name].stored += static_cast<double>(k.written_bytes);
    const auto again = c.again.find(k.name);
    if (again != c.again.end())
      out[k.name].loaded += 4 * again->second({sample, k.groups, static_cast<double>(k.read_bytes), options_in(all.programs.at(i).options)});
  }
  return out;
}

TrafficByKernel executed_traffic(const TrafficCase& c, const Sample& sample, Session& session) {
  const Values in = inputs_in(session, c.op, sample, numbers_for(c.op, sample), Wanting::no);
  const Specs outputs = c.op.infer(sample.inputs, sample.attributes);
  Values out;
  std::vector<opencl::Region> in_regions, out_regions;
  for (const Spec& spec : outputs) out.push_back(session.tensor(spec, std::vector<std::byte>(at(spec.bytes()))));
  for (const Value& v : in) in_regions.push_back(region_of(v));
  for (const Value& v : out) out_regions.push_back(region_of(v));
  session.device().finish();
  ::testing::internal::CaptureStdout();
  launch(session, c.its_variant(), {c.op, sample.attributes, sample.inputs, outputs}, in_regions, out_regions);
  session.device().finish();
  return traffic_in(::testing::internal::GetCapturedStdout());
}

}  // namespace gemel::testing
