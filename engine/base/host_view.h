// Memory that the host and a device share: HostBytes, which the caller gives to a device, and HostView, through which the host sees device memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "engine/base/event.h"

namespace gemel {

/// Host memory for a device to compute in, such as a mapping that processes share.
struct HostBytes {
  std::shared_ptr<std::byte> first;  // aligned to kHostPage; its deleter frees the memory
  std::int64_t bytes = 0;
};

/// Alignment of HostBytes. Drivers use host memory without a copy only in whole pages.
inline constexpr std::int64_t kHostPage = 4096;

/// How the host uses a view. With `write`, bytes that the host does not write become undefined.
enum class Access { read, write, read_write };

/// Device memory as the host sees it, until this object is released or destroyed. Device and memory must outlive it.
class HostView {
 public:
  HostView() = default;
  /// @param ready      complete when the host may use the bytes
  /// @param give_back  returns the bytes to the device; empty if they lie in the device's own memory
  HostView(std::span<std::byte> bytes, Event ready, std::function<Event()> give_back = {})
      : bytes_(bytes), ready_(std::move(ready)), give_back_(std::move(give_back)) {}
  HostView(HostView&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), ready_(std::move(other.ready_)), give_back_(std::exchange(other.give_back_, nullptr)) {}
  HostView& operator=(HostView&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(ready_, other.ready_);
    std::swap(give_back_, other.give_back_);
    return *this;
  }
  ~HostView() {
    try {
      release();
    } catch (...) {  // call `release` to see errors of the driver
    }
  }

  const Event& ready() const { return ready_; }
  /// Waits until the bytes are ready.
  std::span<std::byte> bytes() const {
    ready_.wait();
    return bytes_;
  }
  /// Ends the view. @return event that is complete when the device sees what the host wrote
  Event release() {
    bytes_ = {};
    const auto give_back = std::exchange(give_back_, nullptr);
    return give_back ? give_back() : Event();
  }

 private:
  std::span<std::byte> bytes_;
  Event ready_;
  std::function<Event()> give_back_;
};

}  // namespace gemel
