// ColumnStore: columns that were read last, as long as there is room. Zooming asks for the same ones again and again.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gemel::monitor {

/// Columns are known by their content's hash: runs that count the same steps share theirs, and nothing is ever out of date.
template <class T>
class ColumnStore {
 public:
  using Column = std::shared_ptr<const std::vector<T>>;

  /// The column with this hash and length, read where it is not here, as those used before it that fit within `most_bytes` with it stay. Empty if it cannot be
  /// read.
  Column get(std::uint64_t hash, std::size_t rows, std::size_t most_bytes, const std::function<std::optional<std::vector<T>>()>& read) {
    const std::uint64_t key = hash ^ (rows * 0x9e3779b97f4a7c15ull);
    if (const auto found = places_.find(key); found != places_.end() && found->second->second->size() == rows) {
      columns_.splice(columns_.begin(), columns_, found->second);
      return columns_.front().second;
    }
    auto values = read();
    if (!values) return nullptr;
    columns_.emplace_front(key, std::make_shared<const std::vector<T>>(std::move(*values)));
    places_[key] = columns_.begin();
    bytes_ += rows * sizeof(T);
    while (bytes_ > most_bytes && columns_.size() > 1) {
      bytes_ -= columns_.back().second->size() * sizeof(T);
      places_.erase(columns_.back().first);
      columns_.pop_back();
    }
    return columns_.front().second;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
  std::list<std::pair<std::uint64_t, Column>> columns_;  // used last first
  std::unordered_map<std::uint64_t, typename std::list<std::pair<std::uint64_t, Column>>::iterator> places_;
};

}  // namespace gemel::monitor
