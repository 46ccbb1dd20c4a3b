// Request: a rank's request of a collective on a named tensor. Ranks make requests in any order; each is carried out once all ranks have made it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/shape.h"
#include "parallel/transport/communicator.h"
#include "parallel/transport/uneven_inputs.h"

namespace gemel::parallel::horovod {

enum class Operation : std::uint8_t { all_reduce, all_gather, broadcast, reduce_scatter, all_to_all, join };
/// "all_reduce", "all_gather", ...
const char* to_string(Operation operation);

/// A request. It is the same on every rank for one name, except for the first extent of what is gathered or exchanged.
struct Request {
  Operation operation = Operation::all_reduce;
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  DType wire = DType::float32;  // type that is communicated: dtype, or a two-byte type for float32
  Reduction reduction = Reduction::mean;
  double prescale = 1, postscale = 1;
  int root = 0;
  std::string group;  // requests of one group are carried out together; empty: none
  int members = 1;    // of the group

  std::int64_t bytes() const { return shape.elements() * static_cast<std::int64_t>(size_of(dtype)); }
  bool operator==(const Request&) const = default;
};

/// A rank and its request, for `disagreement`.
struct FromRank {
  int rank;
  const Request& request;
};
/// Returns the text of the error if two ranks' requests of one name differ; empty if they agree.
std::string disagreement(const FromRank& a, const FromRank& b);

/// Settings that are tuned: largest fused message, and time between cycles.
struct Tuned {
  std::int64_t fusion_bytes = 0;
  double cycle_ms = 0;
  bool operator==(const Tuned&) const = default;
};

/// A rank's message to all others in a round of negotiation.
struct Message {
  std::vector<Request> fresh;      // requests that the ranks have not agreed on yet, or that have changed
  std::vector<Request> overdue;    // agreed requests that wait for long, or are the last of a rank that leaves, so that all know who made them
  std::optional<Place> ends;       // set if this rank makes no more requests: its step or number of requests
  std::int64_t packing_bytes = 0;  // shared memory that this rank needs for packing; 0: it has enough
  // From rank 0, which decides by its clock:
  std::optional<Tuned> tuned;  // settings from now on
  std::string give_up;         // why all ranks end; empty: they go on
};
std::vector<std::byte> packed(const Message& message);
/// Decodes a message of `packed`.
/// @throws CommError for any other bytes
Message unpacked(std::span<const std::byte> bytes);

}  // namespace gemel::parallel::horovod
