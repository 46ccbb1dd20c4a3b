// Typed errors. InternalError is a fault of Gemel; all others report a fault of the user's input or of the system.
#pragma once
#include <exception>
#include <stdexcept>
#include <string>

namespace gemel {

/// Base class of all errors that Gemel throws. Text: `op: what is wrong, what was given, what is accepted`.
class Error : public std::runtime_error {
 public:
  /// Escapes NUL characters in the text, at which what() would end.
  explicit Error(const std::string& text);
};

/// Invalid shapes, element types, axes or attributes.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// Failure of a device, its driver, its compiler or its memory.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A device has not enough memory.
class MemoryError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// Failure of communication between ranks.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A file or data set that is missing, truncated, malformed or out of range.
class DataError : public Error {
 public:
  using Error::Error;
};

/// Invalid use: an unknown option or name, or a call that the current state does not allow.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant of Gemel itself.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Message for the user. An Error keeps its own text; exceptions of libraries are reworded, because their texts address programmers.
std::string worded(const std::exception& error);

}  // namespace gemel
