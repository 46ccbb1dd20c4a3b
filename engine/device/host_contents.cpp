#include "engine/device/host_contents.h"

#include <algorithm>
#include <map>
#include <memory>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "engine/core/session.h"
#include "engine/device/device_access.h"

namespace gemel {
namespace {

/// Elements of a slab.
struct Range {
  std::int64_t begin, end;
};

Range range_of(const Value& part) {
  const std::int64_t begin = part.storage()->first + part.offset();
  return {begin, begin + part.elements()};
}

using Slabs = std::map<std::shared_ptr<Storage>, Range>;

/// The ranges that hold all of the values that lie in slabs.
Slabs slabs_of(std::span<const Value> values) {
  Slabs out;
  for (const Value& v : values) {
    if (!v.storage()->whole) continue;
    const Range own = range_of(v);
    Range& all = out.emplace(v.storage()->whole, own).first->second;
    all = {std::min(all.begin, own.begin), std::max(all.end, own.end)};
  }
  return out;
}

}  // namespace

HostContents::HostContents(std::span<const Value> values) {
  struct Seen {
    Range range;
    std::span<const std::byte> bytes;
  };
  std::map<const Storage*, Seen> seen;
  for (const auto& [slab, range] : slabs_of(values)) {
    const Value all(f32({range.end - range.begin}), slab, range.begin);
    std::span<const std::byte> bytes;
    if (all.session().has_device() && all.elements() > 0) {
      read_bytes(all.view(f32({1}), 0));  // waits, and tells of an index that was out of range
      bytes = views_.emplace_back(View{all, map(all, Access::read, {})}).bytes.bytes();
    } else {
      bytes = copies_.emplace_back(read_bytes(all));
    }
    seen.emplace(slab.get(), Seen{range, bytes});
  }
  for (const Value& v : values) {
    if (const auto found = seen.find(v.storage()->whole.get()); found != seen.end()) {
      const auto& [range, bytes] = found->second;
      contents_.push_back(bytes.subspan(at((range_of(v).begin - range.begin) * std::int64_t{sizeof(float)}), at(v.spec().bytes())));
    } else {
      contents_.push_back(copies_.emplace_back(read_bytes(v)));
    }
  }
}

HostContents::~HostContents() {
  for (View& view : views_) {
    try {
      wait_for(view.range.session(), view.bytes.release());
    } catch (const Error&) {  // the device is lost: who uses it next is told
    }
  }
}

}  // namespace gemel
