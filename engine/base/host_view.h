// Memory that the host and a device share: given by the caller, or seen through a view.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "engine/base/event.h"

namespace gemel {

/// Memory of the host's for a device to compute in: a shared mapping, for instance.
struct HostBytes {
  std::shared_ptr<std::byte> first;  // begins a page; frees the memory with its last owner
  std::int64_t bytes = 0;
};

/// The alignment of such memory: drivers compute without a copy of their own only in whole pages.
inline constexpr std::int64_t kHostPage = 4096;

/// What is done in a view. `write` leaves undefined what is not written.
enum class Access { read, write, read_write };

/// Bytes of a device's memory as the host sees them while this lives. The device and the memory must outlive it.
class HostView {
 public:
  HostView() = default;
  /// @param ready  when the host may use the bytes  @param give_back  brings them to the device; empty where they are in its memory
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
    } catch (...) {  // the driver refuses; whoever has to know calls `release`
    }
  }

  const Event& ready() const { return ready_; }
  /// Waits until they are ready.
  std::span<std::byte> bytes() const {
    ready_.wait();
    return bytes_;
  }
  /// Ends the view. @return when the device sees what was written
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
