#include "parallel/horovod/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <type_traits>

#include "engine/base/error.h"

namespace gemel::parallel::horovod {
namespace {

class Writer {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof value);
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    const auto* first = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), first, first + text.size());
  }
  void put(const Request& r) {
    put(r.operation);
    put(r.name);
    put(r.dtype);
    put(r.shape.rank());
    for (const std::int64_t extent : r.shape) put(extent);
    put(r.wire);
    put(r.reduction);
    put(r.prescale);
    put(r.postscale);
    put(r.root);
    put(r.group);
    put(r.members);
  }
  void put(const std::vector<Request>& requests) {
    put(static_cast<std::uint64_t>(requests.size()));
    for (const Request& r : requests) put(r);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, taken(sizeof value), sizeof value);
    return value;
  }
  /// Any other byte would be no value of a bool.
  bool flag() {
    const auto byte = get<std::uint8_t>();
    if (byte > 1) throw CommError(fmt::format("horovod: a message has {} where 0 or 1 stands", byte));
    return byte == 1;
  }
  std::string text() {
    const auto n = get<std::uint64_t>();
    return {reinterpret_cast<const char*>(taken(n)), n};
  }
  Request request() {
    Request r;
    r.operation = get<Operation>();
    r.name = text();
    r.dtype = get<DType>();
    const int rank = get<int>();
    for (int i = 0; i < rank; ++i) r.shape.push_back(get<std::int64_t>());
    r.wire = get<DType>();
    r.reduction = get<Reduction>();
    r.prescale = get<double>();
    r.postscale = get<double>();
    r.root = get<int>();
    r.group = text();
    r.members = get<int>();
    return r;
  }
  std::vector<Request> requests() {
    std::vector<Request> out;
    for (auto n = get<std::uint64_t>(); n > 0; --n) out.push_back(request());
    return out;
  }

 private:
  const std::byte* taken(std::uint64_t n) {
    if (n > left_.size()) throw CommError("horovod: a message ends too early");
    const std::byte* first = left_.data();
    left_ = left_.subspan(n);
    return first;
  }
  std::span<const std::byte> left_;
};

/// Of what is gathered or exchanged the first extent is each rank's own.
bool same_shapes(const Request& a, const Request& b) {
  if (a.shape.rank() != b.shape.rank()) return false;
  const bool own_rows = (a.operation == Operation::all_gather || a.operation == Operation::all_to_all) && a.shape.rank() > 0;
  for (int i = own_rows ? 1 : 0; i < a.shape.rank(); ++i)
    if (a.shape[i] != b.shape[i]) return false;
  return true;
}

std::string text_of(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.span(), ", ")); }
std::string text_of(const Request& r) { return r.group.empty() ? "no group" : fmt::format("{} of {}", r.group, r.members); }

}  // namespace

const char* to_string(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::all_gather:
      return "all_gather";
    case Operation::broadcast:
      return "broadcast";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::join:
      return "join";
  }
  return "";
}

std::string disagreement(const FromRank& a, const FromRank& b) {
  const Request &x = a.request, &y = b.request;
  const auto differ = [&](std::string_view what, const auto& of_a, const auto& of_b) {
    return fmt::format("horovod: {}: the {} differs: {} on rank {}, {} on rank {}; accepted: the same on every rank", x.name, what, of_a, a.rank, of_b, b.rank);
  };
  if (x.operation != y.operation) return differ("operation", to_string(x.operation), to_string(y.operation));
  if (x.dtype != y.dtype) return differ("type", to_string(x.dtype), to_string(y.dtype));
  if (!same_shapes(x, y)) return differ("shape", text_of(x.shape), text_of(y.shape));
  if (x.root != y.root) return differ("root", x.root, y.root);
  if (x.reduction != y.reduction) return differ("reduction", to_string(x.reduction), to_string(y.reduction));
  if (x.wire != y.wire) return differ("compression", to_string(x.wire), to_string(y.wire));
  if (x.prescale != y.prescale) return differ("scale before it", x.prescale, y.prescale);
  if (x.postscale != y.postscale) return differ("scale behind it", x.postscale, y.postscale);
  if (x.group != y.group || x.members != y.members) return differ("group", text_of(x), text_of(y));
  return {};
}

std::vector<std::byte> packed(const Message& m) {
  Writer out;
  out.put(m.fresh);
  out.put(m.overdue);
  out.put(m.ends.has_value());
  out.put(m.ends.value_or(Place{}));
  out.put(m.packing_bytes);
  out.put(m.tuned.has_value());
  out.put(m.tuned.value_or(Tuned{}));
  out.put(m.give_up);
  return out.take();
}

Message unpacked(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Message m;
  m.fresh = in.requests();
  m.overdue = in.requests();
  const bool ends = in.flag();
  const auto place = in.get<Place>();
  if (ends) m.ends = place;
  m.packing_bytes = in.get<std::int64_t>();
  const bool has_tuned = in.flag();
  const auto tuned = in.get<Tuned>();
  if (has_tuned) m.tuned = tuned;
  m.give_up = in.text();
  return m;
}

}  // namespace gemel::parallel::horovod
