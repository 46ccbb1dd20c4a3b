#include "engine/reference/reference_interpreter.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "engine/base/dtype_conversion.h"

namespace gemel {

HostMemory::HostMemory(std::int64_t elements) : elements_(at(elements)), own_(std::make_unique<std::byte[]>(at(elements) * sizeof(Cell))), cells_(own_.get()) {}

HostMemory::HostMemory(std::shared_ptr<const Memory> whole, std::int64_t first, std::int64_t elements)
    : elements_(at(elements)), whole_(std::move(whole)), cells_(static_cast<const HostMemory&>(*whole_).cells_ + at(first) * sizeof(Cell)) {}

namespace {
template <class T>
std::span<T> cells(const Value& v) {
  return static_cast<const HostMemory&>(*v.storage()->memory).as<T>().subspan(at(v.offset()), at(v.elements()));
}
}  // namespace

void ReferenceInterpreter::compute_now(const OpDef& op, const Attributes& attributes, std::span<const Value> in, std::span<const Value> out, Prepared*) {
  if (op.execute) return op.execute(*this, attributes, in, out);
  if (!op.reference) throw InternalError(op.name + ": the record has no reference");
  op.reference(HostCall(op, attributes, in, out));
  for (const Value& y : out)
    if (is_two_bytes(y.dtype()))
      for (double& x : cells<double>(y)) x = rounded_to(y.dtype(), x);
}

std::unique_ptr<Memory> ReferenceInterpreter::allocate(const Spec& spec, std::string_view) { return std::make_unique<HostMemory>(spec.elements()); }

namespace {
constexpr std::int64_t kBytesOfElement = 4;  // of divided memory, on a device
}  // namespace

std::int64_t ReferenceInterpreter::largest_allocation() const { return std::numeric_limits<std::int64_t>::max(); }

std::unique_ptr<Memory> ReferenceInterpreter::allocate_bytes(std::int64_t bytes, std::string_view) {
  return std::make_unique<HostMemory>(bytes / kBytesOfElement);
}

std::unique_ptr<Memory> ReferenceInterpreter::part_of(std::shared_ptr<const Memory> whole, std::int64_t offset, std::int64_t bytes) const {
  return std::make_unique<HostMemory>(std::move(whole), offset / kBytesOfElement, bytes / kBytesOfElement);
}

void ReferenceInterpreter::write(const Value& to, std::span<const std::byte> from) {
  if (to.dtype() == DType::int64) {  // the one type that a double cannot hold
    std::ranges::copy(from, std::as_writable_bytes(cells<std::int64_t>(to)).begin());
    return;
  }
  const std::vector<double> numbers = numbers_from_bytes(to.dtype(), from);
  if (is_floating(to.dtype()))
    std::copy(numbers.begin(), numbers.end(), cells<double>(to).begin());
  else
    std::transform(numbers.begin(), numbers.end(), cells<std::int64_t>(to).begin(), [](double v) { return static_cast<std::int64_t>(v); });
}

void ReferenceInterpreter::read(const Value& from, std::span<std::byte> to) {
  if (from.dtype() == DType::int64) {
    std::ranges::copy(std::as_bytes(cells<std::int64_t>(from)), to.begin());
    return;
  }
  std::vector<double> numbers;
  if (is_floating(from.dtype())) {
    const auto reals = cells<double>(from);
    numbers.assign(reals.begin(), reals.end());
  } else {
    for (std::int64_t v : cells<std::int64_t>(from)) numbers.push_back(static_cast<double>(v));
  }
  std::ranges::copy(bytes_from_numbers(from.dtype(), numbers), to.begin());
}

PendingBytes ReferenceInterpreter::read_later(std::span<const Value> from) {
  std::vector<std::vector<std::byte>> all;
  for (const Value& value : from) read(value, all.emplace_back(at(value.spec().bytes())));
  return [all = std::move(all)] { return all; };
}

void ReferenceInterpreter::copy(const Value& from, const Value& to) {
  const auto source = cells<Cell>(from);
  if (!source.empty()) std::memmove(cells<Cell>(to).data(), source.data(), source.size_bytes());
}

}  // namespace gemel
