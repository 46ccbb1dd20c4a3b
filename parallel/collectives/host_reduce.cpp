#include "parallel/collectives/host_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "parallel/collectives/half_precision.h"

// One loop, compiled for each width of vectors and chosen when the program starts. ThreadSanitizer cannot run what chooses, and Clang cannot make
// it of templates.
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define GEMEL_EACH_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GEMEL_EACH_WIDTH
#endif

namespace gemel::parallel {
namespace {

// Elements in memory, and what they are computed in.
template <class T>
struct Plain {
  using Stored = T;
  using Number = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};
struct Float16 {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t v) { return widen_float16(v); }
  static std::uint16_t store(float v) { return narrow_float16(v); }
};
struct Bfloat16 {
  using Stored = std::uint16_t;
  using Number = float;
  static float load(std::uint16_t v) { return widen_bfloat16(v); }
  static std::uint16_t store(float v) { return narrow_bfloat16(v); }
};

struct Add {
  template <class T>
  static T join(T a, T b) {
    return a + b;
  }
};
struct Multiply {
  template <class T>
  static T join(T a, T b) {
    return a * b;
  }
};
// A NaN on either side is the result, so that it cannot be lost on the way.
struct Least {
  template <class T>
  static T join(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Largest {
  template <class T>
  static T join(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

struct BitAnd {
  template <class T>
  static T join(T a, T b) {
    return a & b;
  }
};

template <class Visit>
void visit_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::float32:
      return visit(Plain<float>());
    case DType::float16:
      return visit(Float16());
    case DType::bfloat16:
      return visit(Bfloat16());
    case DType::int32:
      return visit(Plain<std::int32_t>());
    case DType::int64:
      return visit(Plain<std::int64_t>());
    case DType::boolean:
      break;
  }
  throw ShapeError(fmt::format("collective: elements of {} are not reduced; accepted: float32, float16, bfloat16, int32, int64", to_string(dtype)));
}

template <class Visit>
void visit(DType dtype, Reduction reduction, const Visit& visit) {
  visit_type(dtype, [&](auto type) {
    switch (reduction) {
      case Reduction::sum:
      case Reduction::mean:
        return visit(type, Add());
      case Reduction::product:
        return visit(type, Multiply());
      case Reduction::min:
        return visit(type, Least());
      case Reduction::max:
        return visit(type, Largest());
      case Reduction::bit_and:
        if constexpr (std::is_integral_v<typename decltype(type)::Number>)
          return visit(type, BitAnd());
        else
          throw ShapeError(fmt::format("collective: bit_and of {}; accepted: int32, int64", to_string(dtype)));
    }
  });
}

template <class Type, class Op>
GEMEL_EACH_WIDTH void join_into(typename Type::Stored* __restrict to, const typename Type::Stored* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Type::store(Op::join(Type::load(to[i]), Type::load(from[i])));
}

/// Two ranks, both of which get the result.
template <class Type, class Op>
GEMEL_EACH_WIDTH void join_both(typename Type::Stored* __restrict a, typename Type::Stored* __restrict b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] = Type::store(Op::join(Type::load(a[i]), Type::load(b[i])));
}

template <class Type>
GEMEL_EACH_WIDTH void load_run(typename Type::Number* __restrict to, const typename Type::Stored* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Type::load(from[i]);
}
template <class Type>
GEMEL_EACH_WIDTH void store_run(typename Type::Stored* __restrict to, const typename Type::Number* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Type::store(from[i]);
}
template <class Number, class Op>
GEMEL_EACH_WIDTH void join_numbers(Number* __restrict to, const Number* __restrict from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = Op::join(to[i], from[i]);
}

constexpr std::int64_t kBlock = 1024;  // elements: those of a few ranks lie in the first-level cache

template <class Type, class Op>
void join_blocks(const Runs& runs) {
  using Stored = typename Type::Stored;
  using Number = typename Type::Number;
  const std::size_t n = runs.runs.size();
  const std::vector<Join> order = fold_order(static_cast<int>(n));
  const auto memory = std::make_unique_for_overwrite<Number[]>(n * kBlock);  // zeros would cost more than a small sum
  const auto block_of = [&](std::size_t i) { return memory.get() + i * kBlock; };
  for (std::int64_t begin = 0; begin < runs.count; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, runs.count - begin);
    for (std::size_t i = 0; i < n; ++i) load_run<Type>(block_of(i), reinterpret_cast<const Stored*>(runs.runs[i]) + begin, count);
    for (const Join& j : order) join_numbers<Number, Op>(block_of(at(j.first)), block_of(at(j.second)), count);
    for (std::byte* to : runs.results) store_run<Type>(reinterpret_cast<Stored*>(to) + begin, block_of(0), count);
  }
}

}  // namespace

void reduce_into(const Elements& to, const std::byte* from, Reduction reduction) {
  visit(to.dtype, reduction, [&](auto type, auto op) {
    using Stored = typename decltype(type)::Stored;
    join_into<decltype(type), decltype(op)>(reinterpret_cast<Stored*>(to.first), reinterpret_cast<const Stored*>(from), to.count);
  });
}

void reduce_all(const Runs& runs, Reduction reduction) {
  visit(runs.dtype, reduction, [&](auto type, auto op) {
    using Type = decltype(type);
    using Stored = typename Type::Stored;
    if (runs.runs.size() == 2 && std::ranges::equal(runs.runs, runs.results))
      return join_both<Type, decltype(op)>(reinterpret_cast<Stored*>(runs.runs[0]), reinterpret_cast<Stored*>(runs.runs[1]), runs.count);
    join_blocks<Type, decltype(op)>(runs);
  });
}

namespace {

template <class Number>
Number neutral(Add) {
  return 0;
}
template <class Number>
Number neutral(Multiply) {
  return 1;
}
template <class Number>
Number neutral(Least) {
  return std::numeric_limits<Number>::has_infinity ? std::numeric_limits<Number>::infinity() : std::numeric_limits<Number>::max();
}
template <class Number>
Number neutral(Largest) {
  return std::numeric_limits<Number>::has_infinity ? -std::numeric_limits<Number>::infinity() : std::numeric_limits<Number>::lowest();
}
template <class Number>
Number neutral(BitAnd) {
  return ~Number{0};
}

}  // namespace

void fill_neutral(const Elements& elements, Reduction reduction) {
  visit(elements.dtype, reduction, [&](auto type, auto op) {
    using Type = decltype(type);
    std::fill_n(reinterpret_cast<typename Type::Stored*>(elements.first), elements.count, Type::store(neutral<typename Type::Number>(op)));
  });
}

void divide(const Elements& elements, int ranks) {
  visit_type(elements.dtype, [&](auto type) {
    using Type = decltype(type);
    auto* values = reinterpret_cast<typename Type::Stored*>(elements.first);
    const auto n = static_cast<typename Type::Number>(ranks);
    for (std::int64_t i = 0; i < elements.count; ++i) values[i] = Type::store(Type::load(values[i]) / n);
  });
}

std::vector<Join> fold_order(int ranks) {
  std::vector<Join> out;
  if (ranks < 1) return out;
  const int p = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))), extra = ranks - p;
  std::vector<int> holders;
  for (int i = 0; i < extra; ++i) {
    out.push_back({2 * i, 2 * i + 1});
    holders.push_back(2 * i);
  }
  for (int r = 2 * extra; r < ranks; ++r) holders.push_back(r);
  for (int distance = 1; distance < p; distance *= 2)
    for (int i = 0; i < p; i += 2 * distance) out.push_back({holders[at(i)], holders[at(i + distance)]});
  return out;
}

}  // namespace gemel::parallel
