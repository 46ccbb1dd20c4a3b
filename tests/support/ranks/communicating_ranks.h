// Ranks that are threads of this process, each with a communication thread of its own.
#pragma once
#include <fmt/format.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/collectives/communication_thread.h"
#include "parallel/transport/thread_communicator.h"

namespace gemel::testing {

/// Runs the body for every rank. An error of one ends the others' waits. @throws the first rank's
inline void run_communicating_ranks(int ranks, const std::function<void(parallel::CommunicationThread&)>& body, std::vector<std::string> hosts = {},
                                    std::optional<parallel::Algorithm> algorithm = {}) {
  auto communicators = parallel::thread_communicators(ranks, std::move(hosts));
  std::vector<std::exception_ptr> errors(communicators.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < communicators.size(); ++r)
      threads.emplace_back([&, r] {
        try {
          parallel::CommunicationThread communication([&] { return std::move(communicators[r]); }, algorithm);
          try {
            body(communication);
          } catch (const std::exception& e) {
            communication.abort(fmt::format("rank {} failed: {}", r, e.what()));
            throw;
          }
        } catch (...) {
          errors[r] = std::current_exception();
        }
      });
  }
  for (const auto& e : errors)
    if (e) std::rethrow_exception(e);
}

}  // namespace gemel::testing
