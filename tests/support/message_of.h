// What a refusal says.
#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace gemel::testing {

/// The message of the exception of type E that `run` throws; a failure and "" where it throws none.
template <class E, class Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception was thrown: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace gemel::testing
