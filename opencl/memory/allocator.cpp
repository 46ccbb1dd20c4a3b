// The two allocators of device memory: one that caches released blocks by size, and an exact one.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/numbers.h"
#include "opencl/event_wait.h"
#include "opencl/memory/block.h"
#include "opencl/memory/host_memory.h"
#include "opencl/memory/large_pages.h"

namespace gemel::opencl {
namespace {

/// Sizes are rounded so that blocks are found again: eight steps to each power of two, of 512 bytes at least, and of a large page at most.
std::int64_t rounded(std::int64_t bytes) {
  std::int64_t step = 512;
  while (step * 16 <= bytes && step < kLargePage) step *= 2;
  return std::max<std::int64_t>(512, round_up(bytes, step));
}

constexpr std::size_t kPartsKept = 256;  // sub-buffers that a cached block keeps for its next holder

bool exact_mode() {
  const char* const text = std::getenv("GEMEL_ALLOCATOR");
  const std::string mode = text ? text : "";
  if (!mode.empty() && mode != "exact") throw UsageError(fmt::format("GEMEL_ALLOCATOR: '{}' is unknown; accepted: exact", mode));
  return mode == "exact";
}

class CachingAllocator : public Allocator {
 public:
  CachingAllocator(std::shared_ptr<Context> context, cl_command_queue queue, const DeviceProfile& profile, MemoryLimit limit)
      : context_(std::move(context)),
        max_allocation_(profile.max_allocation_bytes),
        device_(profile.name),
        limit_is_asked_for_(limit.is_asked_for),
        exact_(exact_mode()),
        alignment_(profile.base_alignment_bytes),
        on_host_(!exact_ && profile.is_cpu() && profile.shares_host_memory && !profile.is_emulator) {
    check(clRetainCommandQueue(queue), "clRetainCommandQueue");
    queue_ = QueueHandle(queue);
    statistics_.of_device = profile.global_bytes;
    statistics_.limit = limit.bytes;
  }
  ~CachingAllocator() override { trim(); }

  Buffer allocate(std::int64_t bytes, std::string_view what) override {
    Lock lock(mutex_);
    const std::int64_t size = size_for(bytes);
    ++statistics_.requests;
    // In exact mode freed blocks wait for `trim`: a checker would take a new buffer at the same address for a freed one.
    std::unique_ptr<Block> block = exact_ ? nullptr : take_cached(size);
    if (!block) block = make(lock, size, bytes, what);
    return held(std::move(block), bytes, what);
  }

  Buffer adopt(const HostBytes& memory, std::int64_t bytes, std::string_view what) override {
    check_takes(memory, bytes, what);
    Lock lock(mutex_);
    make_room(lock, bytes, bytes, what);
    auto block = std::make_unique<Block>();
    block->size = bytes;
    check(create_over(context_->handle.get(), memory, bytes, *block), "clCreateBuffer", std::string(what));
    return held(std::move(block), bytes, what);
  }

  Scratch scratch(std::int64_t bytes, std::string_view what) override {
    if (exact_) {
      Buffer own = allocate(bytes, what);
      const Region region = whole(own);
      return {region, std::move(own), {}};
    }
    lease_.lock();
    std::shared_ptr<void> hold(this, [this](void*) {
      {
        const std::lock_guard lock(mutex_);
        leased_ = false;
      }
      lease_.unlock();
    });
    Lock lock(mutex_);
    if (!scratch_ || scratch_->size < bytes) {
      drop_scratch(lock);
      const std::int64_t size = size_for(bytes);
      scratch_ = take_cached(size);
      if (!scratch_) scratch_ = make(lock, size, bytes, what);
      scratch_->what = "scratch memory";
      statistics_.in_use += scratch_->size;
      statistics_.peak_in_use = std::max(statistics_.peak_in_use, statistics_.in_use);
    }
    if (scratch_->parts.size() > kPartsKept) scratch_->parts.clear();
    scratch_->asked = bytes;
    leased_ = true;
    return {{scratch_.get(), 0, bytes}, {}, std::move(hold)};
  }

  bool exact() const override { return exact_; }

  MemoryStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }
  void reset_peak() override {
    const std::lock_guard lock(mutex_);
    statistics_.peak_in_use = statistics_.in_use;
  }
  void trim() override {
    Lock lock(mutex_);
    drop_cached(lock);
  }
  void before_refusing(std::function<void()> give_up) override {
    const std::lock_guard lock(mutex_);
    give_up_ = std::move(give_up);
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  /// Of the block for a request; no slack where it would be what breaks a limit.
  std::int64_t size_for(std::int64_t bytes) const {
    const std::int64_t least = std::max<std::int64_t>(bytes, 4), size = rounded(least);
    return exact_ || size > max_allocation_ || statistics_.in_use + size > statistics_.limit ? least : size;
  }

  Buffer held(std::unique_ptr<Block> block, std::int64_t bytes, std::string_view what) {
    block->what = what;
    block->asked = bytes;
    statistics_.in_use += block->size;
    statistics_.peak_in_use = std::max(statistics_.peak_in_use, statistics_.in_use);
    block->place = live_.size();
    live_.push_back(block.get());
    return {shared_from_this(), block.release(), bytes};
  }

  void release(Block* block) noexcept override {
    std::unique_ptr<Block> owned(block);  // where it is not kept it goes after the lock: its memory's owner may call back
    const std::lock_guard lock(mutex_);
    live_[block->place] = live_.back();
    live_[block->place]->place = block->place;
    live_.pop_back();
    statistics_.in_use -= block->size;
    if (block->is_the_callers) return;
    if (block->parts.size() > kPartsKept) block->parts.clear();
    try {
      cache_[block->size].push_back(std::move(owned));
      statistics_.cached += block->size;
    } catch (const std::bad_alloc&) {  // the host has no room for a note of it
    }
  }

  std::unique_ptr<Block> take_cached(std::int64_t size) {
    const auto it = cache_.find(size);
    if (it == cache_.end() || it->second.empty()) return nullptr;
    auto block = std::move(it->second.back());
    it->second.pop_back();
    statistics_.cached -= size;
    ++statistics_.hits;
    return block;
  }

  /// Work that is enqueued may hold on to released buffers, so the memory is free only when it is done.
  void drop_cached(Lock& lock) {
    const bool drops_scratch = scratch_ && !leased_;
    if (statistics_.cached == 0 && !drops_scratch) return;
    cache_.clear();
    statistics_.cached = 0;
    if (drops_scratch) return drop_scratch(lock);
    finish(lock);
  }

  /// And what others can do without.
  void drop_all(Lock& lock) {
    if (const auto give_up = give_up_) {
      lock.unlock();
      give_up();
      lock.lock();
    }
    drop_cached(lock);
  }

  void drop_scratch(Lock& lock) {
    if (!scratch_) return;
    statistics_.in_use -= scratch_->size;
    scratch_.reset();
    finish(lock);
  }

  /// Without the lock: what the queue waits for may be a thread that releases a buffer.
  void finish(Lock& lock) {
    lock.unlock();
    opencl::finish(queue_.get());
    lock.lock();
  }

  /// Frees what is cached where the limit asks for it.
  void make_room(Lock& lock, std::int64_t size, std::int64_t asked, std::string_view what) {
    if (statistics_.in_use + statistics_.cached + size > statistics_.limit) drop_cached(lock);
    if (statistics_.in_use + size > statistics_.limit) drop_all(lock);
    if (statistics_.in_use + size > statistics_.limit)
      refuse(asked, what, "the memory limit is reached", limit_is_asked_for_ ? ", or a larger limit (--memory-limit)" : "");
    if (size > max_allocation_) refuse(asked, what, fmt::format("the device's largest buffer is {} bytes", max_allocation_));
  }

  std::unique_ptr<Block> make(Lock& lock, std::int64_t size, std::int64_t asked, std::string_view what) {
    make_room(lock, size, asked, what);
    for (bool last_try : {false, true}) {
      cl_int code = CL_SUCCESS;
      auto block = std::make_unique<Block>();
      if (on_host_)
        code = allocate_on_host(context_->handle.get(), size, alignment_, *block);
      else
        block->memory = MemoryHandle(clCreateBuffer(context_->handle.get(), CL_MEM_READ_WRITE, at(size), nullptr, &code));
      block->size = size;
      if (code == CL_SUCCESS) return block;
      if (last_try)
        refuse(asked, what, fmt::format("clCreateBuffer: {}, so others may hold the rest of the device's memory", code_name(code)), ", or another device");
      drop_all(lock);
    }
    return nullptr;
  }

  /// @param more  that is accepted beside what asks for less memory
  [[noreturn]] void refuse(std::int64_t asked, std::string_view what, const std::string& why, std::string_view more = "") const {
    std::vector<const Block*> largest(live_.begin(), live_.end());
    if (scratch_) largest.push_back(scratch_.get());
    std::stable_sort(largest.begin(), largest.end(), [](const Block* a, const Block* b) { return a->size > b->size; });
    std::string list;
    for (std::size_t i = 0; i < std::min<std::size_t>(5, largest.size()); ++i)
      list += fmt::format("{}{} ({} bytes)", i ? ", " : "", largest[i]->what, largest[i]->size);
    throw MemoryError(fmt::format("out of memory on {}: {} bytes asked for {}, {}: {}; largest: {}; accepted: a smaller batch, input or model{}", device_,
                                  asked, what, text_of(statistics_), why, list.empty() ? "none" : list, more));
  }

  std::shared_ptr<Context> context_;
  QueueHandle queue_;
  std::int64_t max_allocation_;
  std::string device_;
  bool limit_is_asked_for_;
  bool exact_;
  std::int64_t alignment_;
  bool on_host_;
  mutable std::mutex mutex_;
  std::unordered_map<std::int64_t, std::vector<std::unique_ptr<Block>>> cache_;  // by size
  std::vector<Block*> live_;                                                     // handed out, in any order
  MemoryStatistics statistics_;
  std::mutex lease_;  // of the scratch memory, taken before mutex_
  std::unique_ptr<Block> scratch_;
  bool leased_ = false;
  std::function<void()> give_up_;
};

}  // namespace

std::shared_ptr<Allocator> make_allocator(std::shared_ptr<Context> context, cl_command_queue queue, const DeviceProfile& profile, MemoryLimit limit) {
  return std::make_shared<CachingAllocator>(std::move(context), queue, profile, limit);
}

std::string text_of(const MemoryStatistics& s) { return fmt::format("{} held, {} on the device, limit {}", s.in_use, s.of_device, s.limit); }

cl_mem memory_of(const Region& region) {
  if (!region.block) return nullptr;  // an argument that is not there
  Block& block = *region.block;
  if (region.bytes == 0 || (region.offset == 0 && region.bytes == block.asked)) return block.memory.get();
  MemoryHandle& part = block.parts[{region.offset, region.bytes}];
  if (!part) {
    const cl_buffer_region range{at(region.offset), at(region.bytes)};
    cl_int code = CL_SUCCESS;
    part = MemoryHandle(clCreateSubBuffer(block.memory.get(), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &range, &code));
    check(code, "clCreateSubBuffer", fmt::format("offset {}, {} bytes of {}", region.offset, region.bytes, block.what));
  }
  return part.get();
}

Buffer::Buffer(std::shared_ptr<Allocator> allocator, Block* block, std::int64_t bytes) : allocator_(std::move(allocator)), block_(block), bytes_(bytes) {}
Buffer::Buffer(Buffer&& other) noexcept
    : allocator_(std::move(other.allocator_)), block_(std::exchange(other.block_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer taken(std::move(other));
  std::swap(allocator_, taken.allocator_);
  std::swap(block_, taken.block_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}
Buffer::~Buffer() {
  if (block_) allocator_->release(block_);
}

}  // namespace gemel::opencl
