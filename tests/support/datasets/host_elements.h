// Elements of tensors on the host, as data sets give them.
#pragma once
#include <cstring>
#include <vector>

#include "datasets/loading/batch.h"

namespace gemel::testing {

template <class T>
std::vector<T> elements(const datasets::HostTensor& t) {
  std::vector<T> out(t.bytes->size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), t.bytes->data(), t.bytes->size());
  return out;
}

}  // namespace gemel::testing
