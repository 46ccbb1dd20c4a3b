// ResponseCache: requests that the ranks have agreed on before. Each has a bit, the same on every rank, so that a rank tells by bits alone which
// of them it asks for again.
#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "parallel/horovod/request.h"

namespace gemel::parallel::horovod {

/// Ranks that insert, use and erase the same names in the same order have the same bits.
class ResponseCache {
 public:
  /// @param capacity  requests; 0: nothing is kept
  explicit ResponseCache(std::size_t capacity) : bits_(capacity) {}

  std::size_t capacity() const { return bits_.size(); }
  enum class Found { no, same, other };  // of other form: the ranks have to agree anew
  Found find(const Request& request) const;
  std::size_t bit(const std::string& name) const { return entries_.at(name).bit; }
  /// What a bit stands for: as this rank asked for it, or where it had joined as another did.
  const Request& at_bit(std::size_t bit) const { return entries_.at(bits_[bit]).request; }
  /// The ranks have carried it out: it is the last to make room.
  void used(const Request& request);
  void erase(const std::string& name);

 private:
  struct Entry {
    Request request;
    std::size_t bit;
    std::list<std::string>::iterator place;  // in `order_`
  };
  std::map<std::string, Entry> entries_;
  std::list<std::string> order_;   // least recently used first
  std::vector<std::string> bits_;  // [bit] a name; empty: free
};

}  // namespace gemel::parallel::horovod
