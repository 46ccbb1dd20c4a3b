// ResponseCache: requests that the ranks have agreed on before. Each has a bit, the same on every rank, so that a rank can repeat requests by sending bits
// alone.
#pragma once
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "parallel/horovod/request.h"

namespace gemel::parallel::horovod {

/// A cache of least recently used requests. Ranks that insert, use and erase the same names in the same order have the same bits.
class ResponseCache {
 public:
  /// @param capacity  largest number of requests; 0: none
  explicit ResponseCache(std::size_t capacity) : bits_(capacity) {}

  std::size_t capacity() const { return bits_.size(); }
  enum class Found { no, same, other };  // other: changed, so that the ranks must agree again
  Found find(const Request& request) const;
  std::size_t bit(const std::string& name) const { return entries_.at(name).bit; }
  /// Returns the request of a bit, as this rank made it, or another rank if this one had joined.
  const Request& at_bit(std::size_t bit) const { return entries_.at(bits_[bit]).request; }
  /// Records that the ranks have carried out a request, which makes it the most recently used.
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
