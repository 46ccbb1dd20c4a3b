// Request: what a rank asks of the others for one named tensor. Ranks ask in any order; it is carried out once all of them have asked.
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

/// Of one name the same on every rank, but for the first extent of what is gathered or exchanged.
struct Request {
  Operation operation = Operation::all_reduce;
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  DType wire = DType::float32;  // what travels: dtype, or two bytes for float32
  Reduction reduction = Reduction::mean;
  double prescale = 1, postscale = 1;
  int root = 0;
  std::string group;  // carried out together with the others of it; empty: alone
  int members = 1;    // of the group

  std::int64_t bytes() const { return shape.elements() * static_cast<std::int64_t>(size_of(dtype)); }
  bool operator==(const Request&) const = default;
};

/// How a request differs from another rank's of the same name, as an error's text; empty where they agree.
struct FromRank {
  int rank;
  const Request& request;
};
std::string disagreement(const FromRank& a, const FromRank& b);

/// How much is fused, and how often the ranks meet.
struct Tuned {
  std::int64_t fusion_bytes = 0;
  double cycle_ms = 0;
  bool operator==(const Tuned&) const = default;
};

/// What a rank tells all others in a round of negotiation.
struct Message {
  std::vector<Request> fresh;      // that the ranks have not agreed on before, or whose form has changed
  std::vector<Request> overdue;    // that are agreed on, and wait for long, or are the last of a rank that leaves: so that all know who has them
  std::optional<Place> ends;       // this rank asks for nothing more, and has come so far: steps, requests
  std::int64_t packing_bytes = 0;  // memory that all of a machine see, for what this rank packs; 0: it has enough
  // Of rank 0, which decides by its clock:
  std::optional<Tuned> tuned;  // from now on
  std::string give_up;         // why all end; empty: they go on
};
std::vector<std::byte> packed(const Message& message);
/// @throws CommError for bytes that are no message
Message unpacked(std::span<const std::byte> bytes);

}  // namespace gemel::parallel::horovod
